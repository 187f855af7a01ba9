//! `measurements.csv`: one row a configuration and repeat, without the raw samples, for spreadsheets.

use std::io::Write;

use super::Cell;
use crate::statistics::SampleWarning;

/// Column names, then one row a cell. Missing numbers are empty.
///
/// # Errors
/// Whatever writing gives.
pub fn write_csv(cells: &[Cell], writer: impl Write) -> Result<(), csv::Error> {
    let mut table = csv::Writer::from_writer(writer);
    table.write_record([
        "suite",
        "algorithm",
        "parameters",
        "dataset",
        "features",
        "n",
        "dimension",
        "classes",
        "batch_size",
        "threads",
        "repeat",
        "rounds",
        "gradient_queries",
        "round_ns_median",
        "round_ns_p10",
        "round_ns_p90",
        "samples",
        "sample_ns",
        "gradient_ns",
        "noise_ns",
        "update_ns",
        "gflops",
        "gbytes_per_s",
        "roofline_fraction",
        "train_loss",
        "test_accuracy",
        "excess_risk",
        "claim",
        "epsilon",
        "delta",
        "model_sha256",
        "date",
        "warnings",
    ])?;
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    for cell in cells {
        let configuration = &cell.configuration;
        let parameters: Vec<String> = configuration
            .parameters
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        table.write_record([
            configuration.suite.clone(),
            configuration.algorithm.clone(),
            parameters.join(" "),
            configuration.dataset.clone(),
            configuration.features.clone(),
            cell.n.to_string(),
            cell.dimension.to_string(),
            cell.classes.to_string(),
            configuration.batch_size.to_string(),
            configuration.threads.to_string(),
            cell.repeat.to_string(),
            cell.rounds.to_string(),
            cell.gradient_queries.to_string(),
            cell.round_ns.median.to_string(),
            cell.round_ns.p10.to_string(),
            cell.round_ns.p90.to_string(),
            cell.round_ns.samples.len().to_string(),
            cell.phases_ns.sample.to_string(),
            cell.phases_ns.gradient.to_string(),
            cell.phases_ns.noise.to_string(),
            cell.phases_ns.update.to_string(),
            number(cell.gflops),
            number(cell.gbytes_per_s),
            number(cell.roofline_fraction),
            number(cell.train_loss),
            number(cell.test_accuracy),
            number(cell.excess_risk),
            cell.privacy
                .get("claim")
                .and_then(|claim| claim.as_str())
                .unwrap_or_default()
                .to_string(),
            number(cell.privacy_number("epsilon")),
            number(cell.privacy_number("delta")),
            cell.model_sha256.clone(),
            cell.date.to_string(),
            cell.warnings
                .iter()
                .map(SampleWarning::name)
                .collect::<Vec<_>>()
                .join(" "),
        ])?;
    }
    table.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::store::tests::cell;

    #[test]
    fn every_cell_is_a_row_that_reads_back() {
        let mut cells = [cell("dp-sgd", 64, 1, 0), cell("sgd", 500, 2, 1)];
        cells[1].warnings = vec![
            SampleWarning::TooFew { count: 3 },
            SampleWarning::Drift { percent: 5.0 },
        ];
        let mut text = Vec::new();
        write_csv(&cells, &mut text).unwrap();
        let mut reader = csv::Reader::from_reader(text.as_slice());
        let headers = reader.headers().unwrap().clone();
        let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 2);
        let field = |row: &csv::StringRecord, name: &str| {
            row[headers.iter().position(|header| header == name).unwrap()].to_string()
        };
        assert_eq!(field(&rows[1], "algorithm"), "sgd");
        assert_eq!(field(&rows[0], "round_ns_median"), cells[0].round_ns.median.to_string());
        assert_eq!(field(&rows[0], "epsilon"), "1");
        assert_eq!(field(&rows[1], "epsilon"), "");
        assert_eq!(field(&rows[0], "warnings"), "");
        assert_eq!(field(&rows[1], "warnings"), "too-few drift");
    }
}
