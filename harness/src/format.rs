//! Text for people: times with units, significant digits, grouped thousands, lines of a width.

pub(crate) use rounds_algorithms::plural;
pub(crate) use rounds_models::text::three_digits;

/// A time with a suitable unit: `17 µs`, `3.4 ms`.
pub(crate) fn time(nanoseconds: f64) -> String {
    let units = [(1e9, "s"), (1e6, "ms"), (1e3, "µs")];
    let (scale, unit) =
        units.into_iter().find(|(scale, _)| nanoseconds.abs() >= *scale * 0.9995).unwrap_or((1.0, "ns"));
    format!("{} {unit}", three_digits(nanoseconds / scale))
}

/// The same of seconds.
pub(crate) fn seconds(seconds: f64) -> String {
    if seconds == 0.0 {
        return "0".to_owned();
    }
    time(1e9 * seconds)
}

/// A whole number with narrow spaces between its thousands, from five digits on; in scientific form where digits are none of its own.
pub(crate) fn count(value: f64) -> String {
    if value.abs() >= 1e16 {
        return minus(&three_digits(value));
    }
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

/// Large numbers as counts, others with three significant digits.
pub(crate) fn number(value: f64) -> String {
    if value.is_finite() && value.abs() >= 1e4 { count(value) } else { minus(&three_digits(value)) }
}

/// A text with minus signs for the hyphens before its numbers; those of `1e-5` and of names stay.
pub(crate) fn minus(text: &str) -> String {
    let mut before = ' ';
    let mut letters = text.chars().peekable();
    let mut typeset = String::new();
    while let Some(letter) = letters.next() {
        let is_minus = letter == '-' && " ([".contains(before) && letters.peek().is_some_and(char::is_ascii_digit);
        typeset.push(if is_minus { '−' } else { letter });
        before = letter;
    }
    typeset
}

/// A small bound in scientific form, 0 as it is: three digits, rounded up.
pub(crate) fn scientific(bound: f64) -> String {
    let text = format!("{bound:e}");
    if bound == 0.0 {
        "0".to_owned()
    } else if text.len() <= 8 || !(1e-300..f64::INFINITY).contains(&bound.abs()) {
        text
    } else {
        let unit = 10_f64.powi(bound.abs().log10().floor() as i32 - 2);
        format!("{:.2e}", (bound / unit * (1.0 - 1e-13)).ceil() * unit)
    }
}

/// A share as a percentage.
pub(crate) fn percent(share: f64) -> String {
    format!("{} %", three_digits(100.0 * share))
}

/// A ratio as a change: `5 % more` or `37 % less`, with these words.
pub(crate) fn changed(ratio: f64, more: &str, less: &str) -> String {
    let word = if ratio < 1.0 { less } else { more };
    format!("{} {word}", percent((ratio - 1.0).abs()))
}

/// A share of a measured limit. Noise alone can exceed it: the limit is shown then.
pub(crate) fn of_limit(share: f64) -> String {
    if share > 1.0 { "100 % (at the limit)".to_owned() } else { percent(share) }
}

/// Bytes in KiB, MiB or GiB.
pub(crate) fn bytes(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let (shift, unit) = units.into_iter().find(|(shift, _)| bytes >> shift > 0).unwrap_or((0, "B"));
    format!("{} {unit}", three_digits(bytes as f64 / f64::from(1_u32 << shift)))
}

/// Lines of at most `letters` letters, broken between words; a longer word has a line of its own.
pub(crate) fn wrapped(text: &str, letters: usize) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= letters => line.extend([" ", word]),
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A text whose numbers with many decimals have three digits, and large ones the thousands of [`count`].
pub(crate) fn rounded(text: &str) -> String {
    let word = |word: &str| {
        let number = word.trim_end_matches([',', ';', ')', '.']);
        let digits = number.replace(',', "");
        if (digits.len() > 4 || digits != number) && digits.bytes().all(|digit| digit.is_ascii_digit()) {
            return digits.parse().map_or_else(|_| word.to_owned(), count) + &word[number.len()..];
        }
        let decimals = number.split_once('.').filter(|(_, decimals)| decimals.len() > 4);
        match decimals.and_then(|_| number.parse().ok()) {
            Some(value) => three_digits(value) + &word[number.len()..],
            None => word.to_owned(),
        }
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_suitable_unit() {
        for (nanoseconds, expected) in [
            (7.0, "7 ns"),
            (1000.0, "1 µs"),
            (17_340.0, "17.3 µs"),
            (999_900.0, "1 ms"),
            (3.45e9, "3.45 s"),
            (1e11, "100 s"),
            (-3.4e6, "-3.4 ms"),
        ] {
            assert_eq!(time(nanoseconds), expected);
        }
        assert_eq!(seconds(9.85e-5), "98.5 µs");
    }

    #[test]
    fn counts_are_grouped_from_five_digits_on() {
        assert_eq!(count(8000.0), "8000");
        assert_eq!(count(60_000.0), "60\u{202f}000");
        assert_eq!(count(1_234_567.0), "1\u{202f}234\u{202f}567");
        assert_eq!([1e80, -2e20].map(count), ["1.00e80", "−2.00e20"]);
        assert_eq!([0.123_456, -0.5, 16_384.4].map(number), ["0.123", "−0.5", "16\u{202f}384"]);
        assert_eq!(minus("-0.6 (-7 – -0.5), 1e-5, dp-2"), "−0.6 (−7 – −0.5), 1e-5, dp-2");
        assert_eq!(changed(0.63, "higher", "lower"), "37 % lower");
        assert_eq!([48 << 10, 2 << 20, 3 << 29, 7].map(bytes), ["48 KiB", "2 MiB", "1.5 GiB", "7 B"]);
        assert_eq!(plural(1, "core") + &plural(2, "core"), "1 core2 cores");
    }

    #[test]
    fn small_bounds_are_short_and_never_below_their_value() {
        assert_eq!([0.0, 1e-5, 2.5e-6, 0.1].map(scientific), ["0", "1e-5", "2.5e-6", "1e-1"]);
        for bound in [3.718_281_828e-5, 9.999_9e-7, 1.000_1e-12, 0.123_456, 1.234_567e-299] {
            let text = scientific(bound);
            let shown: f64 = text.parse().unwrap();
            assert!(text.len() <= 9 && (bound..1.01 * bound).contains(&shown), "{bound:e}: {text}");
        }
        assert_eq!(scientific(1.234_567_8e-307), "1.2345678e-307");
    }

    #[test]
    fn lines_are_broken_between_words() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("", 7), [""]);
        assert_eq!(
            rounded("n = 10,000, m = 65536; 2026-11 1,024"),
            "n = 10\u{202f}000, m = 65\u{202f}536; 2026-11 1024"
        );
    }
}
