//! The studies below the folder of a run, each made anew from its raw runs.

use std::fs;
use std::path::{Path, PathBuf};

use maud::html;

use crate::drawing::presentation::{Presentation, slug};
use crate::drawing::shell::Section;
use crate::experiment::store;
use crate::grouping::by_key;

/// Depth of studies below the folder of a run: `paper/srg-table-1`.
const DEPTH: usize = 3;

/// Makes the page of the runs in a folder, and messages about them; `None` where no study made them.
type Present<'a> = &'a dyn Fn(&Path) -> anyhow::Result<Option<(Presentation, Vec<String>)>>;

/// Studies below the folder of a run.
#[derive(Debug, Default)]
pub struct Studies {
    /// By folder.
    pub presentations: Vec<(String, Presentation)>,
    /// What is left out, with the reason.
    pub messages: Vec<String>,
}

impl Studies {
    /// Reads the studies below `folder`, which `present` makes from their runs. The messages name what cannot be read.
    pub fn read(folder: &Path, present: Present) -> Self {
        let mut found = Self::default();
        found.search(folder, folder, present, 0);
        found
    }

    fn search(&mut self, root: &Path, folder: &Path, present: Present, depth: usize) {
        let mut entries: Vec<PathBuf> = match fs::read_dir(folder) {
            Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
            Err(error) => {
                self.messages.push(format!("cannot read {}: {error}", folder.display()));
                return;
            }
        };
        entries.sort();
        let problem = match store::holds_results(folder).then(|| present(folder)) {
            Some(Ok(Some((page, messages)))) => {
                let name = folder.strip_prefix(root).unwrap_or(folder).display().to_string();
                self.presentations.push((name, page));
                self.messages.extend(messages);
                None
            }
            Some(Ok(None)) if depth > 0 => {
                Some("name it alone; it is another run, or its definition is gone".to_owned())
            }
            Some(Err(error)) => Some(format!("{error:#}")),
            Some(Ok(None)) | None => None,
        };
        if let Some(problem) = problem {
            self.messages.push(format!("{} is left out: {problem}", folder.display()));
            return;
        }
        if depth < DEPTH {
            for path in entries.iter().filter(|path| path.is_dir()) {
                self.search(root, path, present, depth + 1);
            }
        }
    }

    /// A section for each group of presentations; those of papers come last.
    pub(super) fn sections(&self) -> Vec<Section> {
        let presentations = self.presentations.iter();
        let mut groups = by_key(presentations.map(|(name, presentation)| (&*presentation.group, (name, presentation))));
        groups.sort_by_key(|(group, _)| *group == "Papers");
        let section = |(group, own): (&str, Vec<(&String, &Presentation)>)| {
            let alone = own.len() == 1;
            let html = html! {
                @if !alone { h2 { (group) } }
                @for (name, presentation) in own {
                    @if alone { h2 { (presentation.title) } } @else { h3.study { (presentation.title) } }
                    (presentation.body(&slug(if name.is_empty() { &presentation.title } else { name }), !alone))
                }
            };
            Section::new(&slug(group), group, html)
        };
        groups.into_iter().map(section).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn studies_are_made_anew_or_read_and_what_is_left_out_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("time-per-round.svg", "<svg/>");
        for name in ["paper/figure", "other", "unfinished"] {
            write(&format!("{name}/environment.json"), "{}");
        }
        write("other/below/environment.json", "{}");
        write("scaling/environment.json", "{}");
        let found = Studies::read(folder.path(), &|path| match path.file_name().unwrap().to_str() {
            Some("scaling") => Ok(Some((Presentation::new("Scaling", "Thread scaling", "About."), Vec::new()))),
            Some("figure") => Ok(Some((Presentation::new("Figure 1", "Papers", ""), vec!["new".into()]))),
            Some("unfinished") => anyhow::bail!("no run is finished yet"),
            _ => Ok(None),
        });
        let names: Vec<&str> = found.presentations.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["paper/figure", "scaling"]);
        let expected = "other is left out|new|unfinished is left out: no run is finished yet";
        assert_eq!(found.messages.len(), 3, "{:?}", found.messages);
        for (message, expected) in found.messages.iter().zip(expected.split('|')) {
            assert!(message.contains(expected), "{message}");
        }
        let sections = found.sections();
        let ids: Vec<&str> = sections.iter().map(|section| section.id.as_str()).collect();
        assert_eq!(ids, ["thread-scaling", "papers"]);
        assert!(sections[0].html.0.contains("<h2>Scaling</h2>"));
    }
}
