//! Reports: charts and tables as data, their pictures and pages, and the self-contained `report.html` of a run.
//!
//! A study builds a [`Presentation`] of charts and tables; this module draws it. Nothing here measures, and nothing here
//! depends on a study.

mod cards;
mod cells;
mod chart;
mod declared;
mod figures;
mod labels;
mod legend;
mod page;
mod peers;
mod presentation;
mod shell;
mod studies;
mod summary;
mod svg;
mod table;
mod warnings;

pub(crate) use chart::ends;
pub use declared::Show;
pub use figures::time_per_round_svg;
pub(crate) use labels::Labels;
pub use page::report_html;
pub use presentation::{Part, Presentation};
pub use studies::Studies;
pub(crate) use summary::summary;
pub(crate) use table::Look;
pub use table::{Entry, Table};
#[cfg(test)]
pub(crate) use {chart::Chart, summary::LINES as SUMMARY_LINES, table::EXCERPT_ROWS};
