//! The outcome of a training run as a table.

use comfy_table::Table;
use rounds_algorithms::privacy::Claim;
use rounds_models::data::listing;
use rounds_models::fit::{Outcome, Quality, Times};
use rounds_models::model_file::{Target, is_npy};

use crate::commands::evaluate::regression_text;
use crate::commands::output;
use crate::commands::statement::privacy_rows;
use crate::format::{plural, three_digits};
use crate::usage::quoted;

/// The whole outcome.
pub(crate) fn table(outcome: &Outcome) -> Table {
    let percent = |fraction: f64| format!("{:.2} %", 100.0 * fraction);
    let header = &outcome.header;
    let rows = header.n.map_or_else(|| "a private number of".to_owned(), |rows| rows.to_string());
    let mut table = output::table([header.algorithm.clone(), format!("on {}", header.data.dataset)]);
    table.set_width(80);
    let mut row = |name: &str, value: String| {
        table.add_row([name.to_owned(), value]);
    };
    let label = match &header.data.target {
        Target::Bounds(_) => "1 output".to_owned(),
        Target::Classes(names) => format!("{} classes", names.len()),
    };
    let of = if outcome.unit.is_some() { "units" } else { "rows" };
    row("data", format!("{rows} {of}, {}, {label}", plural(header.data.dimension, "feature")));
    if let Some(unit) = &outcome.unit {
        row("a unit", unit.clone());
    }
    for (becomes, names) in &outcome.numbers {
        let names = listing(names);
        row("numbers", format!("{names}: a field that is no number {becomes}"));
    }
    if let Some(rows) = outcome.test_rows {
        let file = outcome.test_file.as_ref().map(|file| format!(" of {}", file.display()));
        row("test rows", format!("{rows}{}", file.unwrap_or_default()));
    }
    let quality = |found| match found {
        Quality::Accuracy(accuracy) => ("accuracy", percent(accuracy)),
        Quality::Errors(errors) => ("errors", regression_text(&errors)),
    };
    if let Some((name, text)) = outcome.test.map(quality) {
        row(&format!("test {name}"), text);
    }
    if let Some((name, text)) = outcome.held_out.map(quality) {
        let how = format!("of a run on four fifths of the {of}, on the others; --test-split keeps test rows");
        row(&format!("{name} held out"), format!("{text} ({how})"));
    }
    let queries = outcome.gradient_queries;
    row("work", format!("{} rounds, {queries} gradient queries", header.rounds));
    let parameters = header.plan.iter().filter(|(name, _)| match name.as_str() {
        "rounds" => false,
        "clip-norm" => header.parameters.contains_key("clip-norm"),
        _ => true,
    });
    let parameters = parameters.map(|(name, value)| match value.parse() {
        Ok(number) => format!("{name} {}", three_digits(number)),
        Err(_) => format!("{name} {value}"),
    });
    row("parameters", parameters.collect::<Vec<_>>().join(", "));
    if let Some(times) = outcome.times {
        let ranks = outcome.ranks.map_or_else(String::new, |ranks| format!("{ranks} ranks of "));
        let place = ranks + &plural(outcome.threads, "thread");
        let Times { seconds, load_seconds, calibration_seconds, .. } = times;
        let preparation = format!("{load_seconds:.3} s loading, {calibration_seconds:.3} s calibration");
        row("time", format!("{seconds:.3} s training on {place} ({preparation})"));
    }
    if let Some(found) = &outcome.diagnostics {
        let accuracy = found.train_accuracy.map(|share| format!("train accuracy {}, ", percent(share)));
        let null_rows = found.null_rows.filter(|rows| *rows > 0);
        let null_rows = null_rows.map(|rows| format!(", {}", plural(rows, "null row")));
        let text = format!(
            "train loss {:.6}, {}{} of gradients clipped{} ({})",
            found.train_loss,
            accuracy.unwrap_or_default(),
            percent(found.clipped_fraction),
            null_rows.unwrap_or_default(),
            found.note
        );
        row("diagnostics", text);
    }
    for (name, value) in privacy_rows(&header.privacy) {
        row(name, output::on_one_line(&value));
    }
    if let Some(path) = &outcome.model {
        row("model", path.display().to_string());
        if header.privacy.claim == Claim::Release && !is_npy(path) {
            let file = quoted(&path.to_string_lossy());
            row("", format!("`rounds account --statement {file}` verifies it"));
        }
    }
    if let Some(signature) = &header.signature {
        row("signed by", output::in_halves(&signature.key));
    }
    row("model sha256", output::in_halves(&header.model_sha256));
    table
}
