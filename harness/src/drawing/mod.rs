//! Charts and tables as data, and their pictures and pages.
//!
//! A study builds a [`Presentation`] of charts and tables; this module draws it. It knows no run and no study.

pub(crate) mod chart;
pub(crate) mod declared;
mod legend;
pub(crate) mod presentation;
pub(crate) mod shell;
mod svg;
pub(crate) mod table;

pub use declared::Show;
pub use presentation::{Part, Presentation};
pub use table::{Entry, Table};
