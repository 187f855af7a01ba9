//! `C ← A·B + C` for row-major matrices: a checked, safe face of `matrixmultiply`, single-threaded.

/// Extents and row strides of a product, in elements. Rows may be further apart than they are long.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Rows of A and C.
    pub m: usize,
    /// Columns of A, rows of B.
    pub k: usize,
    /// Columns of B and C.
    pub n: usize,
    /// From one row of A to the next, at least k.
    pub a_stride: usize,
    /// From one row of B to the next, at least n.
    pub b_stride: usize,
    /// From one row of C to the next, at least n.
    pub c_stride: usize,
}

impl Shape {
    /// Rows stored without gaps.
    pub fn packed(m: usize, k: usize, n: usize) -> Self {
        Self { m, k, n, a_stride: k, b_stride: n, c_stride: n }
    }

    /// Panics unless three matrices of these lengths hold the product.
    fn check(&self, a: usize, b: usize, c: usize) {
        let Self { m, k, n, a_stride, b_stride, c_stride } = *self;
        assert!(a_stride >= k && b_stride >= n && c_stride >= n, "rows overlap: {self:?}");
        let needed = |rows: usize, stride: usize, columns: usize| match rows {
            0 => 0,
            _ => (rows - 1) * stride + columns,
        };
        assert!(a >= needed(m, a_stride, k), "A holds {a} elements, too few for {self:?}");
        assert!(b >= needed(k, b_stride, n), "B holds {b} elements, too few for {self:?}");
        assert!(c >= needed(m, c_stride, n), "C holds {c} elements, too few for {self:?}");
    }
}

/// `C ← αA·B + βC`, as `matrixmultiply` has it: m, k, n, α, A with the distances of its rows and columns, B likewise, β and C.
type Gemm<T> =
    unsafe fn(usize, usize, usize, T, *const T, isize, isize, *const T, isize, isize, T, *mut T, isize, isize);

/// `C ← A·B + C` in f32: A m × k, B k × n, C m × n. Depends on its inputs alone, bit for bit.
///
/// # Panics
/// If a slice is too short for the shape, or rows overlap.
pub fn multiply_add_f32(shape: Shape, a: &[f32], b: &[f32], c: &mut [f32]) {
    multiply_add(matrixmultiply::sgemm, 1.0, shape, a, b, c);
}

/// [`multiply_add_f32`] in f64.
///
/// # Panics
/// If a slice is too short for the shape, or rows overlap.
pub fn multiply_add_f64(shape: Shape, a: &[f64], b: &[f64], c: &mut [f64]) {
    multiply_add(matrixmultiply::dgemm, 1.0, shape, a, b, c);
}

fn multiply_add<T: Copy>(gemm: Gemm<T>, one: T, shape: Shape, a: &[T], b: &[T], c: &mut [T]) {
    shape.check(a.len(), b.len(), c.len());
    let Shape { m, k, n, a_stride, b_stride, c_stride } = shape;
    let [a_stride, b_stride, c_stride] = [a_stride, b_stride, c_stride].map(|stride| stride as isize);
    let (a, b, c) = (a.as_ptr(), b.as_ptr(), c.as_mut_ptr());
    // SAFETY: `check` proved that every element addressed by these extents and strides lies inside its slice, and that
    // rows of C do not overlap; C is borrowed exclusively, so it aliases neither A nor B.
    unsafe { gemm(m, k, n, one, a, a_stride, 1, b, b_stride, 1, one, c, c_stride, 1) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_equal_the_plain_triple_loop() {
        for (m, k, n, gap) in [(0, 3, 2, 0), (1, 1, 1, 0), (3, 5, 7, 2), (17, 33, 65, 1), (4, 0, 4, 3)] {
            let shape = Shape { m, k, n, a_stride: k + gap, b_stride: n + gap, c_stride: n + gap };
            let value = |index: usize| (index * 7919 % 23) as f64 - 11.0;
            let a: Vec<f64> = (0..m * (k + gap)).map(value).collect();
            let b: Vec<f64> = (0..k * (n + gap)).map(|index| value(index + 5)).collect();
            let start: Vec<f64> = (0..m * (n + gap)).map(|index| value(index + 9)).collect();
            let mut expected = start.clone();
            for (i, j, l) in (0..m).flat_map(|i| (0..n).flat_map(move |j| (0..k).map(move |l| (i, j, l)))) {
                expected[i * (n + gap) + j] += a[i * (k + gap) + l] * b[l * (n + gap) + j];
            }
            let mut doubles = start.clone();
            multiply_add_f64(shape, &a, &b, &mut doubles);
            assert_eq!(doubles, expected);
            let single = |values: &[f64]| values.iter().map(|&value| value as f32).collect::<Vec<_>>();
            let mut singles = single(&start);
            multiply_add_f32(shape, &single(&a), &single(&b), &mut singles);
            assert_eq!(singles, single(&expected));
        }
    }

    /// The privacy of Fourier features rests on it: a row of a product does not depend on the rows beside it.
    #[test]
    fn a_row_of_a_product_has_its_bits_beside_any_others() {
        let value = |index: usize| ((index * 7919 % 10_007) as f32).sin();
        for (k, n) in [(7, 15), (64, 1), (300, 33), (784, 100), (3_072, 20)] {
            let [a, b]: [Vec<f32>; 2] =
                [(0..16 * k).map(value).collect(), (0..k * n).map(|place| value(place + 5)).collect()];
            let product = |rows: &[f32]| {
                let mut out = vec![0.0; rows.len() / k * n];
                multiply_add_f32(Shape::packed(rows.len() / k, k, n), rows, &b, &mut out);
                out
            };
            let alone: Vec<f32> = a.chunks(k).flat_map(product).collect();
            for (first, last) in (0..16).flat_map(|first| (first + 1..17).map(move |last| (first, last))) {
                assert_eq!(product(&a[first * k..last * k]), alone[first * n..last * n], "{k} {n} {first} {last}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "too few")]
    fn short_slices_are_refused() {
        multiply_add_f32(Shape::packed(2, 2, 2), &[0.0; 4], &[0.0; 3], &mut [0.0; 4]);
    }
}
