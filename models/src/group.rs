//! The ranks of a run: "the same on all ranks, or fail on all".
//!
//! A run takes the same steps on every rank. A step that may fail on one rank alone ends with [`Group::agree`], so that all ranks
//! stop with one error. Nothing here prints, and nothing here has a clock.

use std::sync::Arc;

use rounds_algorithms::parallel::ranks::{Ranks, gather_messages};
use rounds_algorithms::problem::Dataset;
use zeroize::Zeroizing;

use crate::data::part::{self, Digests, Part};
use crate::data::{DataError, Request};

/// An error that all ranks have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SharedError {
    /// What failed, with the rank's name unless all failed alike.
    pub message: String,
    /// Bad usage, rather than a failure.
    pub is_usage: bool,
}

impl SharedError {
    fn usage(message: String) -> Self {
        Self { message, is_usage: true }
    }
}

/// The ranks of a run, or this process alone.
#[derive(Clone, Default)]
pub struct Group {
    ranks: Option<Arc<dyn Ranks>>,
}

impl Group {
    /// This process alone.
    pub fn alone() -> Self {
        Self::default()
    }

    /// The ranks given.
    pub fn over(ranks: Arc<dyn Ranks>) -> Self {
        Self { ranks: Some(ranks) }
    }

    /// The ranks; `None` for [`alone`](Self::alone).
    pub fn ranks(&self) -> Option<&dyn Ranks> {
        self.ranks.as_deref()
    }

    /// Number of ranks; `None` for [`alone`](Self::alone).
    pub fn count(&self) -> Option<usize> {
        self.ranks().map(Ranks::count)
    }

    /// True on the rank that prints and writes.
    pub fn is_root(&self) -> bool {
        self.ranks().is_none_or(|ranks| ranks.rank() == 0)
    }

    /// The error of all ranks, if any has one of its `own`: that of the lowest rank, with the rank's name unless all failed alike.
    /// A process alone keeps its own.
    ///
    /// # Errors
    /// The error that all ranks share.
    pub fn agree(&self, own: Option<SharedError>) -> Result<(), SharedError> {
        let Some(ranks) = self.ranks() else { return Ok(()) };
        let message = own.map_or_else(Vec::new, |own| [&[u8::from(own.is_usage)], own.message.as_bytes()].concat());
        let all = gather_messages(ranks, &message);
        let Some(failed) = all.iter().position(|message| !message.is_empty()) else {
            return Ok(());
        };
        let mut message = String::from_utf8_lossy(&all[failed][1..]).into_owned();
        if all.iter().any(|message| *message != all[failed]) {
            message = format!("{}: {message}", self.name(failed));
        }
        Err(SharedError { message, is_usage: all[failed][0] == 1 })
    }

    /// The rank in words.
    pub fn name(&self, rank: usize) -> String {
        format!("rank {rank} of {}", self.count().unwrap_or(1))
    }

    /// Checks that all ranks have the same `value`. The error names the first line that differs.
    ///
    /// # Errors
    /// The first rank that differs from rank 0, as bad usage.
    pub fn check_same(&self, what: &str, value: &str) -> Result<(), SharedError> {
        let Some([other, root]) = self.ranks().and_then(|ranks| differing(ranks, value.as_bytes())) else {
            return Ok(());
        };
        let texts = [&other, &root].map(|rank| String::from_utf8_lossy(&rank.1));
        let (other, root) = (&other.0, &root.0);
        let mut lines = texts.each_ref().map(|text| text.lines());
        let [differs, expected] = loop {
            let pair = lines.each_mut().map(Iterator::next);
            if pair[0] != pair[1] || pair == [None, None] {
                break pair.map(|line| line.unwrap_or("nothing"));
            }
        };
        Err(SharedError::usage(format!("{other} has another {what} than {root}: {differs} and {expected}")))
    }

    /// Rank 0's `bytes` on every rank; their number is rank 0's too.
    pub fn broadcast(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        if let Some(ranks) = self.ranks() {
            let mut length = (bytes.len() as u64).to_le_bytes();
            ranks.broadcast(0, &mut length);
            if ranks.rank() != 0 {
                bytes = vec![0; u64::from_le_bytes(length) as usize];
            }
            ranks.broadcast(0, &mut bytes);
        }
        bytes
    }

    /// Secret bytes of rank 0 on every rank. No copy is left in this process, but for those that the ranks' messages make.
    pub fn broadcast_secret(&self, mut bytes: Zeroizing<Vec<u8>>) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(self.broadcast(std::mem::take(&mut *bytes)))
    }

    /// This rank's part of the requested data. [`check_same_rows`](Self::check_same_rows) follows.
    ///
    /// # Errors
    /// Data that this rank cannot read, fewer rows than ranks.
    pub(crate) fn read_part(
        &self,
        name_or_path: &str,
        data_dir: Option<&std::path::Path>,
        request: Request<'_>,
    ) -> Result<Part, DataError> {
        let part = part::rows(name_or_path, data_dir, request, self.place());
        part.map_err(|error| error.about(std::path::Path::new(name_or_path)))
    }

    /// The number of this rank, and that of all ranks.
    pub fn place(&self) -> (usize, usize) {
        self.ranks().map_or((0, 1), |ranks| (ranks.rank(), ranks.count()))
    }

    /// Checks that all ranks see the same rows. The error names ranks and prints no digest: anybody can compare a digest without
    /// a key with that of guessed rows.
    ///
    /// # Errors
    /// Ranks that see different data, as bad usage.
    pub fn check_same_rows(&self, digests: &Digests) -> Result<(), SharedError> {
        let Some(ranks) = self.ranks() else { return Ok(()) };
        let remedy = "ranks see different data: give every rank the same files";
        let refused = |what: String| SharedError::usage(format!("{remedy}: {what}"));
        if let Some([other, root]) = differing(ranks, &digests.common) {
            return Err(refused(format!("{} has other data than {}", other.0, root.0)));
        }
        let all = gather_messages(ranks, [digests.own, digests.next].as_flattened());
        let count = ranks.count();
        let Some(rank) = (0..count).find(|&rank| all[rank][32..] != all[(rank + 1) % count][..32]) else {
            return Ok(());
        };
        let next = (rank + 1) % count;
        Err(refused(format!("rank {rank} and rank {next} read other rows of rank {next}'s")))
    }

    /// SHA-256 of the rows of all ranks, of which `part` is this rank's; before a problem takes them.
    pub fn digest(&self, part: &Dataset) -> [u8; 32] {
        self.ranks().map_or_else(|| part.digest(), |ranks| part.digest_over(ranks))
    }
}

/// A rank in words, with its host, and its value.
type RankValue = (String, Vec<u8>);

/// The first rank whose `value` differs from rank 0's, and rank 0.
fn differing(ranks: &dyn Ranks, value: &[u8]) -> Option<[RankValue; 2]> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let message = [host.trim().as_bytes(), b"\0", value].concat();
    let mut all = gather_messages(ranks, &message).into_iter().enumerate().map(|(rank, message)| {
        let host = message.split(|&byte| byte == 0).next().unwrap_or_default();
        let name = format!("rank {rank} (on {})", String::from_utf8_lossy(host));
        (name, message[host.len() + 1..].to_vec())
    });
    let root = all.next()?;
    all.find(|other| other.1 != root.1).map(|other| [other, root])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::FitError;
    use rounds_algorithms::parallel::ranks::ThreadRanks;

    fn on_ranks<R: Send>(count: usize, work: impl Fn(usize, Group) -> R + Sync) -> Vec<R> {
        let work = &work;
        std::thread::scope(|scope| {
            let running: Vec<_> = ThreadRanks::of(count)
                .into_iter()
                .map(|ranks| scope.spawn(move || work(ranks.rank(), Group::over(Arc::new(ranks)))))
                .collect();
            running.into_iter().map(|rank| rank.join().unwrap()).collect()
        })
    }

    #[test]
    fn ranks_that_see_other_rows_are_named_and_no_digest_is_printed() {
        // Of every rank the digests, and what the error names.
        let shared = Digests { common: [1; 32], own: [2; 32], next: [2; 32] };
        let (common, own, next) = ([9; 32], [9; 32], [9; 32]);
        let others = [
            (Digests { common, ..shared }, ["rank 1 (on ", "rank 0 (on "]),
            (Digests { own, ..shared }, ["rank 0 and rank 1", "rank 1's"]),
            (Digests { next, ..shared }, ["rank 1 and rank 2", "rank 2's"]),
        ];
        for (other, named) in others {
            let check = |rank, group: Group| group.check_same_rows(if rank == 1 { &other } else { &shared });
            for refused in on_ranks(3, check) {
                let SharedError { message, is_usage } = refused.unwrap_err();
                assert!(is_usage && message.starts_with("ranks see different data"), "{message}");
                assert!(named.iter().all(|name| message.contains(name)), "{message}");
                for byte in ["01", "02", "09"] {
                    assert!(!message.contains(&byte.repeat(4)), "{message}");
                }
            }
        }
        assert_eq!(on_ranks(3, |_, group| group.check_same_rows(&shared)), [const { Ok(()) }; 3]);
    }

    #[test]
    fn steps_of_rank_0_give_their_bytes_or_their_error_to_all() {
        for length in [0, 1, 100] {
            let outcomes = on_ranks(3, |rank, group| {
                let own = vec![rank as u8 + 1; length * (rank + 1)];
                group.broadcast_secret(Zeroizing::new(own)).to_vec()
            });
            assert_eq!(outcomes, vec![vec![1; length]; 3]);
        }
        let failed = on_ranks(3, |rank, group| {
            let step = || Err(FitError::Argument { argument: "data".into(), problem: format!("rank {rank} failed") });
            group.root_only(step).unwrap_err()
        });
        for error in failed {
            assert_eq!((error.is_usage(), error.to_string()), (true, "rank 0 of 3: `data`: rank 0 failed".to_owned()));
        }
    }
}
