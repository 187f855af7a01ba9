//! Data, settings and executors of the tests' runs.

use std::sync::Arc;

use rounds_algorithms::catalog;
use rounds_algorithms::executor::Executor;
use rounds_algorithms::optimizers::{Algorithm, Budget, Prepared, Settings};
use rounds_algorithms::parallel::Engine;
use rounds_algorithms::problem::{
    Bounds, Columns, Dataset, Domain, DomainSource, Features, Label, Labels, Problem, SparseMatrix, Storage,
};
use rounds_kernels::loss::Loss;
use rounds_kernels::random::{Purpose, StreamKey, UniformStream};

/// A noise multiplier at δ = 1e-5.
pub(crate) fn noisy(noise_multiplier: f64, seed: u64) -> Settings {
    let delta = 1e-5;
    let budget = Budget::NoiseMultiplier { noise_multiplier, delta };
    Settings::new(budget, StreamKey::Simulation(seed))
}

/// ε = 5 at δ = 1e-5 where the algorithm is private.
pub(crate) fn budget(algorithm: &Algorithm) -> Budget {
    let (epsilon, delta) = (5.0, 1e-5);
    if algorithm.private { Budget::Target { epsilon, delta } } else { Budget::NonPrivate }
}

/// The algorithm with this id, ready for its first round.
pub(crate) fn prepared(problem: &Problem, id: &str, settings: &Settings) -> Prepared {
    let prepared = catalog::find(id).expect("in the catalogue").prepare(problem, settings);
    prepared.unwrap_or_else(|error| panic!("{id}: {error}"))
}

/// Its run.
pub(crate) fn executor<'p>(problem: &'p Problem, id: &str, settings: &Settings, engine: &Engine) -> Executor<'p> {
    Executor::new(problem, engine.clone(), prepared(problem, id, settings))
}

/// Signs ±1 for 0 classes.
pub(crate) fn labels(rows: usize, classes: u64, stream: &mut UniformStream) -> Labels {
    if classes == 0 {
        let sign = |_| if stream.below(2) == 0 { -1.0 } else { 1.0 };
        Labels::Values((0..rows).map(sign).collect())
    } else {
        let values = (0..rows).map(|_| stream.below(classes) as u32).collect();
        Labels::numbered(values, classes as usize)
    }
}

/// Uniform features in [−1, 1), or bytes, of format `u8`, `f32` or `sparse`; labels by [`labels`].
pub(crate) fn dataset(format: &str, rows: usize, columns: usize, classes: u64) -> Dataset {
    let mut stream = UniformStream::new(&StreamKey::Simulation(5), Purpose(1), 0, 0);
    let features = match format {
        "u8" => {
            let values: Vec<u8> = (0..rows * columns).map(|_| stream.below(256) as u8).collect();
            Features::bytes(&values, columns, 1.0 / 255.0)
        }
        "f32" => {
            let values: Vec<f32> = (0..rows * columns).map(|_| (2.0 * stream.next_f64() - 1.0) as f32).collect();
            Features::f32(values, columns)
        }
        _ => {
            let mut sparse = SparseMatrix::new(columns);
            for _ in 0..rows {
                sparse.push_row((0..columns as u32).filter_map(|column| {
                    let stored = stream.below(4) == 0;
                    stored.then(|| (column, (2.0 * stream.next_f64() - 1.0) as f32))
                }));
            }
            Features::Sparse(sparse)
        }
    };
    let labels = labels(rows, classes, &mut stream);
    Dataset::new("uniform", features, labels).expect("a valid data set")
}

/// Dense rows in a declared domain.
pub(crate) fn in_domain(dataset: Dataset) -> Dataset {
    let bounds = Bounds::new(-1.0, 1.0).expect("bounds");
    let count = dataset.columns();
    let names = (0..dataset.classes().expect("classes")).map(|class| class.to_string());
    let label = Label::Classes(names.collect());
    let domain = Domain::new(Columns::Matrix { count, bounds }, Storage::Dense, label, DomainSource::Arguments);
    dataset.in_domain(Arc::new(domain)).expect("rows of the domain")
}

pub(crate) fn loss_of(dataset: &Dataset) -> Loss {
    if dataset.classes().is_some() { Loss::Softmax } else { Loss::Logistic }
}

/// All rows, with a bias and a regulariser.
pub(crate) fn whole(dataset: &Dataset) -> Problem {
    Problem::new(Arc::new(dataset.clone()), loss_of(dataset), true, 0.01).expect("a problem")
}
