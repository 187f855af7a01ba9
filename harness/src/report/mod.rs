//! The report of a run: its summary in words, and the self-contained `report.html` with the studies below its folder.
//!
//! Nothing here measures, and nothing here depends on a study.

mod cells;
mod figures;
mod labels;
mod page;
mod studies;
mod summary;
mod warnings;

pub use figures::time_per_round_svg;
pub(crate) use labels::Labels;
pub use page::report_html;
pub use studies::Studies;
#[cfg(test)]
pub(crate) use summary::LINES as SUMMARY_LINES;
pub(crate) use summary::summary;
