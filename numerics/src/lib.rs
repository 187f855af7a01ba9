//! Dense linear algebra and Fourier transforms behind plain functions.
//!
//! The libraries underneath are generic over number types. Their code is generated here, once, and not again in every
//! crate and test that needs a Cholesky factor. Nothing of optimisation or privacy may live here.

pub mod dense;
mod fourier;

pub use faer::{Mat, MatRef};
pub use fourier::{Complex64, RealFourier, power};
