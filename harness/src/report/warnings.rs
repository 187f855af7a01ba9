//! Cells with suspicious samples: outliers, drift, two speeds, a slow start, too few. Their samples are shown in the order of
//! the run.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::cells;
use super::labels::Labels;
use crate::drawing::table::{Entry, Look, Table};
use crate::format::minus;
use crate::machine::{Environment, disturbances};
use crate::results::Pooled;

const SHOWN: usize = 30;

/// The inside of the section of suspicious samples; `None` without any.
pub(super) fn section(cells: &[Pooled]) -> Option<Markup> {
    let labels = Labels::of(cells.iter().map(Pooled::configuration));
    let columns = "algorithm|data|#batch|#threads|#rounds in order|kind|remedy";
    let mut table = Table::new("Suspicious samples", columns);
    let mut suspicious: Vec<&Pooled> = cells.iter().filter(|cell| !cell.warnings.is_empty()).collect();
    let spread = |cell: &Pooled| cell.cell.round_ns.p90 as f64 / cell.cell.round_ns.p10.max(1) as f64;
    suspicious.sort_by(|a, b| spread(b).total_cmp(&spread(a)));
    for cell in suspicious.iter().take(SHOWN) {
        let samples = &cell.cell.round_ns.samples;
        for warning in &cell.warnings {
            let known = ["algorithm", "data", "batch", "threads"].map(|column| cells::entry(column, cell, &labels));
            let trace = Entry::text(format!("times of {} rounds in their order", samples.len()));
            let trace = trace.look(Look::Trace(samples.clone()));
            table.row(known.into_iter().chain([
                trace,
                Entry::text(warning.name()),
                Entry::text(minus(&warning.to_string())),
            ]));
        }
    }
    (!suspicious.is_empty()).then(|| {
        html! {
            p.lead {
                (suspicious.len()) " of " (cells.len()) " configurations have samples that are not independent draws from one \
                distribution. Medians and their intervals remain valid; small differences between these cells may not be real."
                @if suspicious.len() > SHOWN { " Those " (SHOWN) " whose rounds differ most:" }
            }
            (table.html("suspicious-samples", true))
        }
    })
}

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
    fn a_drifting_cell_is_shown_with_its_samples() {
        let steady = cell("sgd", 64, 1, 0);
        assert!(section(&pool(std::slice::from_ref(&steady))).is_none());
        let mut drifting = cell("dp-sgd", 64, 1, 0);
        drifting.round_ns = RoundTimes::new((0..90).map(|round| 100_000 + 300 * round).collect());
        let html = section(&pool(&[steady, drifting])).unwrap().into_string();
        assert!(html.contains("1 of 2 configurations") && html.contains(">drift<"));
        assert!(html.contains("from the first third to the last") && html.contains("class=\"trace\""));
        assert!(html.contains("href=\"#algorithm-dp-sgd\""));
    }
}
