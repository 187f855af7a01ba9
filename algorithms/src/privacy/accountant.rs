//! The accountants. They are values without state.

use serde::{Deserialize, Serialize};

use crate::choices::choices;

choices! {
    /// An accountant turns a mechanism into (ε, δ). Every ε is an upper bound; none is a central-limit approximation.
    #[derive(Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Accountant {
        /// Exact for mechanisms that are Gaussian throughout.
        Gdp = "gdp",
        /// Gaussian and Laplace without Gaussian subsampling; the tight conversion.
        Zcdp = "zcdp",
        /// As zcdp, by the conversion ρ + 2√(ρ ln(1/δ)) that papers print: to compare with their numbers, never tighter.
        ZcdpSimple = "zcdp-simple",
        /// Everything; continuous orders, the tight conversion.
        Rdp = "rdp",
        /// The privacy loss distribution: the tightest for Poisson sampling and unlike steps.
        Pld = "pld",
        /// The last iterate of steps that contract, exact for what it covers; its conditions are those of the run.
        LastIterate = "last-iterate",
        /// Pure ε by addition, for Laplace.
        Pure = "pure",
    }
}
