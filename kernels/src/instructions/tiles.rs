//! Products of bytes on the matrix unit of recent x86 processors (AMX): 16 × 16 sums of 64 products of 8 bits each an
//! instruction, in 32-bit integers, so without any rounding.
//!
//! Each function is one block of assembly: what lies in tile registers lives from its first line to its last. Shapes
//! ([`Shapes`]) are state of the thread from [`Shapes::configure`] until it is dropped.

use std::arch::asm;
use std::arch::x86_64::{__cpuid_count, __get_cpuid_max};
use std::marker::PhantomData;
use std::sync::OnceLock;

/// True if this processor has byte tiles and the operating system lets this process use them.
pub(crate) fn available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| has_byte_tiles() && permitted())
}

/// CPUID leaf 7: AMX-TILE is bit 24 and AMX-INT8 bit 25 of EDX.
fn has_byte_tiles() -> bool {
    const BITS: u32 = 0b11 << 24;
    __get_cpuid_max(0).0 >= 7 && __cpuid_count(7, 0).edx & BITS == BITS
}

/// Linux hands out the tiles' 8 KiB of state a thread on request (5.16 and later), once for the whole process.
#[cfg(target_os = "linux")]
fn permitted() -> bool {
    const ARCH_PRCTL: i64 = 158;
    const ARCH_REQ_XCOMP_PERM: u64 = 0x1023;
    const XFEATURE_XTILEDATA: u64 = 18;
    let outcome: i64;
    // SAFETY: the call reads and writes no memory of this process.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => outcome,
            in("rdi") ARCH_REQ_XCOMP_PERM,
            in("rsi") XFEATURE_XTILEDATA,
            out("rcx") _,
            out("r11") _,
            options(nostack),
        );
    }
    outcome == 0
}

#[cfg(not(target_os = "linux"))]
fn permitted() -> bool {
    false
}

/// Rows of the eight tiles and their bytes: the operand that `ldtilecfg` reads.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct Shapes([u8; 64]);

impl Shapes {
    /// Tiles of the given numbers of rows, at most 16, and of bytes in each, at most 64.
    fn new(tiles: [(usize, usize); 8]) -> Self {
        let mut operand = [0; 64];
        operand[0] = 1;
        for (tile, (rows, bytes)) in tiles.into_iter().enumerate() {
            assert!(rows <= 16 && bytes <= 64, "a tile of {rows} rows of {bytes} bytes");
            let is_used = rows * bytes > 0;
            (operand[16 + 2 * tile], operand[48 + tile]) = if is_used { (bytes as u8, rows as u8) } else { (0, 0) };
        }
        Shapes(operand)
    }

    /// Gives this thread's tiles these shapes until the value that is returned is dropped, or others are set.
    ///
    /// # Panics
    /// A processor without byte tiles.
    pub(crate) fn configure(&self) -> Configured {
        assert!(available(), "this processor has no byte tiles");
        let mut configured = Configured(PhantomData);
        configured.reshape(self);
        configured
    }
}

/// This thread's tiles have shapes. Dropping it gives the unit back, so that switching threads stays cheap.
#[derive(Debug)]
pub(crate) struct Configured(PhantomData<*const ()>);

impl Configured {
    /// Other shapes from now on.
    #[expect(clippy::unused_self, reason = "whoever has it may reshape")]
    pub(crate) fn reshape(&mut self, shapes: &Shapes) {
        // SAFETY: `configure`, which made this value, found that the unit exists and is permitted; the operand is 64 bytes that name
        // palette 1 and at most 16 rows.
        unsafe { asm!("ldtilecfg [{}]", in(reg) shapes.0.as_ptr(), options(nostack, readonly)) };
    }
}

impl Drop for Configured {
    fn drop(&mut self) {
        // SAFETY: the unit exists.
        unsafe { asm!("tilerelease", options(nostack, nomem)) };
    }
}

/// Rows of bytes that [`row_products`] multiplies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByteRows<'a> {
    /// The first row.
    pub(crate) start: *const u8,
    /// Bytes from a row to the next.
    pub(crate) stride: usize,
    /// Steps of 64 bytes a row; the last one begins at `tail`.
    pub(crate) groups: usize,
    /// The first of the last 64 bytes of a row.
    pub(crate) tail: usize,
    /// Rows that each step prefetches 64 bytes of to the second-level cache, from byte `offset` on.
    pub(crate) ahead: Option<&'a [*const u8; 32]>,
    pub(crate) offset: usize,
}

/// Weights that [`row_products`] multiplies: for each step of 64 features one tile or two of sixteen rows. Row q of a tile holds the four
/// weights of features 4q … 4q + 3 for each of its columns in turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TileWeights {
    pub(crate) start: *const u8,
    /// Columns of all tiles, a multiple of four, at most 32: sixteen in the first tile, the others in the second.
    pub(crate) columns: usize,
}

impl TileWeights {
    /// Columns of the two tiles.
    fn of_tiles(self) -> [usize; 2] {
        let first = self.columns.min(16);
        [first, self.columns - first]
    }

    /// Shapes of [`row_products`].
    pub(crate) fn shapes(self) -> Shapes {
        let [first, second] = self.of_tiles().map(|columns| (16, 4 * columns));
        Shapes::new([first, second, first, second, (16, 64), (16, 64), first, second])
    }
}

macro_rules! row_products {
    (
        $(#[$doc:meta])* $name:ident:
        [$($zero:literal)+] [$($front:literal)+] [$($back:literal)+] [$($store:literal)+] prefetch [$($near:literal)*] [$($far:literal)*]
    ) => {
        $(#[$doc])*
        unsafe fn $name(rows: ByteRows<'_>, weights: TileWeights, sums: *mut i32) {
            let [first, second] = weights.of_tiles();
            // SAFETY: the caller's promise.
            unsafe {
                asm!(
                    // Without prefetching nothing uses it.
                    "# {ahead}",
                    $($zero,)+
                    "test {groups}, {groups}",
                    "jz 3f",
                    "2:",
                    $($front,)+
                    $(concat!("mov {line}, [{ahead} + ", $near, "]"), "prefetcht1 [{line} + {offset}]",)*
                    "mov {line:e}, 64",
                    $($back,)+
                    $(concat!("mov {line}, [{ahead} + ", $far, "]"), "prefetcht1 [{line} + {offset}]",)*
                    "mov {line:e}, 64",
                    "add {first}, 64",
                    "add {second}, 64",
                    "add {offset}, 64",
                    "add {weights}, {step}",
                    "dec {groups}",
                    "jnz 2b",
                    "3:",
                    "add {first}, {to_tail}",
                    "add {second}, {to_tail}",
                    $($front,)+
                    $($back,)+
                    $($store,)+
                    first = inout(reg) rows.start => _,
                    second = inout(reg) rows.start.wrapping_add(rows.stride.wrapping_mul(16)) => _,
                    stride = in(reg) rows.stride,
                    groups = inout(reg) rows.groups - 1 => _,
                    to_tail = in(reg) rows.tail.wrapping_sub(64 * (rows.groups - 1)),
                    weights = inout(reg) weights.start => _,
                    step = in(reg) 64 * weights.columns,
                    last = in(reg) 4 * if second > 0 { second } else { first },
                    line = inout(reg) 64usize => _,
                    ahead = in(reg) rows.ahead.map_or(std::ptr::null(), |ahead| ahead.as_ptr()),
                    offset = inout(reg) rows.offset => _,
                    sums = in(reg) sums,
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                    options(nostack),
                );
            }
        }
    };
    (32 columns: $(#[$doc:meta])* $name:ident [$($near:literal)*] [$($far:literal)*]) => {
        row_products! {
            $(#[$doc])* $name:
            ["tilezero tmm0" "tilezero tmm1" "tilezero tmm2" "tilezero tmm3"]
            [
                "tileloadd tmm4, [{first} + {stride}*1]"
                "tileloadd tmm6, [{weights} + {line}*1]"
                "tdpbusd tmm0, tmm4, tmm6"
                "tileloadd tmm7, [{weights} + {last}*1 + 1024]"
                "tdpbusd tmm1, tmm4, tmm7"
            ]
            [
                "tileloadd tmm5, [{second} + {stride}*1]"
                "tdpbusd tmm2, tmm5, tmm6" "tdpbusd tmm3, tmm5, tmm7"
            ]
            [
                "tilestored [{sums} + {line}*1], tmm0" "tilestored [{sums} + {line}*1 + 2048], tmm1"
                "tilestored [{sums} + {line}*1 + 1024], tmm2" "tilestored [{sums} + {line}*1 + 3072], tmm3"
            ]
            prefetch [$($near)*] [$($far)*]
        }
    };
    (16 columns: $(#[$doc:meta])* $name:ident [$($near:literal)*] [$($far:literal)*]) => {
        row_products! {
            $(#[$doc])* $name:
            ["tilezero tmm0" "tilezero tmm2"]
            [
                "tileloadd tmm4, [{first} + {stride}*1]"
                "tileloadd tmm6, [{weights} + {last}*1]"
                "tdpbusd tmm0, tmm4, tmm6"
            ]
            ["tileloadd tmm5, [{second} + {stride}*1]" "tdpbusd tmm2, tmm5, tmm6"]
            ["tilestored [{sums} + {line}*1], tmm0" "tilestored [{sums} + {line}*1 + 1024], tmm2"]
            prefetch [$($near)*] [$($far)*]
        }
    };
    ($columns:tt columns: $(#[$doc:meta])* $name:ident, $(#[$other_doc:meta])* $other:ident) => {
        row_products! { $columns columns: $(#[$doc])* $name [] [] }
        row_products! {
            $columns columns: $(#[$other_doc])* $other [0 8 16 24 32 40 48 56 64 72 80 88 96 104 112 120]
                [128 136 144 152 160 168 176 184 192 200 208 216 224 232 240 248]
        }
    };
}

row_products! { 32 columns: /** Two tiles of columns. */ products_of_32, /** Prefetching. */ products_of_32_and_ahead }
row_products! { 16 columns: /** One tile of columns. */ products_of_16, /** Prefetching. */ products_of_16_and_ahead }

/// `sums[t·512 + i·16 + c] = Σ_j rows_ij · weights_jc` for 32 rows of unsigned bytes and the columns c of tile t; what stands behind a
/// tile's last column stays.
///
/// # Safety
/// This thread's tiles have the weights' shapes; `rows.groups` ≥ 1; 32 rows of `tail` + 64 bytes at `rows.start`;
/// as many lines of 64 weights a group as there are columns; 512 sums a tile at `sums`.
pub(crate) unsafe fn row_products(rows: ByteRows<'_>, weights: TileWeights, sums: *mut i32) {
    debug_assert!(rows.groups > 0);
    // SAFETY: the caller's promise.
    unsafe {
        match (weights.columns > 16, rows.ahead) {
            (false, None) => products_of_16(rows, weights, sums),
            (false, Some(_)) => products_of_16_and_ahead(rows, weights, sums),
            (true, None) => products_of_32(rows, weights, sums),
            (true, Some(_)) => products_of_32_and_ahead(rows, weights, sums),
        }
    }
}

/// Operands of [`column_products`]. Steps are of 64 samples.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Columns {
    /// Rows of digits, at most 32. Of each step, 64 digits of a row lie behind those of the row before.
    pub(crate) digits: *const u8,
    pub(crate) rows: usize,
    /// Bytes from a step's digits to the next step's.
    pub(crate) digits_step: usize,
    /// A KiB for each step: its row q holds samples 4q … 4q + 3 of each of sixteen columns in turn.
    pub(crate) quads: *const u8,
    /// Bytes from these quads to those of the other sixteen columns, if there are two lines of them.
    pub(crate) other_quads: Option<usize>,
    /// At least one: the loop counts down to zero.
    pub(crate) steps: usize,
    /// `[row][column]`.
    pub(crate) sums: *mut i32,
    /// Bytes from the sums of one line to those of the other.
    pub(crate) other_sums: usize,
    /// True to add to the sums, false to overwrite them.
    pub(crate) add: bool,
}

/// Shapes of [`column_products`] over `rows` rows of digits.
pub(crate) fn column_shapes(rows: usize) -> Shapes {
    let [first, second] = [0, 16].map(|start| (rows.saturating_sub(start).min(16), 64));
    Shapes::new([first, second, first, second, first, second, (16, 64), (16, 64)])
}

macro_rules! column_products {
    (
        $(#[$doc:meta])* $name:ident:
        [$($load:literal)+] [$($zero:literal)+] [$($body:literal)+] [$($store:literal)+]
    ) => {
        $(#[$doc])*
        unsafe fn $name(columns: Columns) {
            // SAFETY: the caller's promise.
            unsafe {
                asm!(
                    // Functions of one line do not use it otherwise.
                    "# {other_sums}",
                    "test {add:e}, {add:e}",
                    "jz 3f",
                    $($load,)+
                    "jmp 2f",
                    "3:",
                    $($zero,)+
                    "2:",
                    $($body,)+
                    "add {digits}, {digits_step}",
                    "add {quads}, 1024",
                    "add {others}, 1024",
                    "dec {steps}",
                    "jnz 2b",
                    $($store,)+
                    digits = inout(reg) columns.digits => _,
                    digits_step = in(reg) columns.digits_step,
                    quads = inout(reg) columns.quads => _,
                    others = inout(reg) columns.quads.wrapping_add(columns.other_quads.unwrap_or(0)) => _,
                    line = in(reg) 64usize,
                    steps = inout(reg) columns.steps => _,
                    sums = in(reg) columns.sums,
                    other_sums = in(reg) columns.sums.wrapping_byte_add(columns.other_sums),
                    add = in(reg) u32::from(columns.add),
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                    options(nostack),
                );
            }
        }
    };
}

column_products! {
    /// Up to 16 rows of digits, sixteen columns.
    one_by_one:
    ["tileloadd tmm0, [{sums} + {line}*1]"]
    ["tilezero tmm0"]
    ["tileloadd tmm6, [{quads} + {line}*1]" "tileloadd tmm4, [{digits} + {line}*1]" "tdpbsud tmm0, tmm4, tmm6"]
    ["tilestored [{sums} + {line}*1], tmm0"]
}

column_products! {
    /// Up to 32 rows of digits, sixteen columns.
    two_by_one:
    ["tileloadd tmm0, [{sums} + {line}*1]" "tileloadd tmm1, [{sums} + {line}*1 + 1024]"]
    ["tilezero tmm0" "tilezero tmm1"]
    [
        "tileloadd tmm6, [{quads} + {line}*1]"
        "tileloadd tmm4, [{digits} + {line}*1]"
        "tileloadd tmm5, [{digits} + {line}*1 + 1024]"
        "tdpbsud tmm0, tmm4, tmm6" "tdpbsud tmm1, tmm5, tmm6"
    ]
    ["tilestored [{sums} + {line}*1], tmm0" "tilestored [{sums} + {line}*1 + 1024], tmm1"]
}

column_products! {
    /// Up to 16 rows of digits, twice sixteen columns.
    one_by_two:
    ["tileloadd tmm0, [{sums} + {line}*1]" "tileloadd tmm2, [{other_sums} + {line}*1]"]
    ["tilezero tmm0" "tilezero tmm2"]
    [
        "tileloadd tmm6, [{quads} + {line}*1]"
        "tileloadd tmm4, [{digits} + {line}*1]"
        "tileloadd tmm7, [{others} + {line}*1]"
        "tdpbsud tmm0, tmm4, tmm6" "tdpbsud tmm2, tmm4, tmm7"
    ]
    ["tilestored [{sums} + {line}*1], tmm0" "tilestored [{other_sums} + {line}*1], tmm2"]
}

column_products! {
    /// Up to 32 rows of digits, twice sixteen columns.
    two_by_two:
    [
        "tileloadd tmm0, [{sums} + {line}*1]" "tileloadd tmm1, [{sums} + {line}*1 + 1024]"
        "tileloadd tmm2, [{other_sums} + {line}*1]" "tileloadd tmm3, [{other_sums} + {line}*1 + 1024]"
    ]
    ["tilezero tmm0" "tilezero tmm1" "tilezero tmm2" "tilezero tmm3"]
    [
        "tileloadd tmm4, [{digits} + {line}*1]"
        "tileloadd tmm6, [{quads} + {line}*1]"
        "tdpbsud tmm0, tmm4, tmm6"
        "tileloadd tmm5, [{digits} + {line}*1 + 1024]"
        "tdpbsud tmm1, tmm5, tmm6"
        "tileloadd tmm7, [{others} + {line}*1]"
        "tdpbsud tmm2, tmm4, tmm7" "tdpbsud tmm3, tmm5, tmm7"
    ]
    [
        "tilestored [{sums} + {line}*1], tmm0" "tilestored [{sums} + {line}*1 + 1024], tmm1"
        "tilestored [{other_sums} + {line}*1], tmm2" "tilestored [{other_sums} + {line}*1 + 1024], tmm3"
    ]
}

/// `sums[r·16 + c] = Σ_i digits_ri · bytes_ic`, or added to them, for rows of signed digits and sixteen, or twice sixteen, columns
/// of unsigned bytes.
///
/// # Safety
/// This thread's tiles have [`column_shapes`] of the rows; at least one step; all operands are readable, the sums of all rows writable.
pub(crate) unsafe fn column_products(columns: Columns) {
    debug_assert!(columns.steps > 0 && columns.rows <= 32);
    // SAFETY: the caller's promise.
    unsafe {
        match (columns.rows > 16, columns.other_quads) {
            (false, None) => one_by_one(columns),
            (true, None) => two_by_one(columns),
            (false, Some(_)) => one_by_two(columns),
            (true, Some(_)) => two_by_two(columns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sixteen rows of 64 bytes.
    const TILE_BYTES: usize = 1024;

    fn bytes(count: usize, seed: u32) -> Vec<u8> {
        let mut state = seed;
        (0..count)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            })
            .collect()
    }

    #[test]
    fn products_of_rows_are_those_of_the_definition() {
        if !available() {
            eprintln!("skipped: no byte tiles here");
            return;
        }
        for (columns, features) in
            [(4, 64_usize), (16, 64), (20, 64), (20, 200), (12, 784), (24, 200), (28, 784), (32, 784)]
        {
            let groups = features.div_ceil(64);
            let (rows, weights) = (bytes(32 * features, 7), bytes(groups * columns * 64, 11));
            let mut sums = vec![0; 2 * 32 * 16];
            let operand = TileWeights { start: weights.as_ptr(), columns };
            let configured = operand.shapes().configure();
            let ahead = [rows.as_ptr(); 32];
            let of_rows = ByteRows {
                start: rows.as_ptr(),
                stride: features,
                groups,
                tail: features - 64,
                ahead: (columns > 12).then_some(&ahead),
                offset: 0,
            };
            // SAFETY: shapes are set, sizes fit.
            unsafe { row_products(of_rows, operand, sums.as_mut_ptr()) };
            drop(configured);
            for (row, column) in (0..32).flat_map(|row| (0..columns).map(move |column| (row, column))) {
                let (tile, column) = (column / 16, column % 16);
                let width = (columns - 16 * tile).min(16);
                let mut expected = 0;
                for group in 0..groups {
                    let offset = if group + 1 == groups { features - 64 } else { 64 * group };
                    for feature in 0..64 {
                        let quad = (feature / 4 * width + column) * 4 + feature % 4;
                        let weight = i32::from(weights[group * columns * 64 + tile * TILE_BYTES + quad] as i8);
                        expected += i32::from(rows[row * features + offset + feature]) * weight;
                    }
                }
                assert_eq!(sums[tile * 512 + row * 16 + column], expected, "{columns} columns, {features} features");
            }
        }
    }

    #[test]
    fn products_of_columns_are_those_of_the_definition() {
        if !available() {
            eprintln!("skipped: no byte tiles here");
            return;
        }
        for (rows, steps, lines, add) in
            [(4, 1, 1, true), (16, 2, 2, true), (20, 3, 1, false), (30, 4, 2, true), (32, 2, 2, false)]
        {
            let (digits, quads) = (bytes(rows * 64 * steps, 3), bytes(lines * steps * TILE_BYTES, 5));
            let mut sums = vec![7; lines * rows * 16];
            let columns = Columns {
                digits: digits.as_ptr(),
                rows,
                digits_step: 64 * rows,
                quads: quads.as_ptr(),
                other_quads: (lines == 2).then_some(steps * TILE_BYTES),
                steps,
                sums: sums.as_mut_ptr(),
                other_sums: 64 * rows,
                add,
            };
            let configured = column_shapes(rows).configure();
            // SAFETY: shapes are set, sizes fit.
            unsafe { column_products(columns) };
            drop(configured);
            for (place, &sum) in sums.iter().enumerate() {
                let (line, row, column) = (place / (16 * rows), place / 16 % rows, place % 16);
                let expected: i32 = (0..64 * steps)
                    .map(|sample| {
                        let step = line * steps + sample / 64;
                        let quad = step * TILE_BYTES + sample % 64 / 4 * 64 + column * 4 + sample % 4;
                        let digit = digits[(sample / 64 * rows + row) * 64 + sample % 64] as i8;
                        i32::from(digit) * i32::from(quads[quad])
                    })
                    .sum();
                let before = if add { 7 } else { 0 };
                assert_eq!(sum, expected + before, "{rows} rows, {steps} steps: {line}, {row}, {column}");
            }
        }
    }
}
