//! Cells whose samples do not look like independent draws from one distribution: outliers, drift, two speeds, a slow start,
//! too few. Each stands with its samples in the order of the run, so that a reader sees what was found.

use std::fmt::Write as _;

use super::format::{count, escape};
use super::labels::Labels;
use super::tables::{Entry, Table};
use crate::results::Pooled;
use crate::statistics::sorted_quantile;

/// The doubtful cells as the inside of a section; nothing where all are well.
pub(super) fn doubts(cells: &[Pooled]) -> Option<String> {
    let labels = Labels::of(cells.iter().map(Pooled::configuration));
    let mut table = Table::new(vec![
        ("algorithm", false),
        ("data", false),
        ("batch", true),
        ("threads", true),
        ("rounds in order", true),
        ("kind", false),
        ("what, and what to do", false),
    ]);
    let mut doubtful = 0;
    for cell in cells.iter().filter(|cell| !cell.warnings.is_empty()) {
        doubtful += 1;
        let configuration = cell.configuration();
        for warning in &cell.warnings {
            table.row(vec![
                Entry::link(
                    &labels.name(configuration),
                    &super::cards::anchor(&configuration.algorithm),
                ),
                Entry::text(&super::figures::dataset_name(cell)),
                Entry::number(Some(configuration.batch_size as f64), count),
                Entry::number(Some(configuration.threads as f64), count),
                Entry::html(trace(&cell.cell.round_ns.samples), None),
                Entry::text(warning.name()),
                Entry::text(&warning.to_string()),
            ]);
        }
    }
    (doubtful > 0).then(|| {
        format!(
            "<h2>Doubtful samples</h2><p class=\"lead\">{doubtful} of {} configurations have samples that are not independent \
             draws from one distribution. Medians and their intervals stand; read small differences of these with care.</p>{}",
            cells.len(),
            table.html(Some("doubtful-samples"), "Doubtful samples", true)
        )
    })
}

/// Width and height of a trace, in pixels.
const TRACE: (f64, f64) = (160.0, 28.0);
/// Points of a trace: of more samples, the slowest of each stretch.
const POINTS: usize = 120;

/// Times in the order of the run, as a small line from the fastest to the 98th percentile; what is slower is cut.
fn trace(samples: &[u64]) -> String {
    let stretch = samples.len().div_ceil(POINTS).max(1);
    let values: Vec<f64> = samples
        .chunks(stretch)
        .map(|stretch| stretch.iter().copied().max().unwrap_or(0) as f64)
        .collect();
    let mut sorted = values.clone();
    sorted.sort_unstable_by(f64::total_cmp);
    let (low, high) = (sorted_quantile(&sorted, 0.0), sorted_quantile(&sorted, 0.98));
    let (width, height) = TRACE;
    let mut path = String::new();
    for (place, value) in values.iter().enumerate() {
        let x = width * place as f64 / (values.len().max(2) - 1) as f64;
        let share = if high > low {
            ((value - low) / (high - low)).min(1.0)
        } else {
            0.5
        };
        let command = if place == 0 { 'M' } else { 'L' };
        let _ = write!(path, "{command}{x:.0} {:.1}", 2.0 + (1.0 - share) * (height - 4.0));
    }
    format!(
        "<svg class=\"trace\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\" \
         aria-label=\"{}\"><path d=\"{path}\"/></svg>",
        escape(&format!("times of {} rounds in their order", samples.len()))
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{RoundTimes, pool, store_tests::cell};

    #[test]
    fn a_drifting_cell_is_shown_with_its_samples_and_a_quiet_run_has_no_doubts() {
        let quiet = cell("sgd", 64, 1, 0);
        assert!(doubts(&pool(std::slice::from_ref(&quiet))).is_none());
        let mut drifting = cell("dp-sgd", 64, 1, 0);
        drifting.round_ns = RoundTimes::new((0..90).map(|round| 100_000 + 300 * round).collect());
        let html = doubts(&pool(&[quiet, drifting])).unwrap();
        assert!(html.contains("1 of 2 configurations") && html.contains(">drift<"));
        assert!(html.contains("from the first third to the last") && html.contains("class=\"trace\""));
        assert!(html.contains("href=\"#algorithm-dp-sgd\""));
    }

    #[test]
    fn a_trace_stays_within_its_box_whatever_the_samples() {
        for samples in [vec![], vec![5], vec![5; 300], (0..1000).collect()] {
            let svg = trace(&samples);
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }
}
