//! From labels as a file writes them to classes `0..K` or real targets.

use crate::data::error::listing;
use rounds_algorithms::problem::Labels;

/// What the labels of a file are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Target {
    /// Classes if the labels are words, or integers of which at most [`AUTOMATIC_CLASSES`] differ; real targets
    /// otherwise.
    #[default]
    Automatic,
    /// Classes.
    Classes,
    /// Real targets.
    Values,
}

/// So many different integers are still taken for classes when nothing is said.
pub const AUTOMATIC_CLASSES: usize = 256;
/// So many classes there may be.
pub const MOST_CLASSES: usize = 65_536;

/// Labels as they stand in a file.
#[derive(Clone, Debug, PartialEq)]
pub enum RawLabels {
    /// Numbers.
    Numbers(Vec<f32>),
    /// Words: each row's index into the different ones.
    Words {
        /// One index a row.
        rows: Vec<u32>,
        /// The different words, in any order.
        words: Vec<String>,
    },
}

/// Which label is which class: numbers ascend, words are sorted.
#[derive(Clone, Debug, PartialEq)]
pub struct Classes {
    names: Vec<String>,
    numbers: Option<Vec<f32>>,
}

impl Classes {
    /// The labels' names, class by class.
    pub fn names(&self) -> &[String] {
        &self.names
    }
}

/// Why labels are refused: what was expected, and what was found, with the row if it is one row's fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLabels {
    /// What was expected.
    pub expected: String,
    /// What was found.
    pub found: String,
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
    /// The labels as numbers, NaN for words.
    pub fn numbers(&self) -> impl Iterator<Item = f64> + '_ {
        let (numbers, words) = match self {
            Self::Numbers(numbers) => (numbers.as_slice(), 0),
            Self::Words { rows, .. } => (&[][..], rows.len()),
        };
        let words = std::iter::repeat_n(f64::NAN, words);
        numbers.iter().map(|&number| f64::from(number)).chain(words)
    }

    /// Turns the labels of training data into classes or targets; classes come with their names.
    ///
    /// # Errors
    /// Classes that are more than [`MOST_CLASSES`] or real targets that are words.
    pub fn decide(self, target: Target) -> Result<(Labels, Option<Classes>), BadLabels> {
        match (self, target) {
            (Self::Numbers(values), Target::Values) => Ok((Labels::Values(values), None)),
            (Self::Numbers(values), target) => {
                let integers = values.iter().all(|value| value.fract() == 0.0);
                let found = match target {
                    Target::Automatic if !integers => None,
                    Target::Automatic => distinct(&values, AUTOMATIC_CLASSES),
                    _ => Some(distinct(&values, MOST_CLASSES).ok_or_else(|| too_many("numbers"))?),
                };
                match found {
                    None => Ok((Labels::Values(values), None)),
                    Some(numbers) => {
                        let names = numbers.iter().map(ToString::to_string).collect();
                        let classes = Classes {
                            names,
                            numbers: Some(numbers),
                        };
                        Ok((Self::Numbers(values).assign(&classes)?, Some(classes)))
                    }
                }
            }
            (Self::Words { words, .. }, Target::Values) => Err(BadLabels {
                expected: "numbers as targets; choose classes as the target, or another label column".into(),
                found: format!(
                    "words as labels, {:?} for one",
                    words.first().map_or("", String::as_str)
                ),
            }),
            (Self::Words { words, .. }, _) if words.len() > MOST_CLASSES => Err(too_many("words")),
            (Self::Words { rows, words }, _) => {
                let mut names = words.clone();
                names.sort_unstable();
                let classes = Classes { names, numbers: None };
                Ok((Self::Words { rows, words }.assign(&classes)?, Some(classes)))
            }
        }
    }

    /// Turns labels into the classes that training data defined.
    ///
    /// # Errors
    /// A label that is no class.
    pub fn assign(self, classes: &Classes) -> Result<Labels, BadLabels> {
        let unknown = |row: usize, found: String| BadLabels {
            expected: format!(
                "one of the {} labels of the training data, {}",
                classes.names.len(),
                listing(&classes.names)
            ),
            found: format!("label {found} in row {row}"),
        };
        let values: Vec<u32> = match (self, &classes.numbers) {
            (Self::Numbers(values), Some(numbers)) => {
                let class = |(row, value): (usize, f32)| {
                    numbers
                        .binary_search_by(|probe| probe.total_cmp(&(value + 0.0)))
                        .map(|class| class as u32)
                        .map_err(|_| unknown(row, value.to_string()))
                };
                values.into_iter().enumerate().map(class).collect::<Result<_, _>>()?
            }
            (Self::Numbers(values), None) => {
                return Err(unknown(0, values.first().map_or_else(String::new, f32::to_string)));
            }
            (Self::Words { rows, words }, _) => {
                let known: Vec<Option<u32>> = words
                    .iter()
                    .map(|word| classes.names.binary_search(word).ok().map(|class| class as u32))
                    .collect();
                let known = if classes.numbers.is_some() {
                    vec![None; words.len()]
                } else {
                    known
                };
                let class = |(row, word): (usize, u32)| {
                    known[word as usize].ok_or_else(|| unknown(row, format!("{:?}", words[word as usize])))
                };
                rows.into_iter().enumerate().map(class).collect::<Result<_, _>>()?
            }
        };
        Ok(Labels::Classes {
            values,
            classes: classes.names.len(),
            names: Some(classes.names.clone()),
        })
    }
}

fn too_many(what: &str) -> BadLabels {
    BadLabels {
        expected: format!("at most {MOST_CLASSES} classes; choose real targets, or another label column"),
        found: format!("more different {what} as labels than that"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str], rows: &[u32]) -> RawLabels {
        RawLabels::Words {
            rows: rows.to_vec(),
            words: words.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn integers_become_classes_in_ascending_order() {
        let (labels, classes) = RawLabels::Numbers(vec![1.0, -1.0, 1.0])
            .decide(Target::Automatic)
            .unwrap();
        let names = Some(vec!["-1".to_owned(), "1".to_owned()]);
        assert_eq!(
            labels,
            Labels::Classes {
                values: vec![1, 0, 1],
                classes: 2,
                names
            }
        );
        let test = RawLabels::Numbers(vec![-1.0])
            .assign(classes.as_ref().unwrap())
            .unwrap();
        assert_eq!((test.classes(), test.len()), (Some(2), 1));
        let (labels, _) = RawLabels::Numbers(vec![0.0, -0.0, 3.0])
            .decide(Target::Automatic)
            .unwrap();
        assert_eq!(labels.classes(), Some(2));
    }

    #[test]
    fn fractions_and_many_integers_are_targets_unless_classes_are_asked_for() {
        let fractions = RawLabels::Numbers(vec![0.5, 1.0]);
        assert_eq!(
            fractions.clone().decide(Target::Automatic).unwrap().0,
            Labels::Values(vec![0.5, 1.0])
        );
        assert_eq!(fractions.decide(Target::Classes).unwrap().0.classes(), Some(2));
        let many: Vec<f32> = (0..=AUTOMATIC_CLASSES).map(|label| label as f32).collect();
        assert_eq!(
            RawLabels::Numbers(many.clone())
                .decide(Target::Automatic)
                .unwrap()
                .0
                .classes(),
            None
        );
        assert_eq!(
            RawLabels::Numbers(many).decide(Target::Classes).unwrap().0.classes(),
            Some(AUTOMATIC_CLASSES + 1)
        );
        let too_many = (0..=MOST_CLASSES).map(|label| label as f32).collect();
        assert!(
            RawLabels::Numbers(too_many)
                .decide(Target::Classes)
                .unwrap_err()
                .expected
                .contains("at most")
        );
        assert_eq!(
            RawLabels::Numbers(vec![1.0]).decide(Target::Values).unwrap().0,
            Labels::Values(vec![1.0])
        );
    }

    #[test]
    fn words_become_classes_in_alphabetical_order_and_are_no_targets() {
        let (labels, classes) = words(&["yes", "no"], &[0, 1, 0]).decide(Target::Automatic).unwrap();
        let names = Some(vec!["no".to_owned(), "yes".to_owned()]);
        assert_eq!(
            labels,
            Labels::Classes {
                values: vec![1, 0, 1],
                classes: 2,
                names
            }
        );
        let classes = classes.unwrap();
        assert!(
            words(&["maybe"], &[0])
                .assign(&classes)
                .unwrap_err()
                .found
                .contains("\"maybe\" in row 0")
        );
        assert!(
            RawLabels::Numbers(vec![1.0])
                .assign(&classes)
                .unwrap_err()
                .found
                .contains("label 1 in row 0")
        );
        assert!(
            words(&["yes"], &[0])
                .decide(Target::Values)
                .unwrap_err()
                .found
                .contains("words")
        );
        let (_, numbers) = RawLabels::Numbers(vec![0.0, 1.0]).decide(Target::Automatic).unwrap();
        assert!(
            words(&["0"], &[0])
                .assign(&numbers.unwrap())
                .unwrap_err()
                .found
                .contains("\"0\" in row 0")
        );
    }
}
