//! A rank's part of a data set: the rows `⌊n·r/P⌋..⌊n·(r+1)/P⌋` of rank r of P.
//!
//! Of plain IDX files a rank reads its rows by seeking, the labels (one byte a row), and once, block by block without keeping
//! them, the rows of the next rank, whose digest proves that both read the same file. In all other formats, and in packed
//! files, rows cannot be found without reading those before them: a rank reads the whole and keeps its rows.

use std::ops::Range;
use std::path::Path;

use rounds_algorithms::parallel::partition::leaf_range;
use rounds_algorithms::problem::Dataset;
use sha2::{Digest as _, Sha256};

use super::error::{DataError, Explained};
use super::formats::idx;
use super::labels::RawLabels;
use super::load::{self, idx_data};
use super::request::Request;
use super::table::{Reading, Table, check_counts};

/// Digests that ranks compare to find out if they read the same data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digests {
    /// Equal on all ranks.
    pub common: [u8; 32],
    /// Of the rank's own rows.
    pub own: [u8; 32],
    /// Of the next rank's rows, as this rank reads them.
    pub next: [u8; 32],
}

/// A rank's part.
pub struct Part {
    /// Its training rows.
    pub train: Dataset,
    /// Test rows for accuracy; on rank 0 alone.
    pub test: Option<Dataset>,
    /// For the comparison.
    pub digests: Digests,
}

/// The refusal of ranks that would share out a unit.
pub(crate) const UNITS_OVER_RANKS: &str =
    "rows of units are not shared out over ranks: run one process, with as many threads";

/// Rows of rank `rank` of `ranks`.
fn rows_of(name: &str, rows: usize, rank: usize, ranks: usize) -> Result<Range<usize>, DataError> {
    if rows < ranks {
        let name = name.to_owned();
        return Err(DataError::MoreRanksThanRows { name, ranks });
    }
    Ok(leaf_range(rows, ranks, rank))
}

/// Loads the part of rank `rank` of `ranks` of the rows that are asked for.
///
/// # Errors
/// As [`load_requested`](super::load_requested), and fewer rows than ranks.
pub fn load(
    name_or_path: &str,
    data_dir: Option<&Path>,
    request: Request<'_>,
    rank: usize,
    ranks: usize,
) -> Result<Part, Explained> {
    let part = rows(name_or_path, data_dir, request, (rank, ranks));
    part.map_err(|error| error.about(Path::new(name_or_path)).for_reader())
}

/// As [`load`]; the error withholds what was found, and may be about a file of the data.
pub(crate) fn rows(
    name_or_path: &str,
    data_dir: Option<&Path>,
    request: Request<'_>,
    (rank, ranks): (usize, usize),
) -> Result<Part, DataError> {
    if ranks == 1 {
        let whole = load::rows(name_or_path, data_dir, request)?;
        return Ok(Part { train: whole.train, test: whole.test, digests: Digests::default() });
    }
    if request.unit.is_some() {
        return Err(DataError::file(Path::new(name_or_path), UNITS_OVER_RANKS));
    }
    if request.is_whole()
        && let Some((name, [images, labels_file, test_images, test_labels], classes)) =
            idx_data(name_or_path, data_dir)?
        && let Some(rows) = idx::seekable_rows(&images)?
    {
        let own = rows_of(&name, rows, rank, ranks)?;
        let labels = idx::read_labels(&labels_file)?;
        check_counts(&images, rows, &labels_file, labels.len(), "label")?;
        let mut common = Sha256::new();
        common.update((rows as u64).to_le_bytes());
        labels.iter().for_each(|label| common.update(label.to_le_bytes()));
        let part = idx::read_part(&images, own.clone(), leaf_range(rows, ranks, (rank + 1) % ranks))?;
        let columns = part.features.columns();
        common.update((columns as u64).to_le_bytes());
        let own_labels = labels[own].to_vec();
        let raw = |values| RawLabels::Indices { values, classes };
        // Without a domain there are as many classes as all ranks' rows have.
        let reading = Reading::of(request, columns, &labels_file, &raw(labels))?;
        let own = Table::of_files(&images, part.features, &labels_file, raw(own_labels));
        let test = (rank == 0).then(|| {
            let test = idx::read_table(&test_images, &test_labels, classes)?;
            reading.dataset(&name, test)
        });
        return Ok(Part {
            train: reading.dataset(&name, own)?,
            test: test.transpose()?,
            digests: Digests { common: common.finalize().into(), own: part.digest, next: part.hashed },
        });
    }
    let whole = load::rows(name_or_path, data_dir, request)?;
    let own = rows_of(whole.train.name(), whole.train.len(), rank, ranks)?;
    let common = whole.train.digest();
    Ok(Part {
        train: whole.train.select(own),
        test: whole.test.filter(|_| rank == 0),
        digests: Digests { common, ..Digests::default() },
    })
}
