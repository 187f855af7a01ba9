//! The leaves of a batch: a function of sizes alone, so that sums have the same bits for any number of
//! threads.
//!
//! A leaf costs its kernel plus one reading and writing of its f64 partial sum, about one cycle a parameter against
//! `rows/16` for the f32 kernel whatever the model's shape. Leaves of `√(32·B)` rows keep that below a tenth at B = 500 and
//! two in a hundred at 60,000, and still give 4 leaves at 500 and 32 at 60,000. In integers a row costs as much to a third
//! of that and a leaf more, for weights in digits: leaves of `√(128·B)` rows, 2 at 500 and 16 at 60,000. A leaf's sum of
//! integers is exact, so that the number of its [`pieces`] may follow the threads without other bits.

/// Most leaves of a batch; bounds the memory of partial sums.
pub const MOST_LEAVES: usize = 64;

/// Cycles of kernel work under which a leaf is not worth a fork (about 3 µs).
const LEAST_LEAF_CYCLES: f64 = 10_000.0;

/// Cycles a row costs on one core, roughly: 64 f32 flops and 16 bytes a cycle.
pub fn row_cycles(flops: f64, bytes: f64) -> f64 {
    flops / 64.0 + bytes / 16.0
}

/// The cost of a leaf beside its rows, in rows of the f32 kernels, times [`LEAVES_MARGIN`].
pub const LEAF_ROWS: f64 = 32.0;

/// The same in rows of the kernels in integers.
pub const LEAF_ROWS_OF_INTEGERS: f64 = 128.0;

/// The same in rows of networks: a row costs hundreds of operations a parameter.
pub const LEAF_ROWS_OF_NETWORKS: f64 = 2.0;

/// By this much [`LEAF_ROWS`] and [`LEAF_ROWS_OF_INTEGERS`] exceed the cost.
pub const LEAVES_MARGIN: f64 = 1.5;

/// Number of leaves of a batch of `rows` rows, a leaf costing as much as `leaf_rows` of them: the power of two just around
/// `√(rows/leaf_rows)` (rounded down from 5/4 of it), fewer where the work is too small to share; at least 1.
pub fn leaves(rows: usize, row_cycles: f64, leaf_rows: f64) -> usize {
    let by_rows = (rows as f64 / leaf_rows).sqrt();
    let by_work = rows as f64 * row_cycles / LEAST_LEAF_CYCLES;
    let wanted = by_rows.min(by_work).clamp(1.0, MOST_LEAVES as f64);
    1 << (wanted * 1.25).log2().floor() as u32
}

/// Rows of a piece, at least: fewer cost more to add up than to sum.
const LEAST_PIECE_ROWS: usize = 64;

/// Most pieces of all leaves together; bounds the memory of partial sums.
pub fn most_pieces(threads: usize) -> usize {
    (2 * threads).next_power_of_two().min(MOST_LEAVES)
}

/// Equal pieces of each of several leaves whose sums are exact, a power of two: as many as let `threads` threads end first if a piece
/// costs as much as `leaf_rows` rows beside its own.
pub fn pieces(rows: usize, leaves: usize, leaf_rows: f64, threads: usize) -> usize {
    let most = most_pieces(threads).min(rows / LEAST_PIECE_ROWS) / leaves;
    let time = |pieces: usize| {
        let tasks = leaves * pieces;
        tasks.div_ceil(threads) as f64 * (rows as f64 / tasks as f64 + leaf_rows)
    };
    let powers = (0..).map(|power| 1 << power).take_while(|&pieces| leaves > 1 && pieces <= most);
    powers.min_by(|&a, &b| time(a).total_cmp(&time(b))).unwrap_or(1)
}

/// Rows `start..end` of leaf `leaf` out of `leaves`: contiguous, sizes differing by at most one.
pub fn leaf_range(rows: usize, leaves: usize, leaf: usize) -> std::ops::Range<usize> {
    rows * leaf / leaves..rows * (leaf + 1) / leaves
}

/// Positions of a batch of `rows` rows and `leaves` leaves that rank `rank` of `ranks` sums: those of its share of leaves.
pub fn rank_positions(rows: usize, leaves: usize, ranks: usize, rank: usize) -> std::ops::Range<usize> {
    let share = leaf_range(leaves, ranks, rank);
    leaf_range(rows, leaves, share.start).start..leaf_range(rows, leaves, share.end).start
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_follow_the_size_of_the_batch() {
        let mnist = row_cycles(4.0 * 785.0 * 10.0, 3136.0);
        let sizes = [0, 1, 64, 500, 2_000, 8_000, 60_000, 10_000_000];
        let counts = |leaf_rows| sizes.map(|rows| leaves(rows, mnist, leaf_rows));
        assert_eq!(counts(LEAF_ROWS), [1, 1, 1, 4, 8, 16, 32, 64]);
        assert_eq!(counts(LEAF_ROWS_OF_INTEGERS), [1, 1, 1, 2, 4, 8, 16, 64]);
    }

    #[test]
    fn pieces_follow_the_threads_where_leaves_are_too_few() {
        let mnist = row_cycles(4.0 * 785.0 * 10.0, 784.0);
        let tasks = |threads| {
            [256, 500, 2_000, 8_000, 60_000].map(|rows| {
                let leaves = leaves(rows, mnist, LEAF_ROWS_OF_INTEGERS);
                leaves * pieces(rows, leaves, LEAF_ROWS_OF_INTEGERS, threads)
            })
        };
        assert_eq!([tasks(1), tasks(2)], [[1, 2, 4, 8, 16]; 2]);
        assert_eq!([tasks(4), tasks(6)], [[1, 4, 4, 8, 16], [1, 4, 4, 16, 16]]);
        assert_eq!([tasks(16), tasks(64)], [[1, 4, 16, 16, 16], [1, 4, 16, 64, 64]]);
    }

    #[test]
    fn little_work_is_not_shared() {
        assert_eq!(leaves(2_000, row_cycles(80.0, 80.0), LEAF_ROWS), 1);
        assert!(leaves(100_000, row_cycles(80.0, 80.0), LEAF_ROWS) >= 8);
    }

    #[test]
    fn leaf_ranges_cover_every_row_once() {
        for rows in [0, 1, 5, 64, 1_001] {
            for leaves in [1, 2, 8, 64] {
                let mut next = 0;
                for leaf in 0..leaves {
                    let range = leaf_range(rows, leaves, leaf);
                    assert_eq!(range.start, next);
                    next = range.end;
                }
                assert_eq!(next, rows);
            }
        }
    }
}
