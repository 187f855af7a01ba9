//! Labels as they stand in a file, and without a declared domain the classes or real targets that training labels make.

use std::collections::HashMap;
use std::path::Path;

use crate::data::error::{DataError, listing};
use rounds_algorithms::choices::choices;
use rounds_algorithms::problem::{Encoder, Labels, encoding};
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
const AUTOMATIC_CLASSES: usize = 256;
/// The largest number of classes.
pub(super) const MOST_CLASSES: usize = 65_536;

/// The class names of labels, in order, or `None` for numbers: words are classes; numbers are, too, if they are integers of which
/// at most [`AUTOMATIC_CLASSES`] differ. `task` decides otherwise. `word` is one of the words; `values` are the different labels,
/// unless they are too many.
///
/// # Errors
/// The labels do not fit the task: the message names what they hold.
pub(super) fn classes(
    word: Option<String>,
    has_fractions: bool,
    values: Option<Vec<String>>,
    task: Option<Task>,
) -> Result<Option<Vec<String>>, String> {
    let are_few = !has_fractions && values.as_ref().is_some_and(|values| values.len() <= AUTOMATIC_CLASSES);
    match (task.map_or(word.is_some() || are_few, |task| task == Task::Classification), word) {
        (true, None) if has_fractions => {
            Err("fractions, which are no classes (`task regression` takes them as numbers)".into())
        }
        (true, _) => match values {
            Some(values) => Ok(Some(values)),
            None => Err(format!("more than {MOST_CLASSES} different values, too many for classes")),
        },
        (false, Some(word)) => {
            Err(format!("words such as {word}, which are no numbers (`task classification` takes them as classes)"))
        }
        (false, None) => Ok(None),
    }
}

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
    /// Classes: their number, and their names if they are not numbered from 0.
    Classes(usize, Option<Vec<String>>),
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

    /// The codes of these labels by what they are, numbers or words.
    fn coded(&self, number: impl Fn(f64) -> u32, word: impl Fn(&[u8]) -> u32) -> Vec<u32> {
        match self {
            Self::Encoded(codes) => codes.clone(),
            // Any class: it is not read.
            Self::Absent(rows) => vec![0; *rows],
            Self::Numbers(values) => values.iter().map(|&value| number(f64::from(value))).collect(),
            Self::Indices { values, .. } => values.iter().map(|&value| number(value as f64)).collect(),
            Self::Words { rows, words } => {
                let codes: Vec<u32> = words.iter().map(|text| word(text.as_bytes())).collect();
                rows.iter().map(|&word| codes[word as usize]).collect()
            }
        }
    }

    /// The codes of these labels in the encoder's domain.
    pub(super) fn codes(&self, encoder: &Encoder<'_>) -> Vec<u32> {
        self.coded(|number| encoder.label_number(number), |word| encoder.label(word))
    }

    /// Each label's class, of so many with these names, or numbered from 0.
    fn classes(&self, path: &Path, count: usize, names: Option<&[String]>) -> Result<Vec<u32>, DataError> {
        let known = encoding::Words::new(names.unwrap_or_default());
        let class = |number: f64| match names {
            Some(_) => known.of_number(number as f32),
            None => (number.fract() == 0.0 && (0.0..count as f64).contains(&number)).then_some(number as u32),
        };
        let or_null = |class: Option<u32>| class.unwrap_or(encoding::NULL_LABEL);
        let codes = self.coded(|number| or_null(class(number)), |word| or_null(known.of_field(word)));
        match codes.iter().position(|&code| code == encoding::NULL_LABEL) {
            None => Ok(codes),
            Some(row) => {
                let known = names.map_or_else(|| format!("0 to {}", count.saturating_sub(1)), listing);
                Err(DataError::label(path, row, self.shown(row), format_args!("classes {known}")))
            }
        }
    }

    /// Each label's number.
    fn targets(&self, path: &Path) -> Result<Vec<f32>, DataError> {
        let bits = |number: f64| (number as f32).to_bits();
        let codes = self.coded(bits, |word| bits(encoding::number(word)));
        let values: Vec<f32> = codes.into_iter().map(f32::from_bits).collect();
        match values.iter().position(|value| !value.is_finite()) {
            None => Ok(values),
            Some(row) => Err(DataError::label(path, row, self.shown(row), "finite numbers")),
        }
    }

    /// The label of a row, as a message has it.
    fn shown(&self, row: usize) -> String {
        match self {
            Self::Encoded(_) | Self::Absent(_) => String::new(),
            Self::Numbers(values) => values[row].to_string(),
            Self::Indices { values, .. } => values[row].to_string(),
            Self::Words { rows, words } => format!("{:?}", words[rows[row] as usize]),
        }
    }

    /// The meaning of these labels of training rows, as [`classes`] has it.
    ///
    /// # Errors
    /// A label that is not finite or not a class; words for a regression, fractions for classes.
    pub(super) fn meaning(&self, path: &Path, task: Option<Task>) -> Result<Meaning, DataError> {
        let decided = match self {
            Self::Encoded(_) => unreachable!("encoded labels have a domain"),
            Self::Absent(_) => return Ok(Meaning::Targets),
            Self::Indices { .. } if task == Some(Task::Regression) => return Ok(Meaning::Targets),
            Self::Indices { classes: Some(classes), .. } => return Ok(Meaning::Classes(*classes, None)),
            Self::Indices { values, classes: None } => {
                // A label that leaves the classes at most as many as the rows, or 256, is no damaged one.
                let found = self.classes(path, values.len().max(256), None)?;
                let classes = found.into_iter().max().map_or(0, |largest| largest as usize + 1);
                return Ok(Meaning::Classes(classes, None));
            }
            Self::Numbers(values) => {
                self.targets(path)?;
                let has_fractions = values.iter().any(|value| value.fract() != 0.0);
                let limit = if task.is_some() { MOST_CLASSES } else { AUTOMATIC_CLASSES };
                let numbers = if has_fractions { None } else { distinct(values, limit) };
                let names = numbers.map(|numbers| numbers.iter().map(ToString::to_string).collect());
                classes(None, has_fractions, names, task)
            }
            Self::Words { words, .. } => {
                let mut names = words.clone();
                names.sort_unstable();
                let names = Some(names).filter(|names| names.len() <= MOST_CLASSES);
                classes(words.first().map(|word| format!("{word:?}")), false, names, task)
            }
        };
        match decided {
            Ok(None) => Ok(Meaning::Targets),
            Ok(Some(names)) => Ok(Meaning::Classes(names.len(), Some(names))),
            Err(problem) => Err(DataError::contents(path, format_args!("its labels are {problem}"))),
        }
    }

    /// The labels with the meaning that training labels have.
    ///
    /// # Errors
    /// A label that is not finite or not a class.
    pub(super) fn with_meaning(&self, path: &Path, meaning: &Meaning) -> Result<Labels, DataError> {
        Ok(match meaning {
            Meaning::Targets => Labels::Values(self.targets(path)?),
            Meaning::Classes(classes, names) => {
                let values = self.classes(path, *classes, names.as_deref())?;
                Labels::Classes { values, classes: *classes, names: names.clone() }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str], rows: &[u32]) -> RawLabels {
        RawLabels::Words { rows: rows.to_vec(), words: words.iter().map(ToString::to_string).collect() }
    }

    #[expect(clippy::needless_pass_by_value, reason = "labels are made where they are judged")]
    fn refusal(labels: RawLabels, meaning: &Meaning) -> String {
        labels.with_meaning(Path::new("p"), meaning).unwrap_err().for_reader().to_string()
    }

    /// Labels of training rows, and their meaning.
    #[expect(clippy::needless_pass_by_value, reason = "labels are made where they are judged")]
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
        assert!(refusal(RawLabels::Numbers(vec![1.0]), &yes_no).contains("row 1 (counted from 1): label 1"));
        assert!(refusal(words(&["x"], &[0]), &numbers).contains("label \"x\" is not one of the classes 0, 3"));
        assert!(
            refusal(words(&["1", "x"], &[0, 1]), &Meaning::Targets).contains("row 2 (counted from 1): label \"x\"")
        );
        // A file may hold numbers beside a word.
        let labels = words(&["3", "0"], &[0, 1, 1]).with_meaning(Path::new("p"), &numbers).unwrap();
        assert!(matches!(labels, Labels::Classes { values, .. } if values == [1, 0, 0]));
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
