//! The walk over the blocks of a round, which all samplers share.

use super::stream::BLOCK_COORDINATES;

/// Opens the stream of each block of `out` and hands what it draws to `write`, `GROUP` coordinates at a time; a last,
/// shorter group is drawn whole and cut, so that a coordinate's value does not depend on the length of `out`.
///
/// `out[0]` is the first coordinate of block `first_block`. `GROUP` divides [`BLOCK_COORDINATES`].
///
/// # Panics
/// If a block's number would exceed 2⁶⁴ − 1.
#[inline(always)]
pub(super) fn for_each_group<const GROUP: usize, T: Copy + Default, Stream, Draw>(
    first_block: u64,
    out: &mut [T],
    open: impl Fn(u64) -> Stream,
    draw: impl Fn(&mut Stream) -> Draw,
    mut write: impl FnMut(Draw, &mut [T; GROUP]),
) {
    const { assert!(BLOCK_COORDINATES.is_multiple_of(GROUP)) };
    for (index, chunk) in out.chunks_mut(BLOCK_COORDINATES).enumerate() {
        // Wrapping would read the streams of blocks 0, 1, … a second time.
        let block = first_block.checked_add(index as u64).expect("blocks are numbered below 2^64");
        let mut stream = open(block);
        let (groups, rest) = chunk.as_chunks_mut();
        for group in groups {
            write(draw(&mut stream), group);
        }
        if !rest.is_empty() {
            let mut padded = [T::default(); GROUP];
            padded[..rest.len()].copy_from_slice(rest);
            write(draw(&mut stream), &mut padded);
            rest.copy_from_slice(&padded[..rest.len()]);
        }
    }
}
