//! The studies below the folder of a run. A folder with a presentation shows it; of any other folder the pictures, tables
//! and rows are shown as they are.

use std::fs;
use std::path::{Path, PathBuf};

use maud::html;

use super::peers;
use super::presentation::{FILE, Figure, Panel, Part, Picture, Presentation, slug};
use super::shell::Section;
use super::table::Table;
use crate::kernel_rates::{self, KernelRate};

/// Depth of studies below the folder of a run: `paper/srg-table-1`.
const DEPTH: usize = 3;

/// Studies below the folder of a run.
#[derive(Debug, Default)]
pub struct Studies {
    /// By folder.
    pub presentations: Vec<(String, Presentation)>,
    /// Rates of the kernels that were measured with the run.
    pub kernels: Vec<KernelRate>,
    /// Files that cannot be read, with the reason.
    pub messages: Vec<String>,
}

impl Studies {
    /// Reads the studies below `folder`. Unreadable files are named in the messages.
    pub fn read(folder: &Path) -> Self {
        let mut found = Self::default();
        found.search(folder, folder, 0);
        found
    }

    fn search(&mut self, root: &Path, folder: &Path, depth: usize) {
        let mut entries: Vec<PathBuf> = match fs::read_dir(folder) {
            Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
            Err(error) => {
                self.messages.push(format!("cannot read {}: {error}", folder.display()));
                return;
            }
        };
        entries.sort();
        let name = folder.strip_prefix(root).unwrap_or(folder).display().to_string();
        let has = |file: &str| entries.iter().any(|path| path.ends_with(file));
        let presentation = if has(FILE) {
            self.parsed(&folder.join(FILE))
        } else if has(peers::FILE) {
            let text = self.text(&folder.join(peers::FILE));
            let peers = text.map(|text| peers::presentation(&text));
            peers.and_then(|peers| peers.map_err(|message| self.messages.push(message)).ok())
        } else if depth > 0 {
            self.foreign(&name, folder, &entries)
        } else {
            None
        };
        self.presentations
            .extend(presentation.map(|presentation| (name, presentation)));
        if depth == 0 && has(kernel_rates::FILE) {
            self.kernels = self.parsed(&folder.join(kernel_rates::FILE)).unwrap_or_default();
        }
        if depth < DEPTH {
            // A folder with measurements and no presentation is another run.
            let is_run = |path: &Path| path.join("measurements.jsonl").exists() && !path.join(FILE).exists();
            for path in entries.iter().filter(|path| path.is_dir() && !is_run(path)) {
                self.search(root, path, depth + 1);
            }
        }
    }

    /// The pictures and tables of a folder without a presentation, or its rows if it has no tables.
    fn foreign(&mut self, name: &str, folder: &Path, files: &[PathBuf]) -> Option<Presentation> {
        let with = |extension: &str| -> Vec<PathBuf> {
            let has = |path: &&PathBuf| path.is_file() && path.extension().is_some_and(|own| own == extension);
            files.iter().filter(has).cloned().collect()
        };
        let stem = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().replace('-', " ");
        let mut panels = Vec::new();
        for path in with("svg") {
            let (file, svg) = (stem(&path), self.text(&path));
            let title = format!("{name}: {file}");
            panels.extend(svg.map(|svg| Panel::of(&file, Picture::Image { title, svg })));
        }
        let texts = with("md");
        let mut parts: Vec<Part> = texts
            .iter()
            .filter_map(|path| self.text(path))
            .map(Part::Markdown)
            .collect();
        if parts.is_empty() {
            let is_rows = |path: &&PathBuf| path.ends_with("latency.json") || path.ends_with("rows.json");
            for path in with("json").iter().filter(is_rows) {
                let rows: Option<serde_json::Value> = self.parsed(path);
                let table = rows.and_then(|rows| Table::of_json(&stem(path), &rows));
                parts.extend(table.map(Part::Table));
            }
        }
        if !panels.is_empty() {
            parts.insert(0, Part::Figure(Figure::new(name, "Picture", panels)));
        }
        let group = if name.starts_with("paper") {
            "Papers"
        } else {
            "More studies"
        };
        let command = command(folder).unwrap_or_default();
        (!parts.is_empty()).then(|| Presentation {
            parts,
            ..Presentation::new(name, group, "", &command)
        })
    }

    fn text(&mut self, path: &Path) -> Option<String> {
        let text = fs::read_to_string(path);
        text.map_err(|error| self.messages.push(format!("{} is left out: {error}", path.display())))
            .ok()
    }

    fn parsed<T: serde::de::DeserializeOwned>(&mut self, path: &Path) -> Option<T> {
        let damaged = |error| {
            let path = path.display();
            format!("{path} is left out: it is damaged or of another version ({error}); run its study again")
        };
        let text = self.text(path)?;
        let parsed = serde_json::from_str(&text);
        parsed.map_err(|error| self.messages.push(damaged(error))).ok()
    }

    /// A section for each group of presentations; those of papers and of unknown folders come last.
    pub(super) fn sections(&self) -> Vec<Section> {
        let mut groups: Vec<&str> = Vec::new();
        for (_, presentation) in &self.presentations {
            if !groups.contains(&presentation.group.as_str()) {
                groups.push(&presentation.group);
            }
        }
        groups.sort_by_key(|group| {
            let last = ["Papers", "More studies"].iter().position(|last| last == group);
            last.map_or(0, |place| place + 1)
        });
        let of = |group: &str| {
            let group = group.to_owned();
            let own = move |(_, presentation): &&(String, Presentation)| presentation.group == group;
            self.presentations.iter().filter(own)
        };
        let section = |group: &str| {
            let alone = of(group).count() == 1;
            let html = html! {
                @if !alone { h2 { (group) } }
                @for (name, presentation) in of(group) {
                    @if alone { h2 { (presentation.title) } } @else { h3.study { (presentation.title) } }
                    (presentation.body(&slug(if name.is_empty() { &presentation.title } else { name }), !alone))
                }
            };
            Section::new(&slug(group), group, html)
        };
        groups.into_iter().map(section).collect()
    }
}

/// The command in the experiment sheet of a folder.
fn command(folder: &Path) -> Option<String> {
    let text = fs::read_to_string(folder.join("environment.json")).ok()?;
    let sheet: serde_json::Value = serde_json::from_str(&text).ok()?;
    Some(sheet.get("command")?.as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn studies_are_found_and_unreadable_files_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("time-per-round.svg", "<svg/>");
        write("paper/figure/figure.svg", "<svg xmlns='http://www.w3.org/2000/svg'/>");
        let sheet = "{\"command\": \"rounds run paper/figure --threads 2\"}";
        write("paper/figure/environment.json", sheet);
        write("private-sco/table.md", "| a |\n|---|\n| 1 |\n");
        write("latency/latency.json", "[{\"algorithm\": \"sgd\", \"seconds\": 1.5}]");
        write("broken/presentation.json", "{\"title\": \"half");
        let scaling = Presentation::new("Scaling", "Thread scaling", "About.", "rounds run scaling");
        write("scaling/presentation.json", &serde_json::to_string(&scaling).unwrap());
        write("another/measurements.jsonl", "");
        write("another/figure.svg", "<svg/>");
        let found = Studies::read(folder.path());
        let names: Vec<&str> = found.presentations.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["latency", "paper/figure", "private-sco", "scaling"]);
        let named = |message: &String| message.contains("broken/presentation.json is left out");
        assert!(found.messages.iter().any(named));
        let sections = found.sections();
        let ids: Vec<&str> = sections.iter().map(|section| section.id.as_str()).collect();
        assert_eq!(ids, ["thread-scaling", "papers", "more-studies"]);
        let html: Vec<&str> = sections.iter().map(|section| section.html.0.as_str()).collect();
        assert!(html[0].contains("<h2>Scaling</h2>") && html[0].contains("rounds run scaling"));
        assert!(html[1].contains("rounds run paper/figure --threads 2"));
        assert!(html[2].contains("<h3 class=\"study\">latency</h3>") && html[2].contains(">seconds<"));
    }
}
