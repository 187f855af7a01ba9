//! Eight quadrature nodes side by side, one in each lane of a vector.

/// Number of nodes side by side.
pub(crate) const LANES: usize = 8;

/// One value for each of eight quadrature nodes.
#[derive(Clone, Copy)]
pub(crate) struct Lanes(pub(crate) [f64; LANES]);

impl Lanes {
    pub(crate) const ZERO: Self = Self([0.0; LANES]);

    #[inline(always)]
    pub(crate) fn splat(value: f64) -> Self {
        Self([value; LANES])
    }

    #[inline(always)]
    pub(crate) fn map2(self, other: Self, operation: impl Fn(f64, f64) -> f64) -> Self {
        Self(std::array::from_fn(|lane| operation(self.0[lane], other.0[lane])))
    }

    /// self·factor + addend.
    #[inline(always)]
    pub(crate) fn multiply_add(self, factor: Self, addend: Self) -> Self {
        Self(std::array::from_fn(|lane| self.0[lane].mul_add(factor.0[lane], addend.0[lane])))
    }

    /// self/divisor, and 0 where the divisor is 0.
    #[inline(always)]
    pub(crate) fn divide_or_zero(self, divisor: Self) -> Self {
        self.map2(divisor, |value, divisor| if divisor > 0.0 { value / divisor } else { 0.0 })
    }
}

/// Operators, lane by lane.
macro_rules! operators {
    ($($name:ident $method:ident $operator:tt,)+) => { $(
        impl std::ops::$name for Lanes {
            type Output = Self;
            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                self.map2(other, |a, b| a $operator b)
            }
        }
    )+ };
}

operators!(Add add +, Sub sub -, Mul mul *, Div div /,);
