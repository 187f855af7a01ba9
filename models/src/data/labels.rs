//! Labels as they stand in a file, and without a declared domain the classes or real targets that training labels make.

use std::collections::HashMap;
use std::path::Path;

use crate::data::error::{DataError, listing};
use rounds_algorithms::choices::choices;
use rounds_algorithms::problem::{Encoder, Labels};
use serde::Serialize;

choices! {
    /// The meaning of a label whose values are integers.
    #[derive(Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Task {
        /// Each value is a class.
        Classification = "classification",
        /// Values are numbers.
        Regression = "regression",
    }
}

/// Numbers are classes if they are integers of which at most so many differ.
pub(super) const AUTOMATIC_CLASSES: usize = 256;
/// The largest number of classes.
pub(super) const MOST_CLASSES: usize = 65_536;

/// Labels as they stand in a file, or encoded into a domain.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum RawLabels {
    /// Codes of a domain's encoder; the features are encoded, too.
    Encoded(Vec<u32>),
    /// None, of so many rows: a model predicts them.
    Absent(usize),
    Numbers(Vec<f32>),
    /// Classes as the format numbers them, from 0.
    Indices {
        values: Vec<i64>,
        /// The number of classes, if it is known.
        classes: Option<usize>,
    },
    /// Words: each row's index into the different ones.
    Words {
        rows: Vec<u32>,
        /// The different words, in any order.
        words: Vec<String>,
    },
}

/// Different words and the order in which they came.
#[derive(Default)]
pub(super) struct Words {
    indices: HashMap<Vec<u8>, u32>,
    pub(super) ordered: Vec<Vec<u8>>,
}

impl Words {
    pub(super) fn index(&mut self, word: &[u8]) -> u32 {
        if let Some(&index) = self.indices.get(word) {
            return index;
        }
        let index = self.ordered.len() as u32;
        self.indices.insert(word.to_vec(), index);
        self.ordered.push(word.to_vec());
        index
    }

    /// The labels of rows with these words.
    pub(super) fn labels(&self, rows: Vec<u32>) -> RawLabels {
        let text = |word: &Vec<u8>| String::from_utf8_lossy(word).into_owned();
        RawLabels::Words { rows, words: self.ordered.iter().map(text).collect() }
    }
}

/// The meaning of labels, which training labels define for the test labels.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Meaning {
    /// Real targets.
    Targets,
    /// Classes that are numbers, ascending.
    Numbers(Vec<f32>),
    /// Classes that are numbered from 0; their number.
    Indices(usize),
    /// Classes that are words, sorted.
    Words(Vec<String>),
}

/// The different numbers of `labels`, ascending, or `None` if there are more than `limit`.
fn distinct(labels: &[f32], limit: usize) -> Option<Vec<f32>> {
    let mut found: Vec<f32> = Vec::new();
    let mut last = f32::NAN;
    for &label in labels {
        if label != last {
            last = label;
            // −0 and 0 are one class.
            let label = label + 0.0;
            if let Err(place) = found.binary_search_by(|probe| probe.total_cmp(&label)) {
                if found.len() == limit {
                    return None;
                }
                found.insert(place, label);
            }
        }
    }
    Some(found)
}

impl RawLabels {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Encoded(values) | Self::Words { rows: values, .. } => values.len(),
            Self::Numbers(values) => values.len(),
            Self::Indices { values, .. } => values.len(),
            Self::Absent(rows) => *rows,
        }
    }

    /// The codes of these labels in the encoder's domain.
    pub(super) fn codes(self, encoder: &Encoder<'_>) -> Vec<u32> {
        match self {
            Self::Encoded(codes) => codes,
            // Any class: it is not read.
            Self::Absent(rows) => vec![0; rows],
            Self::Numbers(values) => {
                let code = |number| encoder.label_number(f64::from(number));
                values.into_iter().map(code).collect()
            }
            Self::Indices { values, .. } => {
                let code = |number| encoder.label_number(number as f64);
                values.into_iter().map(code).collect()
            }
            Self::Words { rows, words } => {
                let codes: Vec<u32> = words.iter().map(|word| encoder.label(word.as_bytes())).collect();
                rows.into_iter().map(|word| codes[word as usize]).collect()
            }
        }
    }

    /// The meaning of these labels of training rows: words are classes; numbers are, too, if they are integers of which at most
    /// [`AUTOMATIC_CLASSES`] differ. `task` decides otherwise.
    ///
    /// # Errors
    /// A label that is not finite or not a class; words for a regression, fractions for classes.
    pub(super) fn meaning(&self, path: &Path, task: Option<Task>) -> Result<Meaning, DataError> {
        let refuse = |problem: &str| Err(DataError::contents(path, problem));
        Ok(match self {
            Self::Encoded(_) => unreachable!("encoded labels have a domain"),
            Self::Absent(_) => Meaning::Targets,
            Self::Words { .. } if task == Some(Task::Regression) => {
                return refuse("its labels are words; a regression needs numbers, or leave out `task`");
            }
            Self::Numbers(values) => {
                check_finite(path, values)?;
                let limit = match task {
                    Some(Task::Regression) => return Ok(Meaning::Targets),
                    Some(Task::Classification) => MOST_CLASSES,
                    None => AUTOMATIC_CLASSES,
                };
                let integers = values.iter().all(|value| value.fract() == 0.0);
                match integers.then(|| distinct(values, limit)).flatten() {
                    Some(numbers) => Meaning::Numbers(numbers),
                    None if task.is_none() => Meaning::Targets,
                    None => return refuse("its labels are fractions, or too many different numbers, for classes"),
                }
            }
            Self::Indices { .. } if task == Some(Task::Regression) => Meaning::Targets,
            Self::Indices { classes: Some(classes), .. } => Meaning::Indices(*classes),
            // A label that leaves the classes at most as many as the rows, or 256, is no damaged one.
            Self::Indices { values, classes: None } => {
                let limit = values.len().max(256);
                check_indices(path, values, limit)?;
                Meaning::Indices(values.iter().max().map_or(0, |&label| label as usize + 1))
            }
            Self::Words { words, .. } if words.len() > MOST_CLASSES => {
                return refuse(&format!(
                    "more than {MOST_CLASSES} different words as labels; choose another label column"
                ));
            }
            Self::Words { words, .. } => {
                let mut names = words.clone();
                names.sort_unstable();
                Meaning::Words(names)
            }
        })
    }

    /// The labels with the meaning that training labels have.
    ///
    /// # Errors
    /// A label that is not finite or not a class.
    pub(super) fn with_meaning(self, path: &Path, meaning: &Meaning) -> Result<Labels, DataError> {
        let unknown = |row: usize, found: String, names: &[String]| DataError::label(path, row, found, listing(names));
        let (values, names): (Result<Vec<u32>, DataError>, Vec<String>) = match (self, meaning) {
            (Self::Numbers(values), Meaning::Targets) => {
                check_finite(path, &values)?;
                return Ok(Labels::Values(values));
            }
            (Self::Absent(rows), Meaning::Targets) => return Ok(Labels::Values(vec![0.0; rows])),
            (Self::Indices { values, .. }, Meaning::Targets) => {
                return Ok(Labels::Values(values.into_iter().map(|value| value as f32).collect()));
            }
            (Self::Indices { values, .. }, Meaning::Indices(classes)) => {
                check_indices(path, &values, *classes)?;
                return Ok(Labels::Classes {
                    values: values.into_iter().map(|label| label as u32).collect(),
                    classes: *classes,
                    names: None,
                });
            }
            (Self::Numbers(values), Meaning::Numbers(numbers)) => {
                let names: Vec<String> = numbers.iter().map(ToString::to_string).collect();
                let class = |(row, value): (usize, f32)| {
                    let class = numbers.binary_search_by(|probe| probe.total_cmp(&(value + 0.0)));
                    class.map(|class| class as u32).map_err(|_| unknown(row, value.to_string(), &names))
                };
                (values.into_iter().enumerate().map(class).collect(), names)
            }
            (Self::Words { rows, words }, Meaning::Words(names)) => {
                let known: Vec<_> = words.iter().map(|word| names.binary_search(word)).collect();
                let class = |(row, word): (usize, u32)| match known[word as usize] {
                    Ok(class) => Ok(class as u32),
                    Err(_) => Err(unknown(row, format!("{:?}", words[word as usize]), names)),
                };
                (rows.into_iter().enumerate().map(class).collect(), names.clone())
            }
            _ => {
                let problem = "its labels are numbers and those of the training rows are words, or the other way round";
                return Err(DataError::contents(path, problem));
            }
        };
        Ok(Labels::Classes { values: values?, classes: names.len(), names: Some(names) })
    }
}

fn check_finite(path: &Path, values: &[f32]) -> Result<(), DataError> {
    match values.iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(row) => Err(DataError::label(path, row, values[row], "of finite numbers")),
    }
}

fn check_indices(path: &Path, values: &[i64], classes: usize) -> Result<(), DataError> {
    let is_class = |&label: &i64| usize::try_from(label).is_ok_and(|label| label < classes);
    let Some(row) = values.iter().position(|label| !is_class(label)) else {
        return Ok(());
    };
    let classes = format_args!("0 to {}", classes.saturating_sub(1));
    Err(DataError::label(path, row, values[row], classes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str], rows: &[u32]) -> RawLabels {
        RawLabels::Words { rows: rows.to_vec(), words: words.iter().map(ToString::to_string).collect() }
    }

    fn refusal(labels: RawLabels, meaning: &Meaning) -> String {
        labels.with_meaning(Path::new("p"), meaning).unwrap_err().for_reader().to_string()
    }

    /// Labels of training rows, and their meaning.
    fn decided(labels: RawLabels) -> (Labels, Meaning) {
        let path = Path::new("p");
        let meaning = labels.meaning(path, None).unwrap();
        (labels.with_meaning(path, &meaning).unwrap(), meaning)
    }

    #[test]
    fn integers_become_classes_in_ascending_order_and_words_in_alphabetical_order() {
        for (labels, names) in [
            (RawLabels::Numbers(vec![1.0, -1.0, 1.0]), ["-1", "1"]),
            (words(&["yes", "no"], &[0, 1, 0]), ["no", "yes"]),
        ] {
            let expected =
                Labels::Classes { values: vec![1, 0, 1], classes: 2, names: Some(names.map(str::to_owned).to_vec()) };
            assert_eq!(decided(labels).0, expected);
        }
        let (labels, numbers) = decided(RawLabels::Numbers(vec![0.0, -0.0, 3.0]));
        assert_eq!(labels.classes(), Some(2));
        assert!(refusal(RawLabels::Numbers(vec![-0.0, 4.0]), &numbers).contains("row 2 (counted from 1): label 4"));
        let (_, yes_no) = decided(words(&["yes", "no"], &[0, 1]));
        assert!(refusal(words(&["maybe"], &[0]), &yes_no).contains("row 1 (counted from 1): label \"maybe\""));
        assert!(refusal(RawLabels::Numbers(vec![1.0]), &yes_no).contains("words"));
        assert!(refusal(words(&["0"], &[0]), &numbers).contains("words"));
    }

    #[test]
    fn fractions_and_many_integers_are_targets() {
        let fractions = RawLabels::Numbers(vec![0.5, 1.0]);
        assert_eq!(decided(fractions).0, Labels::Values(vec![0.5, 1.0]));
        for (count, classes) in [(AUTOMATIC_CLASSES, Some(AUTOMATIC_CLASSES)), (AUTOMATIC_CLASSES + 1, None)] {
            let labels = RawLabels::Numbers((0..count).map(|label| label as f32).collect());
            assert_eq!(decided(labels).0.classes(), classes);
        }
    }
}
