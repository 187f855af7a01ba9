//! A rank's part of the rows, and copies of other rows that its leaves need.
//!
//! Every rank holds labels and row norms of all rows, 8 bytes a row; the number of stored values of sparse rows, 4 bytes; and,
//! once a row is copied, the rank and the slot of the copy, 6 bytes a row. Rank r holds the features of its own rows
//! `⌊n·r/P⌋..⌊n·(r+1)/P⌋`, and copies of those that its share of the batches needs, as far as that is known before the first
//! round ([`Shard::place`]), or up to as many as it has rows. The rank of each copy follows from the batches, so all ranks know
//! it without messages.

use std::ops::Range;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use rounds_kernels::features::{Norm, Selection};
use rounds_kernels::linear::{self, Batch, Planes, RowNorms};

use super::dataset::Dataset;
use super::features::{Features, Labels, SparseMatrix};
use crate::parallel::partition::{leaf_range, rank_positions};
use crate::parallel::ranks::{Ranks, gather_messages};

/// No rank has a copy.
const NO_RANK: u16 = u16::MAX;
/// No slot holds a copy.
const NO_SLOT: u32 = u32::MAX;

/// Bytes of rows that a rank sends or receives in one go while rows are placed, about.
const PIECE_BYTES: usize = 64 << 20;

/// Blocks of a rank's own rows; the rows around them are fetched in blocks of the same size.
const SURROUNDING_BLOCKS: usize = 32;

/// A rank's state of rows that are shared out over ranks.
pub(crate) struct Shard {
    /// Number of rows of all ranks.
    pub(super) rows: usize,
    ranks: usize,
    rank: usize,
    /// Of all rows.
    pub(super) labels: Labels,
    /// Of all rows.
    pub(super) l2_norms: RowNorms,
    /// Stored values of each row of all ranks, for sparse rows.
    stored_of: Vec<u32>,
    /// Values that the features of all ranks store.
    pub(super) stored: usize,
    bias: bool,
    store: RwLock<Store>,
}

/// The rows that this rank can read: its own ones, then copies.
pub(crate) struct Store {
    own_rows: Range<usize>,
    features: Features,
    /// The same rows as integers in planes, where gradient queries read them so.
    planes: Option<Planes>,
    labels: Labels,
    l2_norms: RowNorms,
    /// Computed when first needed.
    l1_norms: Option<RowNorms>,
    /// Row of each copy, in the order of their slots.
    copies: Vec<u32>,
    /// Slot of each row that is copied to this rank.
    slot_of: Vec<u32>,
    /// The rank that copied a row last.
    copied_to: Vec<u16>,
    /// Copies on every rank.
    counts: Vec<usize>,
    /// Largest number of copies on every rank.
    capacity: Vec<usize>,
}

impl Shard {
    /// Sends labels and norms of the part `dataset` of this rank to all ranks, and takes its features over.
    ///
    /// # Panics
    /// Parts that are not the contiguous n/P rows of their rank; more than 65,534 ranks.
    pub(crate) fn new(
        dataset: &mut Dataset,
        planes: Option<Planes>,
        l2_norms: &RowNorms,
        bias: bool,
        ranks: &dyn Ranks,
    ) -> Self {
        let (rank, count) = (ranks.rank(), ranks.count());
        assert!(count < usize::from(NO_RANK), "{count} ranks are too many");
        let length = (dataset.len() as u32).to_le_bytes();
        let lengths = gathered(ranks, [length], |bytes| u32::from_le_bytes(bytes) as usize);
        let rows = lengths.iter().sum();
        for (other, &length) in lengths.iter().enumerate() {
            let share = leaf_range(rows, count, other).len();
            assert_eq!(length, share, "rows of rank {other}, and its share of them");
        }
        let singles = |own: &[f32]| gathered(ranks, own.iter().map(|value| value.to_le_bytes()), f32::from_le_bytes);
        let labels = match dataset.labels() {
            Labels::Classes { values, classes, names } => {
                let own = values.iter().map(|value| value.to_le_bytes());
                Labels::Classes {
                    values: gathered(ranks, own, u32::from_le_bytes),
                    classes: *classes,
                    names: names.clone(),
                }
            }
            Labels::Values(values) => Labels::Values(singles(values)),
        };
        let all_norms = singles(&l2_norms.values);
        let (stored_of, stored) = match dataset.features() {
            Features::Sparse(SparseMatrix { offsets, .. }) => {
                let own = offsets.windows(2).map(|row| ((row[1] - row[0]) as u32).to_le_bytes());
                let all = gathered(ranks, own, u32::from_le_bytes);
                let stored = all.iter().map(|&stored| stored as usize).sum();
                (all, stored)
            }
            dense => (Vec::new(), rows * dense.columns()),
        };
        Self {
            rows,
            ranks: count,
            rank,
            labels,
            l2_norms: RowNorms { norm: l2_norms.norm, values: all_norms },
            stored_of,
            stored,
            bias,
            store: RwLock::new(Store {
                own_rows: leaf_range(rows, count, rank),
                features: dataset.take_features(),
                planes,
                labels: dataset.labels().clone(),
                l2_norms: l2_norms.clone(),
                l1_norms: None,
                copies: Vec::new(),
                slot_of: Vec::new(),
                copied_to: Vec::new(),
                counts: vec![0; count],
                capacity: lengths,
            }),
        }
    }

    /// The rows that this rank can read.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Store> {
        self.store.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Store> {
        self.store.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies to each rank the rows that its leaves read: collective. Without missing rows no message is sent.
    pub(crate) fn fetch(&self, batch: &Selection<'_>, leaves: usize, norm: Option<Norm>, ranks: &dyn Ranks) {
        let store = &mut *self.write();
        if norm == Some(Norm::L1) && store.l1_norms.is_none() {
            store.l1_norms = Some(self.norms_of(&store.features, Norm::L1));
        }
        let mut missing = self.missing(store, batch, leaves);
        if missing.iter().all(Vec::is_empty) {
            return;
        }
        if (0..self.ranks).any(|rank| store.counts[rank] + missing[rank].len() > store.capacity[rank]) {
            // The copies of all ranks go, so that all ranks still know the place of each.
            self.clear(store);
            missing = self.missing(store, batch, leaves);
        }
        self.exchange(store, &missing, ranks);
    }

    /// Copies the rows `expected[r]`, which rank r is going to read, to it, where they are not its own: collective. Other
    /// copies go.
    ///
    /// A rank takes at most twice as many copies as it has rows, those that are nearest to its own. Its share of the leaves
    /// needs no more where batches have at least as many leaves as there are ranks.
    pub(crate) fn place(&self, expected: Vec<Vec<u32>>, ranks: &dyn Ranks) {
        let store = &mut *self.write();
        self.clear(store);
        let mut copies: Vec<Vec<u32>> = Vec::with_capacity(self.ranks);
        for (rank, mut rows) in expected.into_iter().enumerate() {
            let own_rows = leaf_range(self.rows, self.ranks, rank);
            rows.retain(|&row| !own_rows.contains(&(row as usize)));
            if rows.len() > 2 * own_rows.len() {
                rows.sort_by_key(|&row| {
                    own_rows.start.saturating_sub(row as usize) + (row as usize).saturating_sub(own_rows.end)
                });
                rows.truncate(2 * own_rows.len());
            }
            rows.retain(|&row| store.mark(self.rows, row as usize, rank));
            store.capacity[rank] = own_rows.len().max(rows.len() + own_rows.len() / 8);
            copies.push(rows);
        }
        // In pieces, so that messages take little memory.
        let row_bytes = (self.stored * 8).div_ceil(self.rows.max(1)).max(1);
        let piece = (PIECE_BYTES / row_bytes).max(1);
        let pieces = copies.iter().map(|rows| rows.len().div_ceil(piece)).max().unwrap_or(0);
        for number in 0..pieces {
            let part = |rows: &Vec<u32>| {
                let [from, to] = [number, number + 1].map(|place| (place * piece).min(rows.len()));
                rows[from..to].to_vec()
            };
            self.exchange(store, &copies.iter().map(part).collect::<Vec<_>>(), ranks);
        }
    }

    /// Removes all copies: collective, as all ranks must still know the place of each row.
    pub(crate) fn remove_copies(&self) {
        self.clear(&mut self.write());
    }

    /// Removes the copies of all ranks.
    fn clear(&self, store: &mut Store) {
        for &row in &store.copies {
            store.slot_of[row as usize] = NO_SLOT;
        }
        store.copies.clear();
        store.copied_to.fill(NO_RANK);
        store.counts.fill(0);
        let own = store.own_rows.len();
        store.features.truncate(own);
        store.planes.iter_mut().for_each(|planes| planes.truncate(own));
        store.labels.truncate(own);
        store.l2_norms.values.truncate(own);
        store.l1_norms.iter_mut().for_each(|norms| norms.values.truncate(own));
        for (rank, capacity) in store.capacity.iter_mut().enumerate() {
            *capacity = leaf_range(self.rows, self.ranks, rank).len();
        }
    }

    /// Sends the rows `missing[r]`, which are marked as copied to rank r, to it from their owners.
    fn exchange(&self, store: &mut Store, missing: &[Vec<u32>], ranks: &dyn Ranks) {
        for (count, rows) in store.counts.iter_mut().zip(missing) {
            *count += rows.len();
        }
        let own = &missing[self.rank];
        let outgoing: Vec<Vec<u8>> = missing
            .iter()
            .map(|rows| {
                let rows = rows.iter().map(|&row| row as usize);
                let mine = rows.filter(|row| store.own_rows.contains(row));
                store.pack(mine.map(|row| row - store.own_rows.start))
            })
            .collect();
        let mut from: Vec<Vec<u32>> = vec![Vec::new(); self.ranks];
        own.iter().for_each(|&row| from[self.owner(row as usize)].push(row));
        let mut incoming: Vec<Vec<u8>> = from.iter().map(|rows| vec![0; self.packed(store, rows)]).collect();
        ranks.exchange(&outgoing, &mut incoming);
        for (rows, bytes) in from.iter().zip(&incoming) {
            self.receive(store, rows, bytes);
        }
    }

    /// For each rank, the rows of its leaves that it lacks; they are marked as copied to it.
    fn missing(&self, store: &mut Store, batch: &Selection<'_>, leaves: usize) -> Vec<Vec<u32>> {
        (0..self.ranks)
            .map(|rank| {
                let mut rows = Vec::new();
                let own_rows = leaf_range(self.rows, self.ranks, rank);
                let mut need = |row: usize| {
                    if !own_rows.contains(&row) && store.mark(self.rows, row, rank) {
                        rows.push(row as u32);
                    }
                };
                let positions = rank_positions(batch.len(), leaves, self.ranks, rank);
                let share = positions.len();
                match batch {
                    Selection::Range(range) => {
                        let needed = range.start + positions.start..range.start + positions.end;
                        // All but what lies before and after the rank's own rows.
                        (needed.start..needed.end.min(own_rows.start)).for_each(&mut need);
                        (needed.start.max(own_rows.end)..needed.end).for_each(&mut need);
                    }
                    Selection::Indices(indices) => indices[positions].iter().for_each(|&row| need(row as usize)),
                }
                if let Some((before, after)) = self.surroundings(&rows, &own_rows, share) {
                    let more = before.chain(after).filter(|&row| store.mark(self.rows, row, rank));
                    rows.extend(more.map(|row| row as u32));
                }
                rows
            })
            .collect()
    }

    /// Rows next to a rank's own that are copied along with the few missing ones, before and after its own.
    ///
    /// Batches in the order of the rows (Poisson, without replacement) need rows a little beyond the own ones, further out in
    /// some rounds than in others. A message costs its latency, and a row next to nothing: the surroundings are copied whole,
    /// up to the furthest missing row, and after some rounds no row is missing. A batch that lacks more than a quarter of its
    /// rows is in no order, and surroundings would not help it.
    fn surroundings(
        &self,
        missing: &[u32],
        own_rows: &Range<usize>,
        share: usize,
    ) -> Option<(Range<usize>, Range<usize>)> {
        let (low, high) = (*missing.iter().min()? as usize, *missing.iter().max()? as usize);
        if 4 * missing.len() > share {
            return None;
        }
        let block = own_rows.len().div_ceil(SURROUNDING_BLOCKS);
        let before = low.min(own_rows.start) / block * block..own_rows.start;
        let after =
            own_rows.end..(high.max(own_rows.end - 1) / block + 1).saturating_mul(block).clamp(own_rows.end, self.rows);
        (2 * (before.len() + after.len()) <= own_rows.len()).then_some((before, after))
    }

    /// The rank that owns a row.
    fn owner(&self, row: usize) -> usize {
        ((row + 1) * self.ranks - 1) / self.rows
    }

    /// Bytes of a message of `rows`.
    fn packed(&self, store: &Store, rows: &[u32]) -> usize {
        match &store.features {
            Features::F32 { columns, .. } => 4 * columns * rows.len(),
            Features::U8 { rows: own, .. } => own.columns() * rows.len(),
            Features::Sparse(_) => rows.iter().map(|&row| 8 * self.stored_of[row as usize] as usize).sum(),
        }
    }

    /// Stores copies from the message that holds them.
    fn receive(&self, store: &mut Store, rows: &[u32], bytes: &[u8]) {
        if rows.is_empty() {
            return;
        }
        let first = store.features.len();
        let arrived = match store.features.emptied() {
            Features::U8 { rows, scale } => Features::bytes(bytes, rows.columns(), scale),
            Features::F32 { columns, .. } => Features::f32(numbers(bytes, f32::from_le_bytes), columns),
            Features::Sparse(mut sparse) => {
                let (indices, values) = bytes.split_at(bytes.len() / 2);
                sparse.indices = numbers(indices, u32::from_le_bytes);
                sparse.values = numbers(values, f32::from_le_bytes);
                for &row in rows {
                    let end = sparse.offsets[sparse.offsets.len() - 1];
                    sparse.offsets.push(end + self.stored_of[row as usize] as usize);
                }
                Features::Sparse(sparse)
            }
        };
        if let Some(own) = &mut store.l1_norms {
            own.values.extend(self.norms_of(&arrived, Norm::L1).values);
        }
        if let (Some(planes), Features::F32 { values, .. }) = (&mut store.planes, &arrived) {
            planes.append(values);
        }
        store.features.append(&arrived);
        store.labels.extend_from(&self.labels, rows);
        let norms = rows.iter().map(|&row| self.l2_norms.values[row as usize]);
        store.l2_norms.values.extend(norms);
        for (index, &row) in rows.iter().enumerate() {
            store.slot_of[row as usize] = (first + index) as u32;
            store.copies.push(row);
        }
    }

    fn norms_of(&self, features: &Features, norm: Norm) -> RowNorms {
        linear::row_norms(features.rows(), self.bias, norm)
            .expect("rows were checked when their L2 norms were computed")
    }
}

impl Store {
    /// Marks `row`, of `rows` rows in all, as copied to `rank`; false if it was already.
    fn mark(&mut self, rows: usize, row: usize, rank: usize) -> bool {
        if self.copied_to.is_empty() {
            self.copied_to = vec![NO_RANK; rows];
            self.slot_of = vec![NO_SLOT; rows];
        }
        let new = usize::from(self.copied_to[row]) != rank;
        self.copied_to[row] = rank as u16;
        new
    }

    /// Rows for the kernels: `selection` counts slots.
    pub(crate) fn batch<'b>(&'b self, selection: Selection<'b>, norm: Option<Norm>) -> Batch<'b> {
        let norms = match norm {
            None => None,
            Some(Norm::L2) => Some(&self.l2_norms),
            Some(Norm::L1) => self.l1_norms.as_ref(),
        };
        Batch {
            rows: self.features.rows().with_planes(self.planes.as_ref().map(Planes::view)),
            targets: self.labels.targets(),
            norms,
            selection,
            units: None,
        }
    }

    /// The slots of rows that are stored here: a range where they are neighbours, else a list in `slots`.
    pub(crate) fn locate<'s>(&self, rows: &Selection<'_>, slots: &'s mut Vec<u32>) -> Selection<'s> {
        let first = self.own_rows.start;
        if let Selection::Range(range) = rows
            && range.start >= first
            && range.end <= self.own_rows.end
        {
            return Selection::Range(range.start - first..range.end - first);
        }
        slots.clear();
        let slot = |row: usize| {
            if self.own_rows.contains(&row) { (row - first) as u32 } else { self.slot_of[row] }
        };
        match rows {
            Selection::Range(range) => slots.extend(range.clone().map(slot)),
            Selection::Indices(indices) => slots.extend(indices.iter().map(|&row| slot(row as usize))),
        }
        debug_assert!(slots.iter().all(|&slot| slot != NO_SLOT), "a row is not stored here");
        Selection::Indices(slots)
    }

    /// The row of a slot.
    pub(crate) fn row(&self, slot: usize) -> usize {
        match slot.checked_sub(self.own_rows.len()) {
            None => self.own_rows.start + slot,
            Some(copy) => self.copies[copy] as usize,
        }
    }

    /// A message of the rows in `slots`: their values, after their columns where they are sparse.
    fn pack(&self, slots: impl Iterator<Item = usize> + Clone) -> Vec<u8> {
        let mut bytes = Vec::new();
        match &self.features {
            Features::U8 { rows, scale } => {
                let rows = rows.view(*scale);
                slots.for_each(|slot| bytes.extend_from_slice(rows.row(slot)));
            }
            Features::F32 { values, columns } => {
                for slot in slots {
                    let row = &values[slot * columns..(slot + 1) * columns];
                    bytes.extend(row.iter().flat_map(|value| value.to_le_bytes()));
                }
            }
            Features::Sparse(sparse) => {
                for slot in slots.clone() {
                    bytes.extend(sparse.indices[sparse.row(slot)].iter().flat_map(|index| index.to_le_bytes()));
                }
                for slot in slots {
                    bytes.extend(sparse.values[sparse.row(slot)].iter().flat_map(|value| value.to_le_bytes()));
                }
            }
        }
        bytes
    }
}

/// The numbers of all ranks, rank by rank, from their little-endian bytes.
fn gathered<T>(ranks: &dyn Ranks, own: impl IntoIterator<Item = [u8; 4]>, number: fn([u8; 4]) -> T) -> Vec<T> {
    let own: Vec<[u8; 4]> = own.into_iter().collect();
    let parts = gather_messages(ranks, own.as_flattened());
    parts.iter().flat_map(|part| numbers(part, number)).collect()
}

/// Numbers from their little-endian bytes.
fn numbers<T>(bytes: &[u8], number: impl Fn([u8; 4]) -> T) -> Vec<T> {
    bytes.as_chunks::<4>().0.iter().map(|&bytes| number(bytes)).collect()
}
