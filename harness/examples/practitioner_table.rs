//! A table as practitioners have them: six numbers in thousands, four categories, 5 % of the fields missing, a planted logistic label
//! and a numeric target.
//!
//! `cargo run --release -p rounds --example practitioner_table -- FOLDER [ROWS TEST-ROWS [SEED]]` writes `train.csv` (45,000 rows),
//! `test.csv` (10,000) and `schema.toml`, whose bounds are those of the generator and not of the rows. Seed 1 by default.

use std::fmt::Write as _;
use std::path::PathBuf;

use rounds::statistics::Choices;

/// Columns of numbers: name, mean, standard deviation, public bounds, weight in the label, weight in the target.
const NUMBERS: [(&str, f64, f64, [f64; 2], f64, f64); 6] = [
    ("income", 52_000.0, 16_000.0, [0.0, 120_000.0], 1.2, 0.9),
    ("balance", 8_000.0, 5_000.0, [-15_000.0, 30_000.0], 0.8, 0.3),
    ("mortgage", 180_000.0, 60_000.0, [0.0, 400_000.0], -0.9, -0.5),
    ("mileage", 61_000.0, 22_000.0, [0.0, 150_000.0], -0.6, 0.0),
    ("steps", 7_500.0, 2_500.0, [0.0, 20_000.0], 0.5, 0.2),
    ("spent", 4_200.0, 1_400.0, [0.0, 10_000.0], 0.7, 0.8),
];

/// Categories: name, and values with their weight in the label and in the target.
const CATEGORIES: [(&str, &[(&str, f64, f64)]); 4] = [
    (
        "job",
        &[
            ("clerk", -0.4, 0.0),
            ("nurse", 0.5, 0.2),
            ("smith", -0.8, -0.3),
            ("teacher", 0.3, 0.1),
            ("engineer", 0.9, 0.4),
            ("retired", -0.5, -0.4),
        ],
    ),
    ("region", &[("north", -0.3, 0.1), ("east", 0.2, -0.1), ("south", 0.4, 0.0), ("west", -0.2, 0.0)]),
    ("plan", &[("basic", -0.7, -0.5), ("plus", 0.1, 0.1), ("premium", 0.8, 0.5)]),
    ("device", &[("phone", 0.2, 0.0), ("tablet", -0.1, 0.1), ("desktop", -0.2, 0.0)]),
];

/// The part of the fields that is missing.
const MISSING: f64 = 0.05;
/// Bounds of the target, whose law is 6,000 + 2,000·(weights) + noise.
const TARGET: [f64; 2] = [-4_000.0, 16_000.0];

/// A table of `rows` rows with its header: the features, the label `bought` and the target `next_year`.
pub(crate) fn table(rows: usize, choices: &mut Choices) -> String {
    let names = NUMBERS.iter().map(|number| number.0);
    let mut text: String =
        names.chain(CATEGORIES.iter().map(|category| category.0)).flat_map(|name| [name, ","]).collect();
    text += "bought,next_year\n";
    for _ in 0..rows {
        let (mut label, mut target) = (0.0, 0.0);
        let field = |text: &mut String, choices: &mut Choices, value: &dyn std::fmt::Display| {
            if choices.uniform() >= MISSING {
                write!(text, "{value}").expect("memory takes text");
            }
            text.push(',');
        };
        for (_, mean, deviation, [lo, hi], of_label, of_target) in NUMBERS {
            let value = (mean + deviation * choices.normal()).clamp(lo, hi).round();
            label += of_label * (value - mean) / deviation;
            target += of_target * (value - mean) / deviation;
            field(&mut text, choices, &value);
        }
        for (_, values) in CATEGORIES {
            let (value, of_label, of_target) = values[choices.below(values.len())];
            label += of_label;
            target += of_target;
            field(&mut text, choices, &value);
        }
        let bought = choices.uniform() < 1.0 / (1.0 + (-1.5 * label).exp());
        let target = 6_000.0 + 2_000.0 * (target + 0.5 * choices.normal());
        let word = if bought { "yes" } else { "no" };
        writeln!(text, "{word},{:.0}", target.clamp(TARGET[0], TARGET[1])).expect("memory takes text");
    }
    text
}

/// A schema of the table with `bought` as its label: bounds and means of the generator.
pub(crate) fn schema() -> String {
    let numbers = NUMBERS.iter().map(|(name, mean, _, [lo, hi], ..)| {
        format!("[columns.{name}]\nkind = \"number\"\nbounds = [{lo}, {hi}]\nmissing = {mean}\n")
    });
    let categories = CATEGORIES.iter().map(|(name, values)| {
        let values: Vec<String> = values.iter().map(|(value, ..)| format!("{value:?}")).collect();
        let values = values.join(", ");
        // An empty field is a value of its own.
        format!("[columns.{name}]\nkind = \"category\"\nvalues = [{values}, \"\"]\nother = \"\"\n")
    });
    let columns: String = numbers.chain(categories).collect();
    let label = "[label]\ncolumn = \"bought\"\nclasses = [\"no\", \"yes\"]\n[test]\npublic = true\n";
    format!("drafted = false\n[rows]\ndrop = [\"next_year\"]\n{columns}{label}")
}

/// Writes train.csv, test.csv and schema.toml of a generated table with the label `bought`
#[derive(clap::Parser)]
struct Arguments {
    folder: PathBuf,
    #[arg(default_value_t = 45_000)]
    rows: usize,
    #[arg(default_value_t = 10_000)]
    test_rows: usize,
    #[arg(default_value_t = 1)]
    seed: u64,
}

fn main() -> std::io::Result<()> {
    let arguments = <Arguments as clap::Parser>::parse();
    let (folder, mut choices) = (&arguments.folder, Choices::new(arguments.seed));
    std::fs::create_dir_all(folder)?;
    let train = table(arguments.rows, &mut choices);
    let test = table(arguments.test_rows, &mut choices);
    for (name, text) in [("train.csv", train), ("test.csv", test), ("schema.toml", schema())] {
        std::fs::write(folder.join(name), text)?;
        println!("wrote {}", folder.join(name).display());
    }
    let folder = folder.display();
    println!("next: rounds train --data {folder}/train.csv --test {folder}/test.csv --epsilon 3");
    Ok(())
}
