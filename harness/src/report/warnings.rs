//! What to know before a time is believed: disturbances of the machine, and samples that are not independent draws of one law. The
//! column "remarks" of all cells says which cells have them.

use std::collections::BTreeMap;

use crate::machine::{Environment, disturbances};
use crate::results::Pooled;

/// Disturbances of the machine, and each kind of sample warning once, with the number of its cells and an example.
pub(super) fn lines(cells: &[Pooled], environment: &Environment, threads: usize) -> Vec<String> {
    let disturbances = disturbances(&environment.machine, &environment.state, &environment.build.profile, threads);
    let mut kinds: BTreeMap<&str, (usize, String)> = BTreeMap::new();
    for warning in cells.iter().flat_map(|cell| &cell.warnings) {
        let kind = kinds.entry(warning.name()).or_insert_with(|| (0, warning.to_string()));
        kind.0 += 1;
    }
    let kinds = kinds.into_values();
    let kinds = kinds.map(|(number, example)| format!("{number} of {} cells: {example}", cells.len()));
    disturbances.iter().map(ToString::to_string).chain(kinds).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{RoundTimes, pool, tests::cell};

    #[test]
    fn drift_is_said_once_with_the_number_of_its_cells_and_an_example() {
        let drifting = |threads| {
            let mut cell = cell("dp-sgd", 64, threads, 0);
            cell.round_ns = RoundTimes::new((0..90).map(|round| 100_000 + 300 * round).collect());
            cell
        };
        let environment = Environment::capture(&[]);
        let said = |cells: &[Pooled]| {
            let lines = lines(cells, &environment, 1).into_iter();
            lines.filter(|line| line.contains("from the first third to the last")).collect::<Vec<_>>()
        };
        assert!(said(&pool(&[cell("sgd", 64, 1, 0)])).is_empty());
        let found = said(&pool(&[cell("sgd", 64, 1, 0), drifting(1), drifting(2)]));
        assert!(found.len() == 1 && found[0].starts_with("2 of 3 cells: "), "{found:?}");
    }
}
