//! Output of the commands. [`Output::print`] prints the one result of a command, as JSON or as readable text.

use std::fmt::{self, Display};
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Row, Table};
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use serde::Serialize;

use crate::format;

/// Form of what a command prints on stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Readable text.
    Text,
    /// One JSON document, or one a line.
    Json,
}

impl Output {
    /// Prints one result: its document as indented JSON, or its text.
    ///
    /// # Errors
    /// A document that JSON cannot represent.
    pub fn print(self, document: &impl Serialize, text: impl Display) -> anyhow::Result<()> {
        match self {
            Self::Text => println!("{}", printable(&text.to_string())),
            Self::Json => println!("{}", serde_json::to_string_pretty(document)?),
        }
        Ok(())
    }

    /// Says on stderr what was done; nothing with JSON.
    pub fn say(self, done: impl Display) {
        if self == Self::Text {
            eprintln!("{done}");
        }
    }

    /// Prints one value of several on a line of its own, for JSON lines; nothing in text.
    ///
    /// # Errors
    /// A value that JSON cannot represent.
    pub fn json_line(self, value: &impl Serialize) -> anyhow::Result<()> {
        if self == Self::Json {
            println!("{}", serde_json::to_string(value)?);
        }
        Ok(())
    }

    /// A progress bar on stderr: hidden with JSON and where stderr is no terminal. `template` is indicatif's, with the keys `left`
    /// for the time that is left and `rate` for how many a second.
    ///
    /// # Panics
    /// For a template that indicatif cannot parse.
    pub fn progress(self, length: u64, template: &str) -> ProgressBar {
        let target = match self {
            Self::Text => ProgressDrawTarget::stderr_with_hz(5),
            Self::Json => ProgressDrawTarget::hidden(),
        };
        let left = |state: &ProgressState, text: &mut dyn fmt::Write| {
            // Of a bar: a failure to write it is none of the run.
            let _ = match state.pos() {
                0 => text.write_str("time left not known yet"),
                _ => write!(text, "{:#} left", HumanDuration(state.eta())),
            };
        };
        let style = ProgressStyle::with_template(template).expect("a valid template");
        let rate = |state: &ProgressState, text: &mut dyn fmt::Write| {
            let _ = write!(text, "{}/s", format::three_digits(state.per_sec()));
        };
        let style = style.with_key("left", left).with_key("rate", rate);
        ProgressBar::with_draw_target(Some(length), target).with_style(style)
    }
}

/// A text of a file may not steer the terminal.
pub fn printable(text: &str) -> String {
    text.replace(|letter: char| letter.is_control() && !matches!(letter, '\n' | '\t'), "\u{fffd}")
}

/// A text of a file on one line, in which what steers a terminal or turns letters around stands escaped: it draws no line of its own.
pub fn on_one_line(text: &str) -> String {
    let steers =
        |letter: char| letter.is_control() || matches!(letter, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let shown = |letter: char| if steers(letter) { letter.escape_debug().to_string() } else { letter.to_string() };
    text.chars().map(shown).collect()
}

/// Prints the error that ends the program on stderr.
pub fn fail(error: impl Display) {
    eprintln!("{}", for_terminal(&format!("error: {}", printable(&error.to_string()))));
}

/// A digest or key of 64 digits on two lines.
pub fn in_halves(digits: &str) -> String {
    let (begin, end) = digits.split_at(digits.len() / 2);
    format!("{begin}\n{end}")
}

/// Prints a warning on stderr.
pub fn warn(warning: impl Display) {
    eprintln!("{}", for_terminal(&format!("warning: {}", printable(&warning.to_string()))));
}

static WITHHOLDS_PANICS: AtomicBool = AtomicBool::new(false);

/// From now on the message of a panic is not printed: a release has begun.
pub fn withhold_panics() {
    WITHHOLDS_PANICS.store(true, Ordering::Relaxed);
}

/// Ends when nothing more can be printed: without an error if the reader of stdout is gone (`rounds … | head`), with one if its
/// disk is full, say. Other panics are reported; in a release without their message, which may hold values of rows.
pub fn end_on_failed_prints() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let message = panic.payload().downcast_ref::<String>().map_or("", String::as_str);
        if let Some(cause) = message.strip_prefix("failed printing to ") {
            if cause.starts_with("stdout") && cause.contains("Broken pipe") {
                std::process::exit(0);
            }
            let _ = writeln!(std::io::stderr(), "error: cannot print to {cause}");
            std::process::exit(1);
        }
        if WITHHOLDS_PANICS.load(Ordering::Relaxed) {
            fail("a fault of rounds ended the release; its message is withheld, since it may show rows");
        } else {
            report(panic);
        }
    }));
}

/// A message in the width of the terminal on stderr, if it is one: a terminal breaks words.
fn for_terminal(message: &str) -> String {
    let width = Table::new().use_stderr().width();
    width.map_or_else(|| message.to_owned(), |width| within(message, width.into()))
}

/// A message in lines of at most so many letters. Indented lines, such as commands to copy, stay whole.
fn within(message: &str, width: usize) -> String {
    let is_whole = |line: &str| line.starts_with(' ') || line.chars().count() <= width;
    let lines = message
        .split('\n')
        .flat_map(|line| if is_whole(line) { vec![line.to_owned()] } else { format::wrapped(line, width) });
    lines.collect::<Vec<_>>().join("\n")
}

/// A table with a header, for the width of the terminal.
pub fn table(header: impl Into<Row>) -> Table {
    let mut table = Table::new();
    table.set_header(header);
    fitted(table)
}

/// The table with a rule below its header, in the width of the terminal, or 80 columns without one. Long cells are broken.
pub fn fitted(mut table: Table) -> Table {
    let width = table.width().unwrap_or(80);
    table.load_style(NOTHING.header_separator(LineStyle::none().fill('─')));
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(width);
    table
}

/// A table of names and values, without rules.
pub fn pairs<'a>(rows: impl IntoIterator<Item = (&'a str, String)>) -> Table {
    let mut table = Table::new();
    table.add_rows(rows.into_iter().map(|(name, value)| [name.to_owned(), on_one_line(&value)]));
    fitted(table)
}

/// Aligns these columns to the right and does not break their numbers.
pub fn align_right(table: &mut Table, columns: impl IntoIterator<Item = usize>) {
    for index in columns {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
}

/// `text` in lines of at most 80 characters, each after `indent` spaces.
pub fn wrapped(text: &str, indent: usize) -> String {
    let lines = text.lines().flat_map(|line| format::wrapped(line, 80 - indent));
    let lines = lines.filter(|line| !line.is_empty());
    lines.map(|line| " ".repeat(indent) + &line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_of_a_panic_is_withheld_in_a_release_alone() {
        let (mode, row) = ("ROUNDS_TEST_PANIC", "row 7: 0.123456");
        if let Ok(mode) = std::env::var(mode) {
            end_on_failed_prints();
            if mode == "release" {
                withhold_panics();
            }
            panic!("{row}");
        }
        // In a process of its own: hook and switch are of the whole process.
        let printed = |value: &str| {
            let test = "output::tests::the_message_of_a_panic_is_withheld_in_a_release_alone";
            let mut program = std::process::Command::new(std::env::current_exe().unwrap());
            let ended = program.args(["--exact", test, "--nocapture"]).env(mode, value).output().unwrap();
            assert!(!ended.status.success());
            String::from_utf8_lossy(&[ended.stdout, ended.stderr].concat()).into_owned()
        };
        let (release, simulation) = (printed("release"), printed("simulation"));
        assert!(release.contains("its message is withheld") && !release.contains("0.123456"), "{release}");
        assert!(simulation.contains(row), "{simulation}");
    }

    #[test]
    fn messages_are_broken_between_words_and_commands_are_not() {
        let command = format!("  rounds train {}", "--flag value ".repeat(10));
        let message = format!("error: {}to go on:\n{command}\n\nend", "word ".repeat(20));
        let found = within(&message, 40);
        let lines: Vec<&str> = found.lines().filter(|line| *line != command).collect();
        assert!(lines.iter().all(|line| line.chars().count() <= 40), "{found}");
        assert!(found.contains(&command) && found.ends_with("\n\nend"), "{found}");
        assert_eq!(lines.join(" "), message.replace(&(command + "\n"), "").replace('\n', " "));
        assert_eq!(within(&message, 1000), message);
    }

    #[test]
    fn a_text_of_a_file_draws_no_line_of_a_table() {
        let forged = "schema s.toml\n privacy  ε = 0.01\r\u{1b}[1A\u{202e}\u{2028}\u{85}";
        let table = pairs([("domain", forged.to_owned()), ("next", "é\u{301} stays".to_owned())]).to_string();
        assert_eq!(table.lines().count(), 2, "{table}");
        assert!(table.contains("schema s.toml\\n privacy  ε = 0.01\\r\\u{1b}[1A\\u{202e}\\u{2028}\\u{85}"), "{table}");
        assert!(table.contains("é\u{301} stays"), "{table}");
    }

    #[test]
    fn wrapped_lines_are_indented_and_keep_within_eighty_columns() {
        let text = wrapped(&"word ".repeat(40), 4);
        assert_eq!(text.lines().count(), 3);
        assert!(text.lines().all(|line| line.len() <= 80 && line.starts_with("    word")));
        assert_eq!(wrapped("a b\nc", 1), " a b\n c");
        assert_eq!(wrapped("", 2), "");
    }
}
