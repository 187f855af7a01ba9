//! Tables of pooled cells: every cell, and the algorithms at one batch size.

use super::figures::{dataset_name, dataset_names, place_name};
use super::labels::{Labels, parameters, phases};
use crate::drawing::table::{Entry, Table, shares};
use crate::format::{count, percent, scientific, three_digits, time};
use crate::results::Pooled;
use crate::statistics::SampleWarning;

/// Every configuration with everything that was measured.
pub(super) fn all(cells: &[Pooled]) -> Table {
    let columns = "algorithm|data|#batch|#threads|#time per round|#95 % interval|#10 % to 90 %|#sampling|#gradient|#noise|\
                   #update|#epoch|#of roofline|limit|#GFLOP/s|#GB/s|#accuracy|#ε|#δ|adjacency|#rounds|#queries|#repeats|remarks|\
                   parameters";
    table("All cells", columns, &[], &cells.iter().collect::<Vec<_>>())
}

/// Cost and guarantee of each algorithm at one batch size.
pub(super) fn of_algorithms(cells: &[&Pooled]) -> Table {
    let columns = "algorithm|data|#time per round|#phases|#of roofline|limit|#epoch|#accuracy|guarantee";
    let one_data_set = (dataset_names(cells).len() == 1).then_some("data");
    table("Algorithms", columns, one_data_set.as_slice(), cells)
}

/// The cells in these columns, but for those that are left out.
fn table(title: &str, columns: &str, left_out: &[&str], cells: &[&Pooled]) -> Table {
    let labels = Labels::of(cells.iter().map(|cell| cell.configuration()));
    let columns: Vec<&str> = columns.split('|').filter(|column| !left_out.contains(column)).collect();
    let mut table = Table::new(title, &columns.join("|"));
    for cell in cells {
        let entries = columns.iter().map(|column| entry(column.trim_start_matches('#'), cell, &labels));
        table.row(entries);
    }
    table
}

pub(super) fn entry(column: &str, pooled: &Pooled, labels: &Labels) -> Entry {
    let (cell, configuration) = (&pooled.cell, pooled.configuration());
    let parts = phases(&cell.phases_ns);
    match column {
        "algorithm" => Entry::text(labels.name(configuration)),
        "data" => Entry::text(dataset_name(pooled)),
        "batch" => Entry::count(configuration.batch_size),
        "threads" => {
            let place = place_name(configuration).replace(" threads", "").replace(" thread", "");
            Entry::sorted(place, configuration.threads as f64)
        }
        "time per round" => Entry::number(pooled.median(), time),
        "95 % interval" => Entry::times(pooled.interval.low, pooled.interval.high),
        "10 % to 90 %" => Entry::times(cell.round_ns.p10 as f64, cell.round_ns.p90 as f64),
        "phases" => shares(&parts),
        "epoch" => Entry::number(pooled.epoch_seconds() * 1e9, time),
        "of roofline" => Entry::meter(cell.rates.roofline_fraction),
        "limit" => Entry::text(pooled.nearer_limit().unwrap_or_default()),
        "GFLOP/s" => Entry::number(cell.rates.gflops, three_digits),
        "GB/s" => Entry::number(cell.rates.gbytes_per_s, three_digits),
        "accuracy" => Entry::number(cell.quality.test_accuracy, percent),
        "ε" => Entry::number(cell.privacy_number("epsilon"), three_digits),
        "rounds" => Entry::number(cell.work.rounds as f64, count),
        "queries" => Entry::number(cell.work.gradient_queries as f64, count),
        "repeats" => Entry::count(pooled.repeat_medians.len()),
        "remarks" => {
            let names: Vec<&str> = pooled.warnings.iter().map(SampleWarning::name).collect();
            Entry::text(names.join(", "))
        }
        "parameters" => Entry::text(parameters(configuration)),
        "guarantee" => {
            let words = |name: &str| cell.privacy.get(name).and_then(|word| word.as_str()).unwrap_or_default();
            let number = |name: &str| cell.privacy_number(name);
            let budget = number("epsilon").zip(number("delta"));
            Entry::text(budget.map_or_else(String::new, |(epsilon, delta)| {
                format!("ε {}, δ {}, {}", three_digits(epsilon), scientific(delta), words("adjacency"))
            }))
        }
        phase => {
            let part = parts.iter().find(|(name, _)| *name == phase);
            Entry::number(part.map(|&(_, nanoseconds)| nanoseconds as f64), time)
        }
    }
}
