//! Discrete Fourier transforms of real sequences.

use std::cell::RefCell;
use std::sync::Arc;

use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};

pub use realfft::num_complex::Complex64;
pub use realfft::num_traits::pow as power;

/// The sines of a length, which take longer to compute than a transform that reads them.
#[derive(Clone)]
struct Tables {
    length: usize,
    forward: Arc<dyn RealToComplex<f64>>,
    backward: Arc<dyn ComplexToReal<f64>>,
}

thread_local! {
    /// Those that this thread used last, the last one first: a search transforms a few lengths again and again.
    static LATEST: RefCell<Vec<Tables>> = const { RefCell::new(Vec::new()) };
}

/// Lengths that are kept come to at most this: some 25 MB.
const MOST_KEPT: usize = 1 << 20;

impl Tables {
    fn of(length: usize) -> Self {
        LATEST.with_borrow_mut(|latest| {
            let known = latest.iter().position(|tables| tables.length == length).map(|place| latest.remove(place));
            let tables = known.unwrap_or_else(|| {
                let mut planner = RealFftPlanner::<f64>::new();
                let forward = planner.plan_fft_forward(length);
                Self { length, forward, backward: planner.plan_fft_inverse(length) }
            });
            if length <= MOST_KEPT {
                latest.insert(0, tables.clone());
            }
            let mut kept = 0;
            latest.retain(|tables| {
                kept += tables.length;
                kept <= MOST_KEPT
            });
            tables
        })
    }
}

/// The transform X_k = Σ_j x_j·e^{−2πi·jk/n} of n real numbers and its inverse without the factor 1/n. X has the
/// ⌊n/2⌋ + 1 entries that determine the others.
pub struct RealFourier {
    forward: Arc<dyn RealToComplex<f64>>,
    backward: Arc<dyn ComplexToReal<f64>>,
    scratch: Vec<Complex64>,
}

impl RealFourier {
    /// The transforms of `length` numbers.
    pub fn new(length: usize) -> Self {
        let Tables { forward, backward, .. } = Tables::of(length);
        let scratch = vec![Complex64::default(); forward.get_scratch_len().max(backward.get_scratch_len())];
        Self { forward, backward, scratch }
    }

    /// Entries of a spectrum.
    pub fn spectrum_length(&self) -> usize {
        self.forward.complex_len()
    }

    /// Writes the spectrum of `values`, which are overwritten.
    ///
    /// # Panics
    /// Lengths other than those of the transform.
    pub fn forward(&mut self, values: &mut [f64], spectrum: &mut [Complex64]) {
        self.forward.process_with_scratch(values, spectrum, &mut self.scratch).expect("lengths of the transform");
    }

    /// Writes n times the numbers of `spectrum`, which is overwritten. Its first entry, and for even n its last, must be
    /// real.
    ///
    /// # Panics
    /// Lengths other than those of the transform, entries that must be real and are not.
    pub fn inverse(&mut self, spectrum: &mut [Complex64], values: &mut [f64]) {
        self.backward
            .process_with_scratch(spectrum, values, &mut self.scratch)
            .expect("lengths of the transform and real ends");
    }
}
