//! Words and numbers of messages.

use std::error::Error;

/// The names of arguments, as messages have them in backticks.
pub const ARGUMENTS: &str = "accountant adjacency allow-weak-privacy batch-size bounds checkpoint checkpoint-every classes \
    clip-features clip-norm data data-dir delta diagnostics dimension drop engine epochs epsilon factorization first-index grid label law \
    learning-rate ledger loss model model-kind momentum noise noise-multiplier public-rows regularization resume rows sampling scale-features schema \
    score-on secure seed set sign statement task test test-split trials unit unit-ids verify";

/// Three significant digits, without trailing zeros after the point.
pub fn three_digits(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let decimals = (2 - value.abs().log10().floor() as i32).max(0) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}

/// A word as a shell reads it.
pub fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_=,./:+%@".contains(letter);
    if !word.is_empty() && word.chars().all(plain) { word.into() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

/// The candidate that is nearest to a name, if any is near: few letters apart, or alike at the beginning.
pub fn nearest<'a>(name: &str, candidates: &[&'a str]) -> Option<&'a str> {
    // Of candidates that are equally far, the one that is more alike: dp-sgd for dpsgd, not dp-gd.
    let similarity = |candidate: &str| {
        let apart = strsim::damerau_levenshtein(name, candidate);
        let alike = strsim::jaro_winkler(name, candidate);
        if apart <= (name.chars().count() / 3).max(1) { alike - apart as f64 } else { alike - 1e3 }
    };
    let near = |candidate: &str| similarity(candidate) > 0.8 - 1e3;
    candidates
        .iter()
        .copied()
        .filter(|candidate| near(candidate))
        .max_by(|first, second| similarity(first).total_cmp(&similarity(second)))
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
    fn near_names_are_suggested() {
        assert_eq!(nearest("dpsgd", &["dp-gd", "dp-sgd", "sgd"]), Some("dp-sgd"));
        assert_eq!(nearest("nothing-like-it", &["dp-gd"]), None);
    }
}
