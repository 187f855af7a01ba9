//! Ranks: processes (or threads) that share the rows of a problem and answer its rounds together.
//!
//! **What is computed where.** A batch's leaves depend on its size alone ([`super::partition`]), and a leaf is summed
//! whole by one rank, so a leaf's bits do not depend on who sums it. Rank r of P takes the leaves `⌊L·r/P⌋..⌊L·(r+1)/P⌋`,
//! adds them along the binary tree that every engine uses ([`crate::oracle::tree`]), and the roots of its subtrees travel: one
//! sum a rank where P is a power of two, combined by recursive doubling (log₂ P messages of p values, one latency each),
//! and at most 2·log₂ L of them otherwise, in one all-gather. Every rank ends with the same bits, so every rank draws the
//! same noise and keeps the same model, and nothing but sums is sent.
//!
//! **Where rows lie.** Each rank holds the features of a contiguous n/P of the rows ([`crate::problem::Problem::sharded`]);
//! labels and row norms, 8 bytes a row, are everywhere, and so is who has a row as a guest, 6 bytes a row. A leaf may ask
//! for rows that another rank holds: guests. Who holds what follows from the batches, which all ranks know, so nobody
//! asks: rows are one message, without a reply.
//!
//! Most guests are known before the first round, and come then ([`crate::oracle::Oracle::place`]): all of them for a fixed order,
//! shuffled once or not, whose batches are known; for Poisson batches and batches without replacement, which are drawn in
//! the order of the rows, those around a rank's own rows that lie within five standard deviations of where its part of a
//! batch ends. Then a round is one all-reduce and nothing else. What was not foreseen travels before its round; only
//! batches that are shuffled anew each epoch, in runs of more than one, and queries of ReSQue do so all the time.
//!
//! **What cannot overlap.** A rank's sum is complete when its last leaf is, in every coordinate, and the next round's
//! gradients are taken at a point that needs the sum of all ranks. Sums of single leaves, sent while others are computed,
//! would have to be added in the order of the tree: as many vectors as leaves would travel instead of one. Noise and the
//! next batch, which do not depend on a round's sum, take microseconds; rows come before the first round.

use std::sync::{Arc, Barrier, Mutex};

use super::lock::lock;

/// A rank's view of all ranks. Every call is collective: all ranks make the same calls in the same order, with the lengths
/// that all of them know.
pub trait Ranks: Send + Sync {
    /// This rank, below [`count`](Self::count).
    fn rank(&self) -> usize;

    /// The number of ranks.
    fn count(&self) -> usize;

    /// Sends `values` to `partner` and receives as many from it: both call it.
    fn swap(&self, partner: usize, values: &[f64], received: &mut [f64]);

    /// Puts rank r's `own`, of `lengths[r]` bytes, at its place in `all`, on every rank.
    fn all_gather(&self, own: &[u8], lengths: &[usize], all: &mut [u8]);

    /// Copies `bytes` of rank `from` to all.
    fn broadcast(&self, from: usize, bytes: &mut [u8]);

    /// Sends `outgoing[q]` to rank q and fills `incoming[q]`, whose length is known, from it. Nothing travels where a length
    /// is 0.
    fn exchange(&self, outgoing: &[Vec<u8>], incoming: &mut [Vec<u8>]);
}

/// Gathers messages of any length: rank r's at place r.
pub fn gather_messages(ranks: &dyn Ranks, own: &[u8]) -> Vec<Vec<u8>> {
    let count = ranks.count();
    let mut lengths = vec![0; 8 * count];
    ranks.all_gather(&(own.len() as u64).to_le_bytes(), &vec![8; count], &mut lengths);
    let lengths: Vec<usize> =
        lengths.as_chunks::<8>().0.iter().map(|&length| u64::from_le_bytes(length) as usize).collect();
    let mut all = vec![0; lengths.iter().sum()];
    ranks.all_gather(own, &lengths, &mut all);
    let mut rest = all.as_slice();
    lengths
        .iter()
        .map(|&length| {
            let (message, others) = rest.split_at(length);
            rest = others;
            message.to_vec()
        })
        .collect()
}

/// The state that the threads of [`ThreadRanks`] share.
struct Meeting {
    barrier: Barrier,
    places: Vec<Mutex<Vec<Vec<u8>>>>,
}

/// Ranks that are threads of one process, each with its own part of the rows: what a cluster does, without one.
pub struct ThreadRanks {
    rank: usize,
    meeting: Arc<Meeting>,
}

impl ThreadRanks {
    /// `count` ranks that belong together, one for each thread.
    pub fn of(count: usize) -> Vec<Self> {
        let meeting = Arc::new(Meeting {
            barrier: Barrier::new(count),
            places: (0..count).map(|_| Mutex::new(Vec::new())).collect(),
        });
        (0..count).map(|rank| Self { rank, meeting: Arc::clone(&meeting) }).collect()
    }

    /// Lays down messages, reads those of others through `read(rank, messages)`, and leaves when all have read.
    fn meet(&self, messages: Vec<Vec<u8>>, mut read: impl FnMut(usize, &[Vec<u8>])) {
        let place = |rank: usize| lock(&self.meeting.places[rank]);
        *place(self.rank) = messages;
        self.meeting.barrier.wait();
        for rank in 0..self.meeting.places.len() {
            read(rank, &place(rank));
        }
        self.meeting.barrier.wait();
    }
}

impl Ranks for ThreadRanks {
    fn rank(&self) -> usize {
        self.rank
    }

    fn count(&self) -> usize {
        self.meeting.places.len()
    }

    fn swap(&self, partner: usize, values: &[f64], received: &mut [f64]) {
        let message = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.meet(vec![message], |rank, messages| {
            if rank == partner {
                for (to, &from) in received.iter_mut().zip(messages[0].as_chunks::<8>().0) {
                    *to = f64::from_le_bytes(from);
                }
            }
        });
    }

    fn all_gather(&self, own: &[u8], lengths: &[usize], all: &mut [u8]) {
        assert_eq!(own.len(), lengths[self.rank], "a part of another length than announced");
        let mut rest = all;
        self.meet(vec![own.to_vec()], |rank, messages| {
            let (part, others) = std::mem::take(&mut rest).split_at_mut(lengths[rank]);
            part.copy_from_slice(&messages[0]);
            rest = others;
        });
    }

    fn broadcast(&self, from: usize, bytes: &mut [u8]) {
        self.meet(vec![bytes.to_vec()], |rank, messages| {
            if rank == from {
                bytes.copy_from_slice(&messages[0]);
            }
        });
    }

    fn exchange(&self, outgoing: &[Vec<u8>], incoming: &mut [Vec<u8>]) {
        self.meet(outgoing.to_vec(), |rank, messages| {
            incoming[rank].copy_from_slice(&messages[self.rank]);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_at_their_places() {
        let ranks = ThreadRanks::of(3);
        std::thread::scope(|scope| {
            for ranks in ranks {
                scope.spawn(move || {
                    let own = vec![ranks.rank() as u8; 2 * ranks.rank()];
                    let all = gather_messages(&ranks, &own);
                    assert_eq!(all, [vec![], vec![1; 2], vec![2; 4]]);
                    let mut word = [ranks.rank() as u8; 3];
                    ranks.broadcast(2, &mut word);
                    assert_eq!(word, [2; 3]);
                    // Rank r sends q bytes of value r to rank q.
                    let outgoing: Vec<_> = (0..3).map(|to| vec![ranks.rank() as u8; to]).collect();
                    let mut incoming = vec![vec![9; ranks.rank()]; 3];
                    ranks.exchange(&outgoing, &mut incoming);
                    for (from, bytes) in incoming.iter().enumerate() {
                        assert_eq!(*bytes, vec![from as u8; ranks.rank()]);
                    }
                });
            }
        });
    }
}
