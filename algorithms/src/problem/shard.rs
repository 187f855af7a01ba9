//! A rank's part of the rows, and the guests that its leaves brought in.
//!
//! Everywhere: labels and row norms, 8 bytes a row; the number of stored values of sparse rows, 4 bytes; and, once a row is
//! somewhere's guest, who has it and where, 6 bytes a row. On one rank: the features of the rows `⌊n·r/P⌋..⌊n·(r+1)/P⌋`,
//! for good, and guests: those that its share of the batches asks for, as far as that is known before the first round
//! ([`Shard::place`]), or up to as many as it has rows. Which rank has which guest follows from the batches, so all ranks
//! know it without asking.

use std::ops::Range;
use std::sync::{RwLock, RwLockReadGuard};

use rounds_kernels::features::{Norm, Selection, Targets};
use rounds_kernels::linear::{self, Batch, RowNorms};

use super::{ByteRows, Dataset, Features, Labels};
use crate::oracle::partition::{leaf_range, rank_positions};
use crate::oracle::ranks::{Ranks, gather_messages};

/// No rank, no slot.
const NOBODY: u16 = u16::MAX;
const NOWHERE: u32 = u32::MAX;

/// Bytes of rows that a rank sends or receives in one go while rows are placed, about.
const PIECE_BYTES: usize = 64 << 20;

/// Blocks of a rank's own rows; the rows around them are fetched in blocks of the same size.
const SURROUNDING_BLOCKS: usize = 32;

/// What a rank holds and knows of rows that are shared out over ranks.
pub(crate) struct Shard {
    /// Number of rows of all ranks.
    rows: usize,
    ranks: usize,
    rank: usize,
    /// Of all rows.
    labels: Labels,
    l2_norms: RowNorms,
    /// Stored values of each row of all ranks, for sparse rows.
    stored_of: Vec<u32>,
    stored: usize,
    bias: bool,
    store: RwLock<Store>,
}

/// The rows that this rank can read: its own ones, then guests.
pub(crate) struct Store {
    home: Range<usize>,
    features: Features,
    labels: Labels,
    l2_norms: RowNorms,
    /// Made when first asked for.
    l1_norms: Option<RowNorms>,
    /// Row of each guest, in the order of their slots.
    guests: Vec<u32>,
    /// Slot of each guest row of this rank.
    slot_of: Vec<u32>,
    /// The rank that has a row as a guest, the last one that asked.
    holder: Vec<u16>,
    /// Guests of every rank.
    counts: Vec<usize>,
    /// Guests of every rank at most.
    most: Vec<usize>,
}

impl Shard {
    /// Makes the part `dataset` of this rank known to all ranks, and takes its features over.
    ///
    /// # Panics
    /// Parts that are not the contiguous n/P rows of their rank; more than 65,534 ranks.
    pub(crate) fn new(dataset: &mut Dataset, l2_norms: &RowNorms, bias: bool, ranks: &dyn Ranks) -> Self {
        let (rank, count) = (ranks.rank(), ranks.count());
        assert!(count < usize::from(NOBODY), "{count} ranks are too many");
        let lengths: Vec<usize> = gather_messages(ranks, &(dataset.len() as u64).to_le_bytes())
            .iter()
            .map(|length| u64::from_le_bytes(length[..].try_into().expect("eight bytes")) as usize)
            .collect();
        let rows = lengths.iter().sum();
        for (other, &length) in lengths.iter().enumerate() {
            let expected = leaf_range(rows, count, other).len();
            assert_eq!(
                length, expected,
                "rank {other} holds another number of rows than its share"
            );
        }
        let gather = |own: Vec<[u8; 4]>| -> Vec<[u8; 4]> {
            gather_messages(ranks, own.as_flattened())
                .iter()
                .flat_map(|part| part.as_chunks::<4>().0.iter().copied())
                .collect()
        };
        let labels = match dataset.labels() {
            Labels::Classes { values, classes, names } => Labels::Classes {
                values: gather(values.iter().map(|value| value.to_le_bytes()).collect())
                    .into_iter()
                    .map(u32::from_le_bytes)
                    .collect(),
                classes: *classes,
                names: names.clone(),
            },
            Labels::Values(values) => Labels::Values(
                gather(values.iter().map(|value| value.to_le_bytes()).collect())
                    .into_iter()
                    .map(f32::from_le_bytes)
                    .collect(),
            ),
        };
        let all_norms = gather(l2_norms.values.iter().map(|value| value.to_le_bytes()).collect());
        let (stored_of, stored) = match dataset.features() {
            Features::Sparse { offsets, .. } => {
                let own = offsets.windows(2).map(|row| ((row[1] - row[0]) as u32).to_le_bytes());
                let all: Vec<u32> = gather(own.collect()).into_iter().map(u32::from_le_bytes).collect();
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
            l2_norms: RowNorms {
                norm: l2_norms.norm,
                values: all_norms.into_iter().map(f32::from_le_bytes).collect(),
            },
            stored_of,
            stored,
            bias,
            store: RwLock::new(Store {
                home: leaf_range(rows, count, rank),
                features: dataset.take_features(),
                labels: dataset.labels().clone(),
                l2_norms: l2_norms.clone(),
                l1_norms: None,
                guests: Vec::new(),
                slot_of: Vec::new(),
                holder: Vec::new(),
                counts: vec![0; count],
                most: lengths,
            }),
        }
    }

    /// Rows of all ranks.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Labels of all rows.
    pub(crate) fn targets(&self) -> Targets<'_> {
        self.labels.targets()
    }

    /// L2 norms of all rows.
    pub(crate) fn l2_norms(&self) -> &RowNorms {
        &self.l2_norms
    }

    /// Values that the features of all ranks store.
    pub(crate) fn stored(&self) -> usize {
        self.stored
    }

    /// Bytes that the features of all ranks would take in one place.
    pub(crate) fn bytes(&self) -> usize {
        match self.read().features {
            Features::F32 { .. } => 4 * self.stored,
            Features::U8 { .. } => self.stored,
            Features::Sparse { .. } => 8 * self.stored + size_of::<usize>() * (self.rows + 1),
        }
    }

    /// The rows that this rank can read.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Store> {
        self.store.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Brings the rows that the leaves of each rank ask for to it: collective, and nothing travels where nothing is missing.
    pub(crate) fn fetch(&self, batch: &Selection<'_>, leaves: usize, norm: Option<Norm>, ranks: &dyn Ranks) {
        let mut guard = self.store.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        let store = &mut *guard;
        if norm == Some(Norm::L1) && store.l1_norms.is_none() {
            store.l1_norms = Some(self.norms_of(&store.features, Norm::L1));
        }
        let mut missing = self.missing(store, batch, leaves);
        if missing.iter().all(Vec::is_empty) {
            return;
        }
        if (0..self.ranks).any(|rank| store.counts[rank] + missing[rank].len() > store.most[rank]) {
            // The guests of all ranks leave, so that all still know where everything is.
            self.dismiss(store);
            missing = self.missing(store, batch, leaves);
        }
        self.bring(store, &missing, ranks);
    }

    /// Makes the rows `expected[r]`, which rank r is going to read, its guests, where they are not its own: collective.
    /// Other guests leave.
    ///
    /// A rank takes at most twice as many guests as it has rows, those that are nearest to its own. Its share of the
    /// leaves asks for no more where batches have at least as many leaves as there are ranks.
    pub(crate) fn place(&self, expected: Vec<Vec<u32>>, ranks: &dyn Ranks) {
        let mut guard = self.store.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        let store = &mut *guard;
        self.dismiss(store);
        let mut guests: Vec<Vec<u32>> = Vec::with_capacity(self.ranks);
        for (rank, mut rows) in expected.into_iter().enumerate() {
            let home = leaf_range(self.rows, self.ranks, rank);
            rows.retain(|&row| !home.contains(&(row as usize)));
            if rows.len() > 2 * home.len() {
                rows.sort_by_key(|&row| {
                    home.start.saturating_sub(row as usize) + (row as usize).saturating_sub(home.end)
                });
                rows.truncate(2 * home.len());
            }
            rows.retain(|&row| store.entered(self.rows, row as usize, rank));
            store.most[rank] = home.len().max(rows.len() + home.len() / 8);
            guests.push(rows);
        }
        // In pieces, so that what is on its way takes little memory.
        let row_bytes = (self.stored * 8).div_ceil(self.rows.max(1)).max(1);
        let piece = (PIECE_BYTES / row_bytes).max(1);
        let pieces = guests.iter().map(|rows| rows.len().div_ceil(piece)).max().unwrap_or(0);
        for number in 0..pieces {
            let part = |rows: &Vec<u32>| {
                let [from, to] = [number, number + 1].map(|place| (place * piece).min(rows.len()));
                rows[from..to].to_vec()
            };
            self.bring(store, &guests.iter().map(part).collect::<Vec<_>>(), ranks);
        }
    }

    /// Every guest leaves: collective, as all ranks must still know where everything is.
    pub(crate) fn forget(&self) {
        self.dismiss(&mut self.store.write().unwrap_or_else(std::sync::PoisonError::into_inner));
    }

    /// Forgets the guests of all ranks.
    fn dismiss(&self, store: &mut Store) {
        store.dismiss();
        for (rank, most) in store.most.iter_mut().enumerate() {
            *most = leaf_range(self.rows, self.ranks, rank).len();
        }
    }

    /// Sends the rows `missing[r]`, which are entered as guests of rank r, to it from those whose own they are.
    fn bring(&self, store: &mut Store, missing: &[Vec<u32>], ranks: &dyn Ranks) {
        for (count, rows) in store.counts.iter_mut().zip(missing) {
            *count += rows.len();
        }
        let own = &missing[self.rank];
        let outgoing: Vec<Vec<u8>> = missing
            .iter()
            .enumerate()
            .map(|(to, rows)| {
                if to == self.rank {
                    return Vec::new();
                }
                let mine = rows
                    .iter()
                    .map(|&row| row as usize)
                    .filter(|row| store.home.contains(row));
                store.pack(mine.map(|row| row - store.home.start))
            })
            .collect();
        let mut from: Vec<Vec<u32>> = vec![Vec::new(); self.ranks];
        own.iter().for_each(|&row| from[self.owner(row as usize)].push(row));
        let mut incoming: Vec<Vec<u8>> = from.iter().map(|rows| vec![0; self.packed(store, rows)]).collect();
        ranks.exchange(&outgoing, &mut incoming);
        for (rows, bytes) in from.iter().zip(&incoming) {
            self.admit(store, rows, bytes);
        }
    }

    /// For each rank, the rows of its leaves that it has not; they are entered as its guests.
    fn missing(&self, store: &mut Store, batch: &Selection<'_>, leaves: usize) -> Vec<Vec<u32>> {
        (0..self.ranks)
            .map(|rank| {
                let mut rows = Vec::new();
                let home = leaf_range(self.rows, self.ranks, rank);
                let mut ask = |row: usize| {
                    if !home.contains(&row) && store.entered(self.rows, row, rank) {
                        rows.push(row as u32);
                    }
                };
                let positions = rank_positions(batch.len(), leaves, self.ranks, rank);
                let share = positions.len();
                match batch {
                    Selection::Range(range) => {
                        let asked = range.start + positions.start..range.start + positions.end;
                        // All but what lies before and after the rank's own rows.
                        (asked.start..asked.end.min(home.start)).for_each(&mut ask);
                        (asked.start.max(home.end)..asked.end).for_each(&mut ask);
                    }
                    Selection::Indices(indices) => indices[positions].iter().for_each(|&row| ask(row as usize)),
                }
                if let Some((before, after)) = self.surroundings(&rows, &home, share) {
                    let mut more = |row: usize| {
                        if store.entered(self.rows, row, rank) {
                            rows.push(row as u32);
                        }
                    };
                    before.for_each(&mut more);
                    after.for_each(&mut more);
                }
                rows
            })
            .collect()
    }

    /// Rows next to a rank's own that are worth fetching along with the few that it misses, before and after its own.
    ///
    /// Batches in the order of the rows (Poisson, without replacement) ask for rows a little beyond the own ones, further out
    /// in some rounds than in others. A message costs its latency, and a row next to nothing: the surroundings come whole, up
    /// to the furthest row that was asked for, and after some rounds nothing is missing any more. A batch that misses more
    /// than a quarter of its rows is in no order, and surroundings would not help it.
    fn surroundings(&self, missing: &[u32], home: &Range<usize>, share: usize) -> Option<(Range<usize>, Range<usize>)> {
        let (low, high) = (*missing.iter().min()? as usize, *missing.iter().max()? as usize);
        if 4 * missing.len() > share {
            return None;
        }
        let block = home.len().div_ceil(SURROUNDING_BLOCKS);
        let before = low.min(home.start) / block * block..home.start;
        let after = home.end
            ..(high.max(home.end - 1) / block + 1)
                .saturating_mul(block)
                .clamp(home.end, self.rows);
        (2 * (before.len() + after.len()) <= home.len()).then_some((before, after))
    }

    /// The rank whose own a row is.
    fn owner(&self, row: usize) -> usize {
        ((row + 1) * self.ranks - 1) / self.rows
    }

    /// Bytes of a message that carries `rows`.
    fn packed(&self, store: &Store, rows: &[u32]) -> usize {
        match &store.features {
            Features::F32 { columns, .. } => 4 * columns * rows.len(),
            Features::U8 { rows: own, .. } => own.columns() * rows.len(),
            Features::Sparse { .. } => rows.iter().map(|&row| 8 * self.stored_of[row as usize] as usize).sum(),
        }
    }

    /// Takes in guests from the message that carries them.
    fn admit(&self, store: &mut Store, rows: &[u32], bytes: &[u8]) {
        if rows.is_empty() {
            return;
        }
        let first = store.features.len();
        let mut arrived = match &store.features {
            Features::U8 { rows: own, scale } => Features::U8 {
                rows: ByteRows::new(bytes, own.columns()),
                scale: *scale,
            },
            Features::F32 { columns, .. } => Features::f32(
                bytes
                    .as_chunks::<4>()
                    .0
                    .iter()
                    .map(|&value| f32::from_le_bytes(value))
                    .collect::<Vec<f32>>(),
                *columns,
            ),
            Features::Sparse { columns, .. } => {
                let mut offsets = vec![0];
                for &row in rows {
                    offsets.push(offsets[offsets.len() - 1] + self.stored_of[row as usize] as usize);
                }
                let (indices, values) = bytes.split_at(bytes.len() / 2);
                Features::Sparse {
                    offsets,
                    indices: indices
                        .as_chunks::<4>()
                        .0
                        .iter()
                        .map(|&index| u32::from_le_bytes(index))
                        .collect(),
                    values: values
                        .as_chunks::<4>()
                        .0
                        .iter()
                        .map(|&value| f32::from_le_bytes(value))
                        .collect(),
                    columns: *columns,
                }
            }
        };
        if store.l1_norms.is_some() {
            let norms = self.norms_of(&arrived, Norm::L1);
            store
                .l1_norms
                .iter_mut()
                .for_each(|own| own.values.extend_from_slice(&norms.values));
        }
        match (&mut store.features, &mut arrived) {
            (Features::U8 { rows, .. }, Features::U8 { rows: new, .. }) => rows.append(new),
            (Features::F32 { values, .. }, Features::F32 { values: new, .. }) => values.extend_from_slice(new),
            (
                Features::Sparse {
                    offsets,
                    indices,
                    values,
                    ..
                },
                Features::Sparse {
                    offsets: new_offsets,
                    indices: new_indices,
                    values: new_values,
                    ..
                },
            ) => {
                let end = values.len();
                offsets.extend(new_offsets[1..].iter().map(|offset| end + offset));
                indices.append(new_indices);
                values.append(new_values);
            }
            _ => unreachable!("guests arrive in the format of the rows"),
        }
        match (&mut store.labels, &self.labels) {
            (Labels::Classes { values, .. }, Labels::Classes { values: all, .. }) => {
                values.extend(rows.iter().map(|&row| all[row as usize]));
            }
            (Labels::Values(values), Labels::Values(all)) => values.extend(rows.iter().map(|&row| all[row as usize])),
            _ => unreachable!("all rows have the same kind of label"),
        }
        let norms = rows.iter().map(|&row| self.l2_norms.values[row as usize]);
        store.l2_norms.values.extend(norms);
        for (index, &row) in rows.iter().enumerate() {
            store.slot_of[row as usize] = (first + index) as u32;
            store.guests.push(row);
        }
    }

    fn norms_of(&self, features: &Features, norm: Norm) -> RowNorms {
        linear::row_norms(features.rows(), self.bias, norm)
            .expect("rows were checked when their L2 norms were computed")
    }
}

impl Store {
    /// Enters `row`, of `rows` rows in all, as a guest of `rank`; false if it was one already.
    fn entered(&mut self, rows: usize, row: usize, rank: usize) -> bool {
        if self.holder.is_empty() {
            self.holder = vec![NOBODY; rows];
            self.slot_of = vec![NOWHERE; rows];
        }
        let new = usize::from(self.holder[row]) != rank;
        self.holder[row] = rank as u16;
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
            rows: self.features.rows(),
            targets: self.labels.targets(),
            norms,
            selection,
        }
    }

    /// The slots of rows that were fetched: a range where they are neighbours, else a list in `slots`.
    pub(crate) fn locate<'s>(&self, rows: &Selection<'_>, slots: &'s mut Vec<u32>) -> Selection<'s> {
        let first = self.home.start;
        if let Selection::Range(range) = rows
            && range.start >= first
            && range.end <= self.home.end
        {
            return Selection::Range(range.start - first..range.end - first);
        }
        slots.clear();
        let slot = |row: usize| {
            if self.home.contains(&row) {
                (row - first) as u32
            } else {
                self.slot_of[row]
            }
        };
        match rows {
            Selection::Range(range) => slots.extend(range.clone().map(slot)),
            Selection::Indices(indices) => slots.extend(indices.iter().map(|&row| slot(row as usize))),
        }
        debug_assert!(slots.iter().all(|&slot| slot != NOWHERE), "a row was not fetched");
        Selection::Indices(slots)
    }

    /// The row of a slot.
    pub(crate) fn row(&self, slot: usize) -> usize {
        match slot.checked_sub(self.home.len()) {
            None => self.home.start + slot,
            Some(guest) => self.guests[guest] as usize,
        }
    }

    /// Forgets the guests of all ranks.
    fn dismiss(&mut self) {
        let own = self.home.len();
        for &row in &self.guests {
            self.slot_of[row as usize] = NOWHERE;
        }
        self.guests.clear();
        self.holder.fill(NOBODY);
        self.counts.fill(0);
        match &mut self.features {
            Features::F32 { values, columns } => values.truncate(own * *columns),
            Features::U8 { rows, .. } => rows.truncate(own),
            Features::Sparse {
                offsets,
                indices,
                values,
                ..
            } => {
                offsets.truncate(own + 1);
                indices.truncate(offsets[own]);
                values.truncate(offsets[own]);
            }
        }
        match &mut self.labels {
            Labels::Classes { values, .. } => values.truncate(own),
            Labels::Values(values) => values.truncate(own),
        }
        self.l2_norms.values.truncate(own);
        self.l1_norms.iter_mut().for_each(|norms| norms.values.truncate(own));
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
            Features::Sparse {
                offsets,
                indices,
                values,
                ..
            } => {
                for slot in slots.clone() {
                    let row = &indices[offsets[slot]..offsets[slot + 1]];
                    bytes.extend(row.iter().flat_map(|index| index.to_le_bytes()));
                }
                for slot in slots {
                    let row = &values[offsets[slot]..offsets[slot + 1]];
                    bytes.extend(row.iter().flat_map(|value| value.to_le_bytes()));
                }
            }
        }
        bytes
    }
}
