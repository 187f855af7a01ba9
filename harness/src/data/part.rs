//! A rank's part of a data set: the rows `⌊n·r/P⌋..⌊n·(r+1)/P⌋` of rank r of P.
//!
//! Of plain IDX files a rank reads its rows by seeking, the labels (one byte a row), and once, block by block without keeping
//! them, the rows of the next rank, whose digest proves that both read the same file. In all other formats, and in packed
//! files, rows cannot be found without reading those before them: a rank reads the whole and keeps its rows.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use rounds_algorithms::oracle::partition::leaf_range;
use rounds_algorithms::problem::{Dataset, Domain};
use sha2::{Digest as _, Sha256};

use super::error::DataError;
use super::folder::{self, Reading, Table};
use super::idx;
use super::labels::RawLabels;

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

/// The reason for which a part cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PartError {
    /// A rank without rows.
    #[error("data set {name} has fewer rows than there are ranks, {ranks}: start fewer ranks")]
    MoreRanksThanRows {
        /// The data set.
        name: String,
        /// The ranks.
        ranks: usize,
    },
    /// The data cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
}

/// Rows of rank `rank` of `ranks`.
fn rows_of(name: &str, rows: usize, rank: usize, ranks: usize) -> Result<Range<usize>, PartError> {
    if rows < ranks {
        return Err(PartError::MoreRanksThanRows {
            name: name.to_owned(),
            ranks,
        });
    }
    Ok(leaf_range(rows, ranks, rank))
}

/// Loads the part of rank `rank` of `ranks`, encoded into `domain`; without one as it is.
///
/// # Errors
/// As [`super::load_declared`], and fewer rows than ranks.
pub fn load(
    name_or_path: &str,
    data_dir: Option<&Path>,
    domain: Option<&Arc<Domain>>,
    rank: usize,
    ranks: usize,
) -> Result<Part, PartError> {
    if let Some((name, [images, labels_file, test_images, test_labels], classes)) =
        folder::idx_data(name_or_path, data_dir)?
        && let Some(rows) = idx::seekable_rows(&images)?
    {
        let own = rows_of(&name, rows, rank, ranks)?;
        let labels = idx::read_labels(&labels_file)?;
        folder::check_counts(&images, rows, &labels_file, labels.len())?;
        let mut common = Sha256::new();
        common.update((rows as u64).to_le_bytes());
        labels.iter().for_each(|label| common.update(label.to_le_bytes()));
        let part = idx::read_part(&images, own.clone(), leaf_range(rows, ranks, (rank + 1) % ranks))?;
        let columns = part.features.columns();
        common.update((columns as u64).to_le_bytes());
        let own_labels = labels[own].to_vec();
        let raw = |values| RawLabels::Indices { values, classes };
        // Without a domain there are as many classes as all ranks' rows have.
        let reading = Reading::of(domain, columns, &labels_file, &raw(labels))?;
        let own = Table::of_files(&images, part.features, &labels_file, raw(own_labels));
        let test = (rank == 0).then(|| {
            let test = Table::of_idx(&test_images, &test_labels, classes)?;
            reading.dataset(&name, test)
        });
        return Ok(Part {
            train: reading.dataset(&name, own)?,
            test: test.transpose()?,
            digests: Digests {
                common: common.finalize().into(),
                own: part.digest,
                next: part.hashed,
            },
        });
    }
    let whole = super::load_declared(name_or_path, data_dir, domain)?;
    let own = rows_of(whole.train.name(), whole.train.len(), rank, ranks)?;
    let common = whole.train.digest();
    Ok(Part {
        train: whole.train.part(own),
        test: whole.test.filter(|_| rank == 0),
        digests: Digests {
            common,
            ..Digests::default()
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes MNIST's four files with `rows` training rows of 6 bytes.
    fn write(folder: &Path, rows: u32) {
        let images = |rows: u32| {
            let mut bytes = vec![0, 0, 8, 3];
            [rows, 2, 3].iter().for_each(|size| bytes.extend(size.to_be_bytes()));
            bytes.extend((0..rows * 6).map(|value| (value * 7 % 251) as u8));
            bytes
        };
        let labels = |rows: u32| {
            let mut bytes = vec![0, 0, 8, 1];
            bytes.extend(rows.to_be_bytes());
            bytes.extend((0..rows).map(|row| (row % 10) as u8));
            bytes
        };
        for (name, bytes) in [
            ("train-images-idx3-ubyte", images(rows)),
            ("train-labels-idx1-ubyte", labels(rows)),
            ("t10k-images-idx3-ubyte", images(10)),
            ("t10k-labels-idx1-ubyte", labels(10)),
        ] {
            std::fs::write(folder.join(name), bytes).unwrap();
        }
    }

    #[test]
    fn parts_make_up_the_whole_and_neighbours_agree() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), 23);
        let path = folder.path().to_str().unwrap();
        let whole = super::super::load(path, None).unwrap();
        for ranks in [1, 2, 5, 23] {
            let parts: Vec<_> = (0..ranks)
                .map(|rank| load(path, None, None, rank, ranks).unwrap())
                .collect();
            for (rank, part) in parts.iter().enumerate() {
                assert_eq!(part.train, whole.train.clone().part(leaf_range(23, ranks, rank)));
                assert_eq!(part.digests.common, parts[0].digests.common);
                assert_eq!(part.digests.next, parts[(rank + 1) % ranks].digests.own);
                assert_eq!(part.test.is_some(), rank == 0);
            }
        }
        assert_eq!(load(path, None, None, 0, 2).unwrap().test, whole.test);
        let refused = load(path, None, None, 3, 24).err().unwrap();
        assert!(refused.to_string().contains("ranks, 24"), "{refused}");
    }

    #[test]
    fn a_byte_that_differs_is_seen_by_the_neighbour() {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        folders.iter().for_each(|folder| write(folder.path(), 40));
        let file = folders[1].path().join("train-images-idx3-ubyte");
        let mut bytes = std::fs::read(&file).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(&file, bytes).unwrap();
        let parts: Vec<_> = (0..2)
            .map(|rank| {
                load(folders[rank].path().to_str().unwrap(), None, None, rank, 2)
                    .unwrap()
                    .digests
            })
            .collect();
        assert_eq!(parts[0].common, parts[1].common);
        assert_ne!(parts[0].next, parts[1].own);
        assert_eq!(parts[1].next, parts[0].own);
    }
}
