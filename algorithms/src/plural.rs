//! Numbers with their nouns.

/// A number with its noun: `1 core`, `2 cores`, `2 studies`.
pub fn plural(number: usize, noun: &str) -> String {
    match noun.strip_suffix('y') {
        _ if number == 1 => format!("1 {noun}"),
        Some(stem) => format!("{number} {stem}ies"),
        None => format!("{number} {noun}s"),
    }
}
