//! Words and numbers of messages.

use std::error::Error;

pub use rounds_algorithms::catalog::nearest;

/// The names of arguments, as messages have them in backticks.
pub const ARGUMENTS: &str = "accountant adjacency algorithm allow-weak-privacy batch-size bounds checkpoint checkpoint-every classes \
    clip-features clip-norm compose data data-dir delta diagnostics dimension drop engine epochs epsilon factorization features filter first-index grid label \
    law learning-rate ledger loss model model-kind momentum noise noise-multiplier one-run public-rows regularization resume rows sampling scale-features \
    schema score-on secure seed selection set sign statement task test test-split trials unit unit-ids units verify";

/// A message of another library on one line, its names in quotes: a name in backticks is an argument here, whatever field of a file it is
/// there.
pub fn foreign(message: &(impl std::fmt::Display + ?Sized)) -> String {
    message.to_string().trim().replace('`', "'").replace('\n', " ")
}

/// The power of ten of the last of so many significant digits.
fn last_place(value: f64, digits: i32) -> i32 {
    value.abs().clamp(1e-290, f64::MAX).log10().floor() as i32 + 1 - digits
}

fn significant(value: f64, digits: i32) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    // Beyond, as many zeros as digits of a number tell nothing.
    if value.abs() >= 1e16 {
        return format!("{value:.*e}", digits.max(1) as usize - 1);
    }
    let text = format!("{value:.*}", (-last_place(value, digits)).max(0) as usize);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}

/// Three significant digits, without trailing zeros after the point.
pub fn three_digits(value: f64) -> String {
    significant(value, 3)
}

/// Three significant digits, never more than there is.
pub fn rounded_down(value: f64) -> String {
    let nearest = significant(value, 3);
    if nearest.parse().is_ok_and(|nearest: f64| nearest <= value) {
        return nearest;
    }
    let unit = 10_f64.powi(last_place(value, 3));
    significant((value / unit).floor() * unit, 3)
}

/// A part that is left, in per cent: of less than a billionth nothing.
pub fn percent_left(part: f64) -> String {
    rounded_down(if part < 1e-9 { 0.0 } else { 100.0 * part })
}

/// Significant digits, never less than there is; a number that is round but for its last bits gains none.
pub fn rounded_up(value: f64, digits: i32) -> String {
    let unit = 10_f64.powi(last_place(value, digits));
    significant((value / unit * (1.0 - 1e-13)).ceil() * unit, digits)
}

/// A word as a shell reads it.
pub fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_=,./:+%@".contains(letter);
    if !word.is_empty() && word.chars().all(plain) { word.into() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

/// An error with its causes, `what: why: why that`; a cause that is in the text already is not said again.
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |cause| (*cause).source());
    causes.fold(error.to_string(), |said, cause| {
        let cause = cause.to_string();
        if said.contains(&cause) { said } else { format!("{said}: {cause}") }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quoted("--threads=1,2"), "--threads=1,2");
        assert_eq!((quoted("it's").as_str(), quoted("").as_str()), (r"'it'\''s'", "''"));
    }

    #[test]
    fn fields_of_a_file_are_no_arguments() {
        let error = crate::data::schema::parse("s.toml", "[rows]\nlabel = 'x'\n").unwrap_err().to_string();
        assert!(error.contains("unknown field 'label'") && !error.contains('`'), "{error}");
    }

    #[test]
    fn digits_are_rounded_to_the_safe_side() {
        for (value, down, up) in [
            (0.29991, "0.299", "0.3"),
            (99.97, "99.9", "100"),
            (0.0, "0", "0"),
            (100.0, "100", "100"),
            (2.5e20, "2.50e20", "2.50e20"),
        ] {
            assert_eq!((rounded_down(value).as_str(), rounded_up(value, 3).as_str()), (down, up));
        }
    }
}
