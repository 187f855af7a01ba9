//! Declarations as flags give them, and rows to compare. The tests of the command use this file, too.

use rounds_algorithms::problem::{Dataset, Features, Labels};
use rounds_models::data::{Declaration, Task};

/// Declarations by the flags of a line.
pub(crate) fn flags(line: &str) -> Declaration {
    let mut declared = Declaration::default();
    let words: Vec<&str> = line.split_whitespace().collect();
    for pair in words.chunks(2) {
        let value = pair[1].to_owned();
        let list = || value.split(',').map(str::to_owned).collect();
        match pair[0] {
            "--schema" => declared.schema = Some(value.into()),
            "--label" => declared.columns.label = Some(value),
            "--drop" => declared.columns.drop = list(),
            "--task" if value == "regression" => declared.columns.task = Some(Task::Regression),
            "--task" => declared.columns.task = Some(Task::Classification),
            "--classes" => declared.classes = Some(list()),
            "--bounds" => declared.bounds = Some(value),
            "--dimension" => declared.dimension = value.parse().ok(),
            "--public-rows" => declared.public_rows = value.parse().ok(),
            flag => panic!("{flag}"),
        }
    }
    declared
}

/// Each row's features and target, as bits.
pub(crate) fn rows(data: &Dataset) -> Vec<(Vec<u32>, u32)> {
    let Features::F32 { values, columns } = data.clone().to_f32().unwrap().into_parts().0 else { panic!("f32 rows") };
    let targets: Vec<u32> = match data.labels() {
        Labels::Classes { values, .. } => values.clone(),
        Labels::Values(values) => values.iter().map(|value| value.to_bits()).collect(),
    };
    let bits = values.chunks(columns).map(|row| row.iter().map(|value| value.to_bits()).collect());
    bits.zip(targets).collect()
}
