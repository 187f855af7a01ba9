//! Values of flags.

use rounds_kernels::features::Norm;

/// Splits `KEY=VALUE`; of `KEY=@FILE` the value is the lines of the file, separated by commas.
pub(super) fn key_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or_else(|| format!("'{text}' is not of the form KEY=VALUE"))?;
    let value = match value.strip_prefix('@') {
        None => value.to_owned(),
        Some(path) => {
            let content = std::fs::read_to_string(path).map_err(|error| format!("{path} cannot be read: {error}"))?;
            // A file of rows that was named by mistake is not shown.
            let lines = content.lines().map(str::trim).enumerate().filter(|(_, line)| !line.is_empty());
            let number = |(place, line): (usize, &str)| match line.parse::<f64>() {
                Ok(_) => Ok(line.to_owned()),
                Err(_) => Err(format!("{path}: line {} is not a number", place + 1)),
            };
            lines.map(number).collect::<Result<Vec<_>, _>>()?.join(",")
        }
    };
    Ok((key.to_owned(), value))
}

/// A positive finite number.
fn positive<T: std::str::FromStr + Into<f64> + Copy>(text: &str) -> Option<T> {
    text.parse().ok().filter(|&number: &T| number.into() > 0.0 && number.into().is_finite())
}

/// A finite number: others would be lost among the arguments that are left out.
pub(super) fn finite(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| format!("'{text}' is not a finite number"))
}

/// A number between 0 and 1.
pub(super) fn fraction(text: &str) -> Result<f64, String> {
    let number = positive(text).filter(|&number: &f64| number < 1.0);
    number.ok_or_else(|| format!("'{text}' is not between 0 and 1"))
}

/// Reads `l2=BOUND` or `l1=BOUND`.
pub(super) fn norm_bound(text: &str) -> Result<(Norm, f64), String> {
    match text.split_once('=').map(|(norm, bound)| (norm, positive(bound))) {
        Some(("l1", Some(bound))) => Ok((Norm::L1, bound)),
        Some(("l2", Some(bound))) => Ok((Norm::L2, bound)),
        _ => Err(format!("'{text}' is not of the form l2=BOUND or l1=BOUND with a bound above 0")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_a_text_or_the_lines_of_a_file() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), " 1\n\n0.5\n").expect("written");
        let of = |value: &str| key_value(&format!("decay={value}")).map(|(_, value)| value);
        assert_eq!(of("file=x"), Ok("file=x".to_owned()));
        assert_eq!(of(&format!("@{}", file.path().display())), Ok("1,0.5".to_owned()));
        std::fs::write(file.path(), "1\n17,private\n").expect("written");
        let said = of(&format!("@{}", file.path().display())).unwrap_err();
        assert!(said.ends_with("line 2 is not a number") && !said.contains("private"), "{said}");
        assert!(of("@/no/such/file").is_err() && key_value("decay").is_err());
    }
}
