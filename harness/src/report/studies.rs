//! The studies below the folder of a run, each made anew from its raw runs.

use std::path::Path;

use maud::html;

use crate::drawing::presentation::{Presentation, slug};
use crate::drawing::shell::Section;
use crate::grouping::by_key;
use crate::results::visit;

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
        visit(folder, &mut |path| {
            let problem = match present(path) {
                Ok(Some((page, messages))) => {
                    let name = path.strip_prefix(folder).unwrap_or(path).display().to_string();
                    found.presentations.push((name, page));
                    found.messages.extend(messages);
                    None
                }
                Ok(None) if path == folder => None,
                Ok(None) => Some("name it alone; it is another run, or its definition is gone".to_owned()),
                Err(error) => Some(format!("{error:#}")),
            };
            let left_out = problem.map(|problem| format!("{} is left out: {problem}", path.display()));
            let is_shown = left_out.is_none();
            found.messages.extend(left_out);
            is_shown
        });
        found
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
    use std::fs;

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
