//! What lies beside the cells of a run: studies in folders of their own. Those whose data this program knows are drawn
//! from it; of all others their pictures, tables and rows are shown as they were written.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use super::chart::Chart;
use super::format::escape;
use super::legend::Legend;
use super::mechanisms;
use super::scaling::scaling_section;
use super::section::{Picture, Section};
use super::study;
use super::tables;
use super::training::{training_charts, training_html};
use crate::kernel_rates::{self, KernelRate};
use crate::studies::private_training::Study as Training;
use crate::studies::{depth_against_work, noise_mechanisms, scaling};

/// How deep below the run's folder studies lie: `paper/srg-table-1`.
const DEPTH: usize = 3;

/// Studies found below a run's folder.
#[derive(Debug, Default)]
pub struct Beside {
    /// Studies of private training, by folder.
    pub trainings: Vec<(String, Training)>,
    /// Query depth against work.
    pub depth: Option<depth_against_work::Study>,
    /// Thread scaling.
    pub scaling: Option<scaling::Study>,
    /// The kernels that were measured with the run.
    pub kernels: Vec<KernelRate>,
    /// Noise mechanisms.
    pub mechanisms: Option<noise_mechanisms::Study>,
    /// Folders of which only pictures and tables are known.
    pub others: Vec<Other>,
    /// Files that could not be read, and why.
    pub messages: Vec<String>,
}

/// A folder of which only pictures and tables are known.
#[derive(Debug, Default)]
pub struct Other {
    /// Below the run's folder: `paper/accelerated-figure-1`.
    pub name: String,
    /// The command that wrote it.
    pub command: Option<String>,
    /// Pictures by file name.
    pub pictures: Vec<(String, String)>,
    /// Tables as Markdown.
    pub tables: Vec<String>,
    /// Rows by file name.
    pub rows: Vec<(String, serde_json::Value)>,
}

impl Beside {
    /// Looks for studies below `folder`. What cannot be read is named, never left out in silence.
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
        let mut other = Other {
            command: command(folder),
            name: name.clone(),
            ..Other::default()
        };
        let mut known = false;
        for path in entries.iter().filter(|path| path.is_file()) {
            let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let extension = path.extension().unwrap_or_default().to_string_lossy().into_owned();
            match file.as_str() {
                "study.json" if name == scaling::NAME => {
                    self.scaling = self.parsed(path);
                    known |= self.scaling.is_some();
                }
                "study.json" => known |= self.training(&name, path),
                "depth-against-work.json" => {
                    self.depth = self.parsed(path);
                    known |= self.depth.is_some();
                }
                kernel_rates::FILE if depth == 0 => self.kernels = self.parsed(path).unwrap_or_default(),
                "noise-mechanisms.json" => {
                    self.mechanisms = self.parsed(path);
                    known |= self.mechanisms.is_some();
                }
                // What `rounds run` and `rounds report` draw of cells lies beside them.
                _ if depth == 0 => {}
                _ if extension == "svg" => {
                    let title = file.trim_end_matches(".svg").replace('-', " ");
                    let text = self.text(path);
                    other.pictures.extend(text.map(|svg| (title, svg)));
                }
                _ if extension == "md" => {
                    let text = self.text(path);
                    other.tables.extend(text);
                }
                "latency.json" | "rows.json" => {
                    let rows = self.parsed(path);
                    other
                        .rows
                        .extend(rows.map(|rows| (file.trim_end_matches(".json").to_owned(), rows)));
                }
                _ => {}
            }
        }
        // Rows of a folder with a table are that table's raw data.
        if !other.tables.is_empty() {
            other.rows.clear();
        }
        let shows = !other.pictures.is_empty() || !other.tables.is_empty() || !other.rows.is_empty();
        if shows && !known {
            self.others.push(other);
        }
        if depth < DEPTH {
            // A folder with a sheet and measurements of its own is another run.
            let is_run = |path: &Path| path.join("measurements.jsonl").exists();
            for path in entries.iter().filter(|path| path.is_dir() && !is_run(path)) {
                self.search(root, path, depth + 1);
            }
        }
    }

    fn training(&mut self, name: &str, path: &Path) -> bool {
        let study: Option<Training> = self.parsed(path);
        let known = study.is_some();
        self.trainings.extend(study.map(|study| (name.to_owned(), study)));
        known
    }

    fn text(&mut self, path: &Path) -> Option<String> {
        fs::read_to_string(path)
            .map_err(|error| self.messages.push(format!("{} is left out: {error}", path.display())))
            .ok()
    }

    fn parsed<T: serde::de::DeserializeOwned>(&mut self, path: &Path) -> Option<T> {
        let text = self.text(path)?;
        serde_json::from_str(&text)
            .map_err(|error| {
                self.messages.push(format!(
                    "{} is left out: it is damaged or of another version ({error}); run its study again",
                    path.display()
                ));
            })
            .ok()
    }

    /// The sections of the studies, in the order: training, depth, scaling, mechanisms, all others.
    pub(super) fn sections(&self) -> Vec<(String, String, String)> {
        let mut sections = Vec::new();
        if !self.trainings.is_empty() {
            sections.push(self.training_section());
        }
        if let Some(study) = &self.depth {
            let command = format!("rounds run {}", depth_against_work::NAME);
            let id = depth_against_work::NAME.to_owned();
            sections.push((id, "Depth and work".to_owned(), study::study_section(study, &command)));
        }
        if let Some(study) = &self.scaling {
            let command = format!("rounds run {}", scaling::NAME);
            let id = scaling::NAME.to_owned();
            sections.push((id, "Thread scaling".to_owned(), scaling_section(study, &command)));
        }
        if let Some(study) = &self.mechanisms {
            let command = format!("rounds run {}", noise_mechanisms::NAME);
            let id = noise_mechanisms::NAME.to_owned();
            sections.push((
                id,
                "Noise mechanisms".to_owned(),
                mechanisms::mechanisms_section(study, &command),
            ));
        }
        let (papers, own): (Vec<&Other>, Vec<&Other>) =
            self.others.iter().partition(|other| other.name.starts_with("paper"));
        for (id, link, others) in [("papers", "Papers", papers), ("studies", "More studies", own)] {
            if !others.is_empty() {
                let mut html = format!("<h2>{link}</h2>");
                for other in others {
                    other.html(&mut html);
                }
                sections.push((id.to_owned(), link.to_owned(), html));
            }
        }
        sections
    }

    fn training_section(&self) -> (String, String, String) {
        let studies: Vec<&Training> = self.trainings.iter().map(|(_, study)| study).collect();
        let mut html =
            "<h2>Private training</h2><p class=\"lead\">What private training buys: means over runs with their \
                        intervals; grids show their best setting.</p>"
                .to_owned();
        for (number, (name, study)) in self.trainings.iter().enumerate() {
            let charts: Vec<(String, Chart)> = training_charts(study);
            let command = format!("rounds run {name}");
            let _ = write!(html, "<h3 class=\"study\">{}</h3>", escape(&study.title));
            if !charts.is_empty() {
                let section = Section {
                    id: format!("training-{}", number + 1),
                    link: String::new(),
                    about: String::new(),
                    panels_by: "Panel",
                    panels: charts
                        .into_iter()
                        .map(|(label, chart)| (label, Picture::of_chart(chart)))
                        .collect(),
                    command,
                };
                section.figure(&study.title, &mut html);
            }
            html.push_str(&training_html(studies[number]));
        }
        ("training".to_owned(), "Private training".to_owned(), html)
    }
}

impl Other {
    fn html(&self, html: &mut String) {
        // Without a sheet the folder's name tells, where it is a study's.
        let named = || {
            let known = crate::studies::is_study(&self.name);
            known.then(|| format!("rounds run {}", self.name))
        };
        let command = self.command.clone().or_else(named).unwrap_or_default();
        let id: String = self
            .name
            .chars()
            .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' })
            .collect();
        let _ = write!(html, "<h3 class=\"study\">{}</h3>", escape(&self.name));
        if self.pictures.is_empty() {
            let _ = write!(html, "<div class=\"tools\"><code>{}</code></div>", escape(&command));
        } else {
            let section = Section {
                id: id.clone(),
                link: String::new(),
                about: String::new(),
                panels_by: "Picture",
                panels: self
                    .pictures
                    .iter()
                    .map(|(title, svg)| {
                        let picture = Picture::Drawn {
                            title: format!("{}: {title}", self.name),
                            svg: svg.clone(),
                        };
                        (title.clone(), picture)
                    })
                    .collect(),
                command,
            };
            section.figure(&self.name, html);
        }
        for table in &self.tables {
            html.push_str(&tables::of_markdown(table, &id));
        }
        for (name, rows) in &self.rows {
            if let Some(table) = tables::of_rows(rows) {
                html.push_str(&table.html(Some(&format!("{id}-{name}")), &format!("{}: {name}", self.name), true));
            }
        }
    }
}

/// The command in the experiment sheet of a folder.
fn command(folder: &Path) -> Option<String> {
    let text = fs::read_to_string(folder.join("environment.json")).ok()?;
    let sheet: serde_json::Value = serde_json::from_str(&text).ok()?;
    Some(sheet.get("command")?.as_str()?.to_owned())
}

/// A chart whose series come in pairs of what was measured and what it is held against: one entry a method, one for each
/// of `against`, which are the ends of the references' names with what the legend calls them.
pub(super) fn paired(chart: Chart, against: &[(&str, &str)]) -> Picture {
    let apart: Vec<(String, String)> = chart
        .series
        .iter()
        .map(|series| {
            let of =
                |(end, called): &(&str, &str)| Some((series.name.strip_suffix(end)?.to_owned(), (*called).to_owned()));
            against
                .iter()
                .find_map(of)
                .unwrap_or_else(|| (series.name.clone(), String::new()))
        })
        .collect();
    let legend = Legend::of_pairs(&chart, &apart);
    Picture::Chart(chart, legend)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn studies_are_found_and_what_cannot_be_read_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("time-per-round.svg", "<svg/>");
        write("paper/figure/figure.svg", "<svg xmlns='http://www.w3.org/2000/svg'/>");
        write(
            "paper/figure/environment.json",
            "{\"command\": \"rounds run paper/figure --threads 2\"}",
        );
        write("private-sco/table.md", "| a |\n|---|\n| 1 |\n");
        write("latency/latency.json", "[{\"algorithm\": \"sgd\", \"seconds\": 1.5}]");
        write("broken/study.json", "{\"title\": \"half");
        write("noise-mechanisms.json", "{}");
        write("another/measurements.jsonl", "");
        write("another/figure.svg", "<svg/>");
        let found = Beside::read(folder.path());
        let names: Vec<&str> = found.others.iter().map(|other| other.name.as_str()).collect();
        assert_eq!(names, ["latency", "paper/figure", "private-sco"]);
        assert!(
            found
                .messages
                .iter()
                .any(|message| message.contains("broken/study.json is left out"))
        );
        assert!(
            found
                .messages
                .iter()
                .any(|message| message.contains("noise-mechanisms.json"))
        );
        let sections = found.sections();
        let ids: Vec<&str> = sections.iter().map(|(id, ..)| id.as_str()).collect();
        assert_eq!(ids, ["papers", "studies"]);
        assert!(sections[0].2.contains("rounds run paper/figure --threads 2"));
        assert!(
            sections[1].2.contains("rounds run private-sco")
                && !sections[1].2.contains("rounds run latency")
                && sections[1].2.contains(">seconds<")
        );
    }
}
