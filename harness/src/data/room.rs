//! Room for values that arrive from a file. An array that moves to other memory is held twice while it does, so room is made
//! at once for what the whole file is expected to bring. The system backs with memory what is filled alone.

use crate::data::source::Progress;
use rounds_algorithms::problem::{Buffer, ByteRows};
use rounds_kernels::memory::Pod;

/// An array that grows at its end.
pub trait Growing {
    /// What it is made of.
    type Value;

    /// Values there are.
    fn filled(&self) -> usize;

    /// Values that fit without moving.
    fn room(&self) -> usize;

    /// Makes room for `more` values, and no more.
    fn make_room(&mut self, more: usize);

    /// Appends values.
    fn append(&mut self, values: &[Self::Value]);
}

impl<T: Copy> Growing for Vec<T> {
    type Value = T;

    fn filled(&self) -> usize {
        self.len()
    }

    fn room(&self) -> usize {
        self.capacity()
    }

    fn make_room(&mut self, more: usize) {
        self.reserve_exact(more);
    }

    fn append(&mut self, values: &[T]) {
        self.extend_from_slice(values);
    }
}

impl<T: Pod> Growing for Buffer<T> {
    type Value = T;

    fn filled(&self) -> usize {
        self.len()
    }

    fn room(&self) -> usize {
        self.capacity()
    }

    fn make_room(&mut self, more: usize) {
        self.reserve_exact(more);
    }

    fn append(&mut self, values: &[T]) {
        self.extend_from_slice(values);
    }
}

impl Growing for ByteRows {
    type Value = u8;

    fn filled(&self) -> usize {
        self.stored()
    }

    fn room(&self) -> usize {
        self.capacity()
    }

    fn make_room(&mut self, more: usize) {
        self.reserve_exact(more);
    }

    fn append(&mut self, values: &[u8]) {
        self.extend_from_slice(values);
    }
}

/// Makes room for `more` values where nobody knows how many come: at once for as many as the whole file is expected to hold,
/// judging by what has been read.
pub fn reserve(values: &mut impl Growing, more: usize, progress: Progress) {
    let (filled, needed) = (values.filled(), values.filled() + more);
    if needed > values.room() {
        // Never less than an eighth more, so that a file that grows denser towards its end moves only now and then.
        let wanted = progress.extrapolate(needed).max(needed + filled / 8);
        values.make_room(wanted - filled);
    }
}

/// Makes room for `more` of the `promised` values of a header: for all of them if the file's size justifies as many, else for
/// `justified` ones or twice those that have arrived.
pub fn reserve_promised(values: &mut impl Growing, more: usize, promised: usize, justified: usize) {
    let (filled, needed) = (values.filled(), values.filled() + more);
    if needed > values.room() {
        let wanted = justified.max(2 * filled).min(promised).max(needed);
        values.make_room(wanted - filled);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_begin_that_packs_too_well_makes_no_room_for_a_rest_that_cannot() {
        // A megabyte of zeros came from a thousand bytes of a file of 60 MB, whose rest may well be noise.
        let begin = Progress::of(1_000, 1 << 20, 60_000_000);
        let expected = begin.extrapolate(1 << 20) as f64;
        assert!(expected < 1.2 * 20.0 * 60e6, "{expected}");
        // What packs as data do is taken at its word.
        let typical = Progress::of(100_000, 500_000, 1_000_000);
        assert_eq!(typical.extrapolate(500_000), 5_625_000);
    }
}
