//! The settings of a selection: a run, the grid that its settings are drawn from, and the law of the number of trials.

use std::path::{Path, PathBuf};

use rounds_algorithms::catalog;
use rounds_algorithms::hexadecimal;
use rounds_algorithms::optimizers::{Algorithm, PrepareError};
use rounds_algorithms::privacy::{TrialCount, TrialLaw};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::data::listing;
use crate::fit::error::FitError;
use crate::fit::settings::Training;

/// Most points of a grid: each is planned before the first round.
const MOST_POINTS: usize = 4096;

/// Parameters of every algorithm that a claim, and not a trial, decides.
const OF_THE_CLAIM: [&str; 2] = ["adjacency", "accountant"];

/// The parameters that trials draw, each uniformly from a list, independently.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grid(Vec<(String, Vec<String>)>);

impl Grid {
    /// Lists of values by the names of parameters, which are put in their order.
    ///
    /// # Errors
    /// A name or a value that is given twice, and a value with a comma.
    pub fn new<N: Into<String>, V: AsRef<[S]>, S: ToString>(
        lists: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Self, FitError> {
        let mut grid = Self::default();
        for (name, values) in lists {
            let (name, values): (String, Vec<String>) =
                (name.into(), values.as_ref().iter().map(S::to_string).collect());
            let refused =
                |problem: String| Err(FitError::argument(format!("grid {name}={}", values.join(",")), problem));
            if grid.0.iter().any(|(other, _)| *other == name) {
                return refused(format!("{name} is given twice; give all its values in one list"));
            }
            if values.iter().any(|value| value.is_empty() || value.contains(',')) {
                return refused("each value is a text of one letter or more, without a comma".to_owned());
            }
            if let Some(twice) = (1..values.len()).find(|&place| values[..place].contains(&values[place])) {
                return refused(format!("{} stands in it twice", values[twice]));
            }
            grid.0.push((name, values));
        }
        // One order, whichever a command or a document has them in.
        grid.0.sort();
        Ok(grid)
    }

    /// The lengths of the lists.
    pub(super) fn lengths(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().map(|(_, values)| values.len())
    }

    /// Names and values at these places of the lists.
    pub(super) fn at(&self, places: &[usize]) -> Vec<(String, String)> {
        self.0.iter().zip(places).map(|((name, values), &place)| (name.clone(), values[place].clone())).collect()
    }

    /// The places of all points.
    pub(super) fn points(&self) -> impl Iterator<Item = Vec<usize>> + '_ {
        (0..self.lengths().product()).map(|point: usize| {
            let mut rest = point;
            let digit = |length| {
                let place = rest % length;
                rest /= length;
                place
            };
            self.lengths().map(digit).collect()
        })
    }

    /// SHA-256 of names and values.
    pub(super) fn digest(&self) -> String {
        hexadecimal(&Sha256::digest(serde_json::to_vec(&self.0).expect("names and values")))
    }
}

/// A file of declared public rows, as its bytes were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicRows {
    pub(super) path: PathBuf,
    /// SHA-256 of the file, which the statement names.
    pub(super) sha256: String,
}

impl PublicRows {
    /// The file at `path`.
    ///
    /// # Errors
    /// A path that is no file, or cannot be read.
    pub fn read(path: &Path) -> Result<Self, FitError> {
        let refused = |problem: &str| FitError::argument(format!("score-on {}", path.display()), problem);
        if !path.is_file() {
            let remedy = "name a file of public rows, or leave it out to score on the training rows, which is paid for";
            return Err(refused(remedy));
        }
        let bytes = std::fs::read(path).map_err(|error| refused(&format!("it cannot be read: {error}")))?;
        Ok(Self { path: path.to_owned(), sha256: hexadecimal(&Sha256::digest(bytes)) })
    }
}

/// A selection: all that decides its winner. The budget of its training is that of all trials together.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// The run of which a trial sets the parameters of the grid.
    pub training: Training,
    /// The parameters that trials draw.
    pub grid: Grid,
    /// The expected number of trials, above 1. With ten of the geometric law one of the best fifth of the points is among them with
    /// probability 0.71, at some 1.44 times the noise of a single run; from there on noise costs more than another point brings.
    pub trials: f64,
    /// The law of the number of trials. For the same number the logarithmic one costs less, but has a single trial in every fourth
    /// selection: for the same noise the geometric one meets a good point more often, from some five trials on.
    pub law: TrialLaw,
    /// Declared public rows that scores are of, in place of the training rows.
    pub score_on: Option<PublicRows>,
}

impl Tuning {
    /// A selection among ten trials that are expected, scored on the training rows; it needs a grid.
    pub fn of(training: Training) -> Self {
        let law = TrialLaw::NegativeBinomial(1.0);
        Self { training, grid: Grid::default(), trials: 10.0, law, score_on: None }
    }

    /// Refuses what is no selection, and every point of the grid that can be refused without the number of rows.
    ///
    /// # Errors
    /// A grid without a choice, with names that a trial cannot set or values that the algorithm refuses; a law out of range; a budget that is
    /// not an ε above 0 with a δ above 0; an algorithm without noise; diagnostics of a release.
    pub fn check(&self) -> Result<&'static Algorithm, FitError> {
        let Self { training, grid: Grid(lists), .. } = self;
        let algorithm = catalog::find(&training.algorithm)?;
        let refused = |argument: &str, problem: String| Err(FitError::argument(argument, problem));
        if !algorithm.private {
            let problem = format!("algorithm '{}' adds no noise: there is nothing to pay for", algorithm.id);
            return refused("algorithm", problem);
        }
        if let Some(map) = training.data.features.as_ref().filter(|map| map.moments().is_some()) {
            let problem = "its trials would share one release of moments, for which no selection is accounted; take other features, or \
                           `rounds train`";
            return refused(&format!("features {map}"), problem.to_owned());
        }
        let privacy = &training.privacy;
        if privacy.noise_multiplier.is_some() || privacy.epsilon.is_none() {
            let problem = "give `epsilon E`, that of all trials together: the noise of a trial is found for it";
            return refused("epsilon", problem.to_owned());
        }
        if privacy.delta == 0.0 {
            return refused("delta", "a selection has a δ above 0".to_owned());
        }
        if privacy.secure && privacy.diagnostics {
            let problem = "scores of trials are for simulations; leave it out of a release";
            return refused("diagnostics", problem.to_owned());
        }
        if training.checkpoint.every.is_some() {
            let problem = "a selection writes a checkpoint after each trial; leave it out";
            return refused("checkpoint-every", problem.to_owned());
        }
        self.count()?;
        let points = self.grid.lengths().fold(1, usize::saturating_mul);
        if points <= 1 {
            let problem = "a grid with one point: nothing is chosen. Give the values to `rounds train`, or lists of two and more here \
                           (`grid learning-rate=0.5,1,2`)";
            return refused("grid", problem.to_owned());
        }
        if points > MOST_POINTS {
            return refused("grid", format!("{points} points are more than {MOST_POINTS}; shorten its lists"));
        }
        let given = training.settings(algorithm)?.parameters;
        for (name, values) in lists {
            let argument = format!("grid {name}={}", values.join(","));
            let own: Vec<_> = algorithm.parameters().map(|own| own.name).collect();
            if name == "regularization" {
                if training.optimizer.regularization != 0.0 {
                    return refused(&argument, "`regularization` is given too; leave one of them out".to_owned());
                }
            } else if OF_THE_CLAIM.contains(&name.as_str()) || !own.contains(&name.as_str()) {
                let known = own.iter().filter(|own| !OF_THE_CLAIM.contains(own)).map(ToString::to_string);
                let known = listing(known.chain(["regularization".to_owned()]).collect::<Vec<_>>());
                let problem = format!("no trial of algorithm '{}' draws that; it draws {known}", algorithm.id);
                return refused(&argument, problem);
            } else if given.contains_key(name) {
                return refused(&argument, format!("`{name}` is given too; leave one of them out"));
            } else if name == "epochs" && (given.contains_key("rounds") || lists.iter().any(|(of, _)| of == "rounds")) {
                return refused(
                    &argument,
                    "rounds are given, beside which epochs decide nothing; leave one of them out".to_owned(),
                );
            }
        }
        // A value is checked beside others: ranges of one may depend on another.
        for places in self.grid.points() {
            algorithm.check(&self.at(&places)?.settings(algorithm)?).map_err(PrepareError::from)?;
        }
        Ok(algorithm)
    }

    /// The law of the number of trials.
    pub(super) fn count(&self) -> Result<TrialCount, FitError> {
        let count = TrialCount::new(self.law, self.trials);
        count.map_err(|error| {
            FitError::argument(format!("law {}", self.law), format!("with `trials {}`, {error}", self.trials))
        })
    }

    /// The run of a trial with the values at these places, without rows in memory and checkpoints; its budget is the total.
    pub(crate) fn at(&self, places: &[usize]) -> Result<Training, FitError> {
        let mut training = Training { checkpoint: Default::default(), ..self.training.clone() };
        training.data.rows = None;
        for (name, value) in self.grid.at(places) {
            if name == "regularization" {
                let number = value.parse().ok().filter(|number: &f64| *number >= 0.0 && number.is_finite());
                let needed = || {
                    FitError::argument(
                        format!("grid regularization={value}"),
                        "a finite number of at least 0 is needed",
                    )
                };
                training.optimizer.regularization = number.ok_or_else(needed)?;
            } else {
                training.parameters.push((name, value));
            }
        }
        Ok(training)
    }

    /// What decides a selection beside its training, as names and values.
    pub(crate) fn bound(&self) -> Vec<(String, String)> {
        let grid = self.grid.0.iter().map(|(name, values)| (format!("grid {name}"), values.join(",")));
        let own = [
            ("trials", self.trials.to_string()),
            ("law", self.law.to_string()),
            ("score", self.score_on.as_ref().map_or(PAID.to_owned(), |rows| format!("{PUBLIC}{}", rows.sha256))),
        ];
        grid.chain(own.map(|(name, value)| (name.to_owned(), value))).collect()
    }

    /// The selection whose winner is `winner`, by names and values of a header; `None` of a run that is no selection.
    ///
    /// # Errors
    /// A value that cannot be read; a winner that is no point of the grid.
    pub(crate) fn of_bound(winner: &Training, parameters: &Map<String, Value>) -> Result<Option<Self>, String> {
        let text = |name: &str| parameters.get(name).and_then(Value::as_str);
        let Some(trials) = text("trials") else {
            return Ok(None);
        };
        let unread = |name: &str| format!("its parameter {name} cannot be read");
        let lists = parameters.keys().filter_map(|key| key.strip_prefix("grid "));
        let lists =
            lists.map(|name| (name, text(&format!("grid {name}")).unwrap_or_default().split(',').collect::<Vec<_>>()));
        let mut tuning = Self {
            trials: trials.parse().map_err(|_| unread("trials"))?,
            law: text("law").and_then(|law| law.parse().ok()).ok_or_else(|| unread("law"))?,
            grid: Grid::new(lists).map_err(|error| error.to_string())?,
            score_on: match text("score") {
                Some(PAID) => None,
                score => {
                    let sha256 = score.and_then(|score| score.strip_prefix(PUBLIC)).ok_or_else(|| unread("score"))?;
                    Some(PublicRows { path: PathBuf::new(), sha256: sha256.to_owned() })
                }
            },
            training: winner.clone(),
        };
        for (name, values) in &tuning.grid.0 {
            let own = &mut tuning.training;
            let is_point = if name == "regularization" {
                let chosen = std::mem::take(&mut own.optimizer.regularization);
                values.iter().any(|value| value.parse() == Ok(chosen))
            } else {
                let chosen = own.parameters.iter().position(|(own, _)| own == name);
                let chosen = chosen.map(|place| own.parameters.remove(place).1);
                chosen.is_some_and(|chosen| values.contains(&chosen))
            };
            if !is_point {
                return Err(format!("its {name} is none of the grid"));
            }
        }
        tuning.check().map_err(|error| error.to_string())?;
        Ok(Some(tuning))
    }
}

/// The rows that scores are of, in a header.
const PAID: &str = "training rows";
const PUBLIC: &str = "public rows, sha256 ";
