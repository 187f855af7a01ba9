//! Numbers as people read them, and text made safe for HTML and SVG.

/// A time with the unit that suits it: `17 µs`, `3.4 ms`.
pub(super) fn time(nanoseconds: f64) -> String {
    let units = [(1e9, "s"), (1e6, "ms"), (1e3, "µs")];
    let (scale, unit) = units
        .into_iter()
        .find(|(scale, _)| nanoseconds >= *scale * 0.9995)
        .unwrap_or((1.0, "ns"));
    format!("{} {unit}", three_digits(nanoseconds / scale))
}

/// Three significant digits, without trailing zeros after the point.
pub(super) fn three_digits(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let decimals = (2 - value.abs().log10().floor() as i32).max(0) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_string()
    } else {
        text
    }
}

/// A whole number with thin spaces between its thousands.
pub(super) fn count(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 && digits.len() > 4 {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    if value < 0.0 { format!("−{text}") } else { text }
}

/// A number of things that need not be whole: three digits, or all of them where it is large.
pub(super) fn some(value: f64) -> String {
    if value >= 999.5 {
        count(value)
    } else {
        three_digits(value)
    }
}

/// A share as a percentage.
pub(super) fn percent(share: f64) -> String {
    format!("{} %", three_digits(100.0 * share))
}

/// Text in which no character means anything to HTML or XML.
pub(super) fn escape(text: &str) -> String {
    text.chars()
        .fold(String::with_capacity(text.len()), |mut safe, letter| {
            match letter {
                '&' => safe.push_str("&amp;"),
                '<' => safe.push_str("&lt;"),
                '>' => safe.push_str("&gt;"),
                '"' => safe.push_str("&quot;"),
                '\'' => safe.push_str("&#39;"),
                _ => safe.push(letter),
            }
            safe
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_take_the_unit_that_suits_them() {
        for (nanoseconds, expected) in [
            (7.0, "7 ns"),
            (1000.0, "1 µs"),
            (17_340.0, "17.3 µs"),
            (999_900.0, "1 ms"),
            (3.45e9, "3.45 s"),
            (1e11, "100 s"),
        ] {
            assert_eq!(time(nanoseconds), expected);
        }
    }

    #[test]
    fn counts_are_grouped_from_five_digits_on() {
        assert_eq!(count(8000.0), "8000");
        assert_eq!(count(60_000.0), "60\u{202f}000");
        assert_eq!(count(1_234_567.0), "1\u{202f}234\u{202f}567");
    }

    #[test]
    fn nothing_escapes_from_text() {
        assert_eq!(
            escape("<a href=\"x\">'&'"),
            "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;"
        );
    }
}
