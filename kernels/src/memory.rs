//! Memory for rows: it begins at a cache line, and much of it lies on huge pages where the system grants them.
//!
//! A row that begins at a cache line takes an AVX-512 load a line, one that does not takes two. Rows that are picked at random
//! from more memory than the processor's page tables' cache covers cost a walk through the tables each; pages of 2 MiB
//! instead of 4 KiB save most of these. `results/history.md` has the figures.

/// Plain values of which every bit pattern is valid: the contents of a [`Buffer`].
pub use bytemuck::Pod;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Range};
use std::sync::Arc;

/// Bytes of a cache line.
pub const CACHE_LINE: usize = 64;

/// Memory below which huge pages do not pay: it would be rounded up to a few of them.
const LEAST_HUGE_BYTES: usize = 4 << 20;

/// Bytes that another owner keeps, and that nobody changes as long as they are shared.
pub type SharedBytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// The bytes of a [`Buffer`].
enum Memory {
    Own(Vec<u8>),
    Shared(SharedBytes),
}

/// A growable array of plain values whose first one lies at the begin of a cache line; or values [of another owner](Self::shared),
/// which lie where that one has them, and are copied when they are first changed.
///
/// Values of a size that divides a line, which no value then crosses; another size does not compile. What needs more bytes than can be
/// addressed panics, here and in [`ByteRows`].
pub struct Buffer<T> {
    /// The values' bytes from `start` on; what lies behind them is unspecified.
    memory: Memory,
    start: usize,
    len: usize,
    values: PhantomData<T>,
}

impl<T: Pod> Buffer<T> {
    /// No values.
    pub fn new() -> Self {
        Self::zeroed(0)
    }

    /// `len` zeros, in memory that the system has not backed with pages yet if it is much.
    pub fn zeroed(len: usize) -> Self {
        Self { len, ..Self::with_space_for(len) }
    }

    /// A line begins aligned for every value, and ends with one.
    const FITS_LINES: () = assert!(
        size_of::<T>() > 0 && CACHE_LINE.is_multiple_of(size_of::<T>()) && align_of::<T>() <= CACHE_LINE,
        "a buffer's values have a size that divides a cache line, and need no greater alignment"
    );

    fn with_space_for(len: usize) -> Self {
        const { Self::FITS_LINES };
        let bytes = len
            .checked_mul(size_of::<T>())
            .and_then(|bytes| bytes.checked_add(CACHE_LINE))
            .filter(|&bytes| isize::try_from(bytes).is_ok())
            .unwrap_or_else(|| not_addressable(len, size_of::<T>()));
        let mut memory = vec![0; if len == 0 { 0 } else { bytes }];
        if bytes >= LEAST_HUGE_BYTES {
            advise_huge_pages(&mut memory);
        }
        let start = if memory.is_empty() { 0 } else { memory.as_ptr().align_offset(CACHE_LINE) };
        Self { memory: Memory::Own(memory), start, len: 0, values: PhantomData }
    }

    /// The values in these bytes, where they are. `None` if the bytes are no whole values, or not aligned for them. A clone shares them, too.
    pub fn shared(bytes: SharedBytes) -> Option<Self> {
        const { Self::FITS_LINES };
        let len = bytemuck::try_cast_slice::<u8, T>((*bytes).as_ref()).ok()?.len();
        Some(Self { memory: Memory::Shared(bytes), start: 0, len, values: PhantomData })
    }

    /// Values that fit without moving to other memory.
    pub fn capacity(&self) -> usize {
        match &self.memory {
            Memory::Own(memory) => (memory.len() - self.start) / size_of::<T>(),
            Memory::Shared(_) => self.len,
        }
    }

    /// The number of values once there are `more`.
    fn len_with(&self, more: usize) -> usize {
        self.len.checked_add(more).unwrap_or_else(|| not_addressable(more, size_of::<T>()))
    }

    /// Reserves memory for `more` values, and no more.
    pub fn reserve_exact(&mut self, more: usize) {
        let len = self.len_with(more);
        if len > self.capacity() {
            let mut larger = Self::with_space_for(len);
            larger.len = self.len;
            larger.copy_from_slice(self);
            *self = larger;
        }
    }

    /// Appends `values`. Memory grows to twice its size where it is full.
    pub fn extend_from_slice(&mut self, values: &[T]) {
        self.appended(values.len()).copy_from_slice(values);
    }

    /// Appends `count` zeros, as [`Self::extend_from_slice`] appends values.
    pub fn extend_zeros(&mut self, count: usize) {
        self.appended(count).fill(T::zeroed());
    }

    /// `count` values more, unspecified ones.
    fn appended(&mut self, count: usize) -> &mut [T] {
        let len = self.len_with(count);
        if len > self.capacity() {
            self.reserve_exact(count.max(self.len));
        }
        let old = std::mem::replace(&mut self.len, len);
        &mut self[old..]
    }

    /// Forgets the values from `len` on.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

impl<T: Pod> Deref for Buffer<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        if self.len == 0 {
            return &[];
        }
        let memory = match &self.memory {
            Memory::Own(memory) => memory,
            Memory::Shared(bytes) => (**bytes).as_ref(),
        };
        bytemuck::cast_slice(&memory[self.start..][..self.len * size_of::<T>()])
    }
}

impl<T: Pod> DerefMut for Buffer<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        if self.len == 0 {
            return &mut [];
        }
        if matches!(self.memory, Memory::Shared(_)) {
            *self = Self::from(&**self);
        }
        match &mut self.memory {
            Memory::Own(memory) => bytemuck::cast_slice_mut(&mut memory[self.start..][..self.len * size_of::<T>()]),
            Memory::Shared(_) => unreachable!("a copy is its own"),
        }
    }
}

impl<T: Pod> Default for Buffer<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Pod> Clone for Buffer<T> {
    fn clone(&self) -> Self {
        match &self.memory {
            Memory::Own(_) => Self::from(&**self),
            Memory::Shared(bytes) => Self { memory: Memory::Shared(bytes.clone()), ..*self },
        }
    }
}

impl<T: Pod> From<&[T]> for Buffer<T> {
    fn from(values: &[T]) -> Self {
        let mut buffer = Self::zeroed(values.len());
        buffer.copy_from_slice(values);
        buffer
    }
}

impl<T: Pod> From<Vec<T>> for Buffer<T> {
    fn from(values: Vec<T>) -> Self {
        Self::from(&*values)
    }
}

impl<T: Pod + PartialEq> PartialEq for Buffer<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Pod + std::fmt::Debug> std::fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Rows of equally many bytes, each of which begins at a cache line where this costs at most an eighth more memory.
#[derive(Clone, Debug, PartialEq)]
pub struct ByteRows {
    /// Whole rows with their gaps, which are zeros; behind them the bytes of the incomplete row.
    values: Buffer<u8>,
    columns: usize,
    stride: usize,
    /// Bytes behind the last whole row.
    incomplete: usize,
}

impl ByteRows {
    /// The rows of `values`, which follow each other there. Bytes that do not fill a row are counted, and belong to none.
    pub fn new(values: &[u8], columns: usize) -> Self {
        let mut rows = Self::zeroed(0, columns);
        rows.reserve_exact(values.len());
        rows.extend_from_slice(values);
        rows
    }

    /// The rows of these bytes, where they are, without gaps. `None` if they do not fill rows.
    pub fn shared(bytes: SharedBytes, columns: usize) -> Option<Self> {
        let values = Buffer::shared(bytes)?;
        let fills = columns > 0 && values.len().is_multiple_of(columns);
        fills.then_some(Self { values, columns, stride: columns, incomplete: 0 })
    }

    /// Gives `take` the bytes of these rows as rows of this length lie in memory of their own, gaps included: in one part or in many.
    pub fn laid_out(&self, rows: Range<usize>, mut take: impl FnMut(&[u8])) {
        let gap = stride_of(self.columns) - self.columns;
        let bytes = &self.values[rows.start * self.stride..rows.end * self.stride];
        if self.stride == self.columns + gap {
            return take(bytes);
        }
        for row in bytes.chunks_exact(self.stride) {
            take(&row[..self.columns]);
            take(&[0; CACHE_LINE][..gap]);
        }
    }

    /// `rows` rows of zeros, as [`Buffer::zeroed`].
    pub fn zeroed(rows: usize, columns: usize) -> Self {
        let stride = stride_of(columns);
        Self { values: Buffer::zeroed(bytes_of(rows, stride)), columns, stride, incomplete: 0 }
    }

    /// As many whole rows of zeros, as far apart as these.
    #[must_use]
    pub fn blank(&self) -> Self {
        Self { values: Buffer::zeroed(self.len() * self.stride), incomplete: 0, ..*self }
    }

    /// Number of whole rows.
    pub fn len(&self) -> usize {
        self.values.len().checked_div(self.stride).unwrap_or(0)
    }

    /// True if there are no whole rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes a row.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Bytes that were given: those of all rows, and those that fill no row.
    pub fn stored(&self) -> usize {
        self.len() * self.columns + self.incomplete
    }

    /// Bytes of rows, as [`Self::stored`] counts them, that fit without moving to other memory.
    pub fn capacity(&self) -> usize {
        self.values.capacity().checked_div(self.stride).unwrap_or(0) * self.columns
    }

    /// Reserves memory for the rows of `more` bytes, and no more.
    pub fn reserve_exact(&mut self, more: usize) {
        if self.columns > 0 {
            let rows = self.incomplete.saturating_add(more).div_ceil(self.columns);
            self.values.reserve_exact(bytes_of(rows, self.stride) - self.incomplete);
        }
    }

    /// Appends bytes: they fill the incomplete row first, then rows of their own.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        if self.stride == self.columns {
            if self.columns > 0 {
                self.values.extend_from_slice(bytes);
            }
            let pending = self.incomplete + bytes.len();
            self.incomplete = pending.checked_rem(self.columns).unwrap_or(pending);
            return;
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            let (part, after) = rest.split_at(rest.len().min(self.columns - self.incomplete));
            self.values.extend_from_slice(part);
            self.incomplete += part.len();
            if self.incomplete == self.columns {
                self.values.extend_zeros(self.stride - self.columns);
                self.incomplete = 0;
            }
            rest = after;
        }
    }

    /// The rows one after the other.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let columns = self.columns;
        self.values.chunks_exact(self.stride.max(1)).map(move |row| &row[..columns])
    }

    /// All bytes of the rows, gaps included, and the bytes from a row's begin to the next one's.
    pub fn memory(&self) -> (&[u8], usize) {
        (&self.values[..self.len() * self.stride], self.stride)
    }

    /// As [`Self::memory`], to be written; gaps are to stay zeros.
    pub fn memory_mut(&mut self) -> (&mut [u8], usize) {
        let whole = self.len() * self.stride;
        (&mut self.values[..whole], self.stride)
    }

    /// The rows as the kernels read them.
    pub fn view(&self, scale: f32) -> crate::features::U8Rows<'_> {
        crate::features::U8Rows { values: self.memory().0, columns: self.columns, stride: self.stride, scale }
    }

    /// Appends rows of as many bytes.
    ///
    /// # Panics
    /// Rows of another length, or rows that are incomplete here.
    pub fn append(&mut self, rows: &Self) {
        assert_eq!(self.columns, rows.columns, "bytes of the rows here (left) and of those that come (right)");
        assert_eq!(self.incomplete, 0, "bytes of an incomplete row, behind which no other one can begin");
        if self.stride == rows.stride {
            self.values.extend_from_slice(&rows.values);
            self.incomplete = rows.incomplete;
        } else {
            assert_eq!(rows.incomplete, 0, "bytes of an incomplete row, which has another stride here");
            rows.iter().for_each(|row| self.extend_from_slice(row));
        }
    }

    /// Forgets the rows from `rows` on.
    pub fn truncate(&mut self, rows: usize) {
        if rows <= self.len() {
            self.values.truncate(rows * self.stride);
            self.incomplete = 0;
        }
    }

    /// Takes the last byte of every row out, in place, and returns these.
    ///
    /// # Panics
    /// Rows without bytes, or incomplete ones.
    pub fn take_last_column(&mut self) -> Vec<u8> {
        assert!(self.columns > 0 && self.incomplete == 0, "whole rows of one byte or more are needed");
        let last = self.iter().map(|row| row[self.columns - 1]).collect();
        let (rows, before) = (self.len(), self.stride);
        self.columns -= 1;
        // Shorter rows do not lie further apart, so that a row's new place is free when its turn comes.
        self.stride = stride_of(self.columns).min(before);
        for row in 0..rows {
            let (old, new) = (row * before, row * self.stride);
            self.values.copy_within(old..old + self.columns, new);
            self.values[new + self.columns..new + self.stride].fill(0);
        }
        self.values.truncate(rows * self.stride);
        last
    }
}

/// Bytes from row to row: whole cache lines, unless the gaps took more than an eighth of the rows.
fn stride_of(columns: usize) -> usize {
    columns.checked_next_multiple_of(CACHE_LINE).filter(|lines| lines - columns <= columns / 8).unwrap_or(columns)
}

fn bytes_of(rows: usize, stride: usize) -> usize {
    rows.checked_mul(stride).unwrap_or_else(|| not_addressable(rows, stride))
}

#[cold]
fn not_addressable(count: usize, bytes: usize) -> ! {
    panic!("{count} times {bytes} bytes, with what there is already, are more than can be addressed")
}

/// Asks the system to back `memory` with huge pages. It may not know them or refuse; nothing depends on it.
#[cfg(target_os = "linux")]
fn advise_huge_pages(memory: &mut [u8]) {
    const PAGE: usize = 4096;
    let start = memory.as_ptr().align_offset(PAGE);
    let Some(length) = memory.len().checked_sub(start) else {
        return;
    };
    // SAFETY: whole pages within an exclusive borrow; the advice changes no value in them.
    unsafe { libc::madvise(memory.as_mut_ptr().add(start).cast(), length - length % PAGE, libc::MADV_HUGEPAGE) };
}

#[cfg(not(target_os = "linux"))]
fn advise_huge_pages(_: &mut [u8]) {}

#[cfg(test)]
mod tests {
    use super::*;

    fn starts_at_a_line<T>(values: &[T]) -> bool {
        values.as_ptr().addr().is_multiple_of(CACHE_LINE)
    }

    #[test]
    fn buffers_begin_at_cache_lines_whatever_happens_to_them() {
        for len in [0, 1, 3, 100, 10_000, 3_000_000] {
            let values: Vec<f32> = (0..len).map(|place| place as f32).collect();
            let mut buffer = Buffer::from(values.clone());
            assert_eq!(*buffer, *values);
            let copy = buffer.clone();
            assert_eq!(copy, buffer);
            assert!(len == 0 || (starts_at_a_line(&buffer) && starts_at_a_line(&copy)));
            buffer.extend_from_slice(&[1.5, 2.5]);
            assert_eq!((buffer.len(), &buffer[len..]), (len + 2, &[1.5, 2.5][..]));
            assert_eq!(buffer[..len], *values);
            assert!(starts_at_a_line(&buffer));
            buffer.truncate(len);
            assert_eq!(*buffer, *values);
            buffer.extend_from_slice(&[7.0]);
            assert_eq!(buffer[len], 7.0);
        }
        assert!(Buffer::<u8>::zeroed(5_000_000).iter().all(|&byte| byte == 0));
        assert!(Buffer::<u8>::new().is_empty());
    }

    #[test]
    fn rows_of_bytes_begin_at_cache_lines_where_that_is_cheap() {
        for (columns, stride) in [(784, 832), (64, 64), (3_072, 3_072), (65, 65), (100, 100), (115, 128), (3, 3)] {
            let bytes: Vec<u8> = (0..7 * columns).map(|place| (place * 31 % 251) as u8).collect();
            let rows = ByteRows::new(&bytes, columns);
            assert_eq!((rows.len(), rows.stored(), rows.memory().1), (7, bytes.len(), stride));
            assert!(rows.iter().eq(bytes.chunks_exact(columns)));
            for row in 0..7 {
                assert_eq!(rows.view(1.0).row(row), &bytes[row * columns..(row + 1) * columns]);
                assert!(stride != 832 || starts_at_a_line(rows.view(1.0).row(row)));
            }
            let mut twice = rows.clone();
            twice.append(&rows);
            assert!(twice.iter().eq(bytes.chunks_exact(columns).chain(bytes.chunks_exact(columns))));
            twice.truncate(7);
            assert_eq!(twice, rows);
            for piece in [1, 7, columns, columns + 1, 3 * columns - 1] {
                let mut grown = ByteRows::zeroed(0, columns);
                bytes.chunks(piece).for_each(|piece| grown.extend_from_slice(piece));
                assert_eq!(grown, rows, "{columns} columns in pieces of {piece}");
            }
        }
    }

    #[test]
    fn shared_values_stay_where_they_are_until_one_is_changed() {
        let bytes: SharedBytes = Arc::new((0..7 * 784).map(|place| (place * 31 % 251) as u8).collect::<Vec<_>>());
        let theirs = || (*bytes).as_ref().as_ptr();
        let mut rows = ByteRows::shared(bytes.clone(), 784).unwrap();
        let own = ByteRows::new((*bytes).as_ref(), 784);
        assert!(rows.iter().eq(own.iter()) && rows.clone().iter().eq(own.iter()));
        assert_eq!([rows.memory().0.as_ptr(), rows.clone().memory().0.as_ptr()], [theirs(); 2]);
        let laid_out = |rows: &ByteRows| {
            let mut all = Vec::new();
            rows.laid_out(2..5, |bytes| all.extend_from_slice(bytes));
            all
        };
        assert_eq!((laid_out(&rows), laid_out(&own).len()), (laid_out(&own), 3 * 832));
        let mut more = own.clone();
        more.append(&rows);
        assert!(more.iter().eq(own.iter().chain(rows.iter())));
        rows.append(&own);
        assert!(rows.iter().eq(more.iter()) && rows.memory().0.as_ptr() != theirs());
        let mut first = ByteRows::shared(bytes.clone(), 784).unwrap();
        assert_eq!(first.take_last_column(), own.iter().map(|row| row[783]).collect::<Vec<_>>());
        assert!(first.iter().eq(own.iter().map(|row| &row[..783])));
        assert_eq!((*bytes).as_ref()[..784], own.memory().0[..784], "the owner's bytes do not change");
        assert!(ByteRows::shared(bytes.clone(), 783).is_none());
        let odd: SharedBytes = Arc::new([0_u8; 7]);
        assert!(Buffer::<f32>::shared(odd).is_none());
    }

    #[test]
    fn rows_without_their_last_bytes_are_those_of_shorter_rows() {
        for columns in [1, 2, 64, 65, 113, 114, 128, 129, 785] {
            let bytes: Vec<u8> = (0..9 * columns).map(|place| (place * 31 % 251 + 1) as u8).collect();
            let mut rows = ByteRows::new(&bytes, columns);
            let last: Vec<u8> = bytes.chunks_exact(columns).map(|row| row[columns - 1]).collect();
            assert_eq!(rows.take_last_column(), last);
            let shorter: Vec<u8> = bytes.chunks_exact(columns).flat_map(|row| row[..columns - 1].to_vec()).collect();
            if columns > 1 {
                assert_eq!(rows, ByteRows::new(&shorter, columns - 1), "{columns}");
            }
        }
        assert!((1..5_000).all(|columns| stride_of(columns - 1) <= stride_of(columns)));
    }

    #[test]
    fn room_is_made_once_and_for_whole_rows() {
        let mut rows = ByteRows::zeroed(0, 784);
        rows.extend_from_slice(&[1; 10]);
        rows.reserve_exact(784 * 4);
        let (room, begin) = (rows.capacity(), rows.view(1.0).values.as_ptr());
        assert!((784 * 5..784 * 6).contains(&room), "{room}");
        rows.extend_from_slice(&vec![2; 784 * 5 - 10]);
        assert_eq!((rows.len(), rows.stored(), rows.capacity()), (5, 784 * 5, room));
        assert!(rows.view(1.0).values.as_ptr() == begin);
        rows.extend_from_slice(&[3; 10]);
        rows.truncate(5);
        assert_eq!((rows.len(), rows.stored()), (5, 784 * 5));
        let mut values = Buffer::from(vec![1.0_f32; 3]);
        values.extend_zeros(2);
        assert_eq!(*values, [1.0, 1.0, 1.0, 0.0, 0.0]);
        values.truncate(1);
        values.extend_zeros(2);
        assert_eq!(*values, [1.0, 0.0, 0.0]);
    }

    #[test]
    fn what_cannot_be_addressed_is_refused_with_its_size() {
        let refusals: [fn(); 5] = [
            || drop(Buffer::<f32>::zeroed(usize::MAX / 4)),
            || drop(Buffer::<f32>::zeroed(usize::MAX / 8)),
            || Buffer::from(vec![1_u8; 10]).reserve_exact(usize::MAX - 5),
            || drop(ByteRows::zeroed(usize::MAX / 100, 784)),
            || ByteRows::new(&[1; 10], 784).reserve_exact(usize::MAX),
        ];
        for refusal in refusals {
            let panic = std::panic::catch_unwind(refusal).expect_err("a panic");
            let message = panic.downcast_ref::<String>().expect("a formatted message");
            assert!(message.contains("more than can be addressed"), "{message}");
        }
    }

    #[test]
    fn bytes_that_fill_no_row_are_counted() {
        let rows = ByteRows::new(&[1, 2, 3, 4, 5], 2);
        assert_eq!((rows.len(), rows.stored()), (2, 5));
        let none = ByteRows::new(&[1, 2], 0);
        assert_eq!((none.len(), none.stored(), none.is_empty()), (0, 2, true));
    }
}
