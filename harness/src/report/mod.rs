//! Reports: charts and tables as data, their pictures and pages, and the self-contained `report.html` of a run.
//!
//! A study builds a [`Presentation`] of charts and tables; this module draws it. Nothing here measures, and nothing here
//! depends on a study.

mod cards;
mod cells;
mod chart;
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

pub use chart::{Axis, Bar, Bars, Chart, Format, Point, Scale, Series, Style, ends, grouped};
pub use figures::time_per_round_svg;
pub(crate) use labels::{Labels, sentence_of_guarantees};
pub use page::report_html;
pub(crate) use presentation::slug;
pub use presentation::{FILE as PRESENTATION, Figure, Panel, Part, Picture, Presentation};
pub use studies::Studies;
pub use summary::summary;
pub use svg::grid_svg;
pub use table::{Column, Entry, Look, Table};
#[cfg(test)]
pub(crate) use {summary::LINES as SUMMARY_LINES, table::EXCERPT_ROWS};
