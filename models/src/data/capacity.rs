//! Capacity of arrays that grow while a file is read. An array that moves to other memory is held twice while it does, so
//! capacity is reserved once for the whole file. The system backs with memory only what is written.

use crate::data::source::Progress;
use rounds_algorithms::problem::{Buffer, ByteRows};
use rounds_kernels::memory::Pod;

/// An array that grows at its end.
pub(super) trait Growing {
    /// Number of values, and number of values that fit without moving.
    fn filled_of(&self) -> (usize, usize);

    /// Reserves capacity for `more` values, and no more.
    fn reserve_more(&mut self, more: usize);
}

macro_rules! growing {
    ($type:ty, $length:ident $(, $values:ident: $bound:path)?) => {
        impl$(<$values: $bound>)? Growing for $type {
            fn filled_of(&self) -> (usize, usize) {
                (self.$length(), self.capacity())
            }

            fn reserve_more(&mut self, more: usize) {
                self.reserve_exact(more);
            }
        }
    };
}

growing!(Vec<T>, len, T: Sized);
growing!(Buffer<T>, len, T: Pod);
growing!(ByteRows, stored);

/// Reserves capacity for `more` values of a file that promises no number: for as many as the whole file is expected to hold,
/// judging by what has been read.
pub(super) fn reserve(values: &mut impl Growing, more: usize, progress: Progress) {
    let (filled, capacity) = values.filled_of();
    let needed = filled + more;
    if needed > capacity {
        // At least an eighth more, so that a file that grows denser towards its end moves only now and then.
        let wanted = progress.extrapolate(needed).max(needed + filled / 8);
        values.reserve_more(wanted - filled);
    }
}

/// Reserves capacity for `more` of the `promised` values of a header: for all of them if the file's size justifies as many,
/// else for `justified` ones or twice those that have arrived.
pub(super) fn reserve_promised(values: &mut impl Growing, more: usize, promised: usize, justified: usize) {
    let (filled, capacity) = values.filled_of();
    let needed = filled + more;
    if needed > capacity {
        let wanted = justified.max(2 * filled).min(promised).max(needed);
        values.reserve_more(wanted - filled);
    }
}
