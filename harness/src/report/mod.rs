//! Pictures and pages: figures as SVG, and one self-contained `report.html` for a run.
//!
//! Everything is drawn from the cells and the environment of a run; nothing here measures. Figures carry classes
//! instead of colours, so that one picture is readable on light and dark pages and its series can be switched.

mod bars;
mod beside;
mod cards;
mod chart;
mod doubts;
mod figures;
mod format;
mod labels;
mod latency;
mod legend;
mod mechanisms;
mod page;
mod peers;
mod scaling;
mod section;
mod shell;
mod study;
mod tables;
mod training;

pub use beside::{Beside, Other};
pub use figures::time_per_round_svg;
pub use latency::{latency_svg, latency_table, scaling_table};
pub use mechanisms::mechanisms_html;
pub use page::{report_html, report_html_with};
pub use scaling::{scaling_html, scaling_svgs};
pub use study::{model_errors, study_html, study_pictures};
pub use training::{Curve, curves_svg, training_svgs, training_table};
