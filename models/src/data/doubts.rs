//! Warnings about rows that nothing declares: what a person would want to know before believing a model of them. They read the rows;
//! a run in a declared domain has none.

use rounds_algorithms::problem::{Dataset, Features, Labels};

use super::draft::doubtful_integers;
use super::labels::Task;

/// Features beyond this are not scaled.
const UNSCALED: f32 = 10.0;
/// A column that counts this many rows looks like an identifier.
const COUNTED_ROWS: usize = 20;

/// Warnings about undeclared rows: numbers that are not scaled, a column that counts the rows, integers that may be classes or
/// numbers. `task` decides the last.
pub fn doubts(data: &Dataset, task: Option<Task>) -> Vec<String> {
    let mut doubts: Vec<String> = unscaled(data.features()).into_iter().collect();
    doubts.extend(counting_column(data.features()).map(|column| {
        format!("column {} (from 1) counts the rows and looks like an identifier; remove it from the file", column + 1)
    }));
    let is_integer = |text: &String| text.parse::<f64>().is_ok();
    match data.labels() {
        _ if task.is_some() => {}
        Labels::Classes { names: Some(names), .. } if names.iter().all(is_integer) => {
            doubts.extend(doubtful_integers("the label", Some(names.len())));
        }
        Labels::Values(values) if values.iter().all(|value| value.fract() == 0.0) => {
            doubts.extend(doubtful_integers("the label", None));
        }
        _ => {}
    }
    doubts
}

fn unscaled(features: &Features) -> Option<String> {
    let mut largest = vec![0f32; features.columns()];
    let mut take = |column: usize, value: f32| largest[column] = largest[column].max(value.abs());
    match features {
        Features::F32 { values, columns } => {
            for row in values.chunks_exact(*columns) {
                row.iter().enumerate().for_each(|(column, &value)| take(column, value));
            }
        }
        Features::U8 { rows, scale } if scale * 255.0 > UNSCALED => {
            for row in rows.iter() {
                let values = row.iter().map(|&byte| scale * f32::from(byte));
                values.enumerate().for_each(|(column, value)| take(column, value));
            }
        }
        Features::U8 { .. } => {}
        Features::Sparse(sparse) => {
            let entries = sparse.indices.iter().zip(&sparse.values);
            entries.for_each(|(&column, &value)| take(column as usize, value));
        }
    }
    let beyond = largest.iter().filter(|&&value| value > UNSCALED).count();
    let (column, value) = largest.iter().enumerate().max_by(|one, other| one.1.total_cmp(other.1))?;
    (beyond > 0).then(|| {
        format!(
            "{beyond} of {} columns are not scaled (column {}, from 1, reaches {value}): a model of such numbers learns little. \
             Declare their bounds, by which they are scaled: `bounds LO,HI` `dimension D` and `classes A,B`, or a header and a \
             schema",
            largest.len(),
            column + 1
        )
    })
}

/// The first column whose number grows by 1 from row to row.
fn counting_column(features: &Features) -> Option<usize> {
    let Features::F32 { values, columns } = features else {
        return None;
    };
    let rows = || values.chunks_exact(*columns);
    if rows().len() < COUNTED_ROWS {
        return None;
    }
    let counts = |column: &usize| rows().zip(rows().skip(1)).all(|(row, next)| next[*column] == row[*column] + 1.0);
    (0..*columns).find(counts)
}
