//! Real numbers in any precision with a bound of their error: the slow path, which decides what eight bytes cannot.

use std::cmp::Ordering;

/// A real number x with `|x − value| ≤ error·ulp`.
///
/// `value` is a fixed-point number of N words, the lowest first: one word of integers, N − 1 of binary digits, so that
/// `ulp = 2^(−64(N−1))`. Only addition, subtraction and the last comparisons know
/// negative values, in two's complement; elsewhere values are at least 0. Each operation adds what it drops to `error`, so every result encloses
/// the exact one: nothing is left to prove about the formulas built on them but their truncated series, each of which
/// states its remainder. An error that does not fit is [`UNBOUNDED`], and stays so.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ball<const N: usize> {
    value: [u64; N],
    error: u128,
}

const UNBOUNDED: u128 = u128::MAX;

impl<const N: usize> Ball<N> {
    const ZERO: Self = Self::integer(0);
    const ONE: Self = Self::integer(1);
    /// Words of binary digits.
    pub(super) const DIGITS: usize = N - 1;
    const FRACTION_BITS: usize = 64 * Self::DIGITS;
    /// `ln(1 + 2⁻ᵏ) = 2·artanh(1/(2^(k+1) + 1))` for k = 0, …, 8.
    const LOGARITHMS: [Self; 9] = {
        let mut table = [Self::ZERO; 9];
        let mut k = 0;
        while k < 9 {
            table[k] = Self::arc_tangent((2_u64 << k) + 1, true).shifted_up(1);
            k += 1;
        }
        table
    };
    /// π/4 = 4·arctan(1/5) − arctan(1/239) (Machin).
    const QUARTER_PI: Self = Self::arc_tangent(5, false)
        .shifted_up(2)
        .sub(Self::arc_tangent(239, false));

    pub(super) const fn integer(x: u64) -> Self {
        let mut value = [0; N];
        value[N - 1] = x;
        Self { value, error: 0 }
    }

    /// The number below 1 whose binary digits begin with those of `digits`; more follow.
    pub(super) fn from_digits(digits: &[u64]) -> Self {
        assert_eq!(digits.len(), Self::DIGITS);
        let mut value = [0; N];
        for (place, &word) in value[..N - 1].iter_mut().rev().zip(digits) {
            *place = word;
        }
        Self { value, error: 1 }
    }

    /// `k·2⁻⁶⁴`.
    pub(super) fn multiple_of_2_to_minus_64(k: u64) -> Self {
        let mut value = [0; N];
        value[N - 2] = k;
        Self { value, error: 0 }
    }

    /// `count·ulp`.
    fn ulps(count: u128) -> Self {
        let mut value = [0; N];
        (value[0], value[1]) = (count as u64, (count >> 64) as u64);
        Self { value, error: 0 }
    }

    /// |x| for a finite `|x| < 2⁶⁴`: exact, or cut below one ulp.
    pub(super) fn from_f64(x: f64) -> Self {
        assert!(
            x.abs() < 2f64.powi(64),
            "{x} is beyond the range of the exact arithmetic"
        );
        let bits = x.abs().to_bits();
        let (mantissa, exponent) = match (bits >> 52, bits & ((1 << 52) - 1)) {
            (0, mantissa) => (mantissa, 1),
            (exponent, mantissa) => (mantissa | 1 << 52, exponent as usize),
        };
        // x = mantissa·2^(exponent − 1075): its lowest bit lies at this place of the fraction.
        let place = (exponent + Self::FRACTION_BITS).cast_signed() - 1075;
        let mut value = [0; N];
        for bit in 0..53_isize {
            if let Ok(place) = usize::try_from(place + bit)
                && mantissa >> bit & 1 == 1
            {
                value[place / 64] |= 1 << (place % 64);
            }
        }
        Self {
            value,
            error: u128::from(place < 0),
        }
    }

    /// A value near it, for Newton's steps and for the fast path's inputs: within 2⁻⁵² of itself and the error.
    pub(super) fn to_f64(self) -> f64 {
        let top = self.value.iter().rposition(|&word| word != 0).unwrap_or(0);
        let word = |back: usize| top.checked_sub(back).map_or(0, |i| self.value[i]);
        let high = u128::from(word(0)) << 64 | u128::from(word(1));
        let lowest = 64 * (top as i32 - 1 - Self::DIGITS as i32);
        scaled(high as f64, lowest) + scaled(word(2) as f64, lowest - 64)
    }

    const fn with_error(self, error: u128) -> Self {
        Self {
            value: self.value,
            error: self.error.saturating_add(error),
        }
    }

    pub(super) const fn add(self, other: Self) -> Self {
        let mut sum = self.with_error(other.error);
        let mut carry = false;
        let mut i = 0;
        while i < N {
            let (sum_of_words, first) = self.value[i].overflowing_add(other.value[i]);
            let (word, second) = sum_of_words.overflowing_add(carry as u64);
            (sum.value[i], carry) = (word, first | second);
            i += 1;
        }
        sum
    }

    pub(super) const fn sub(self, other: Self) -> Self {
        let mut difference = self.with_error(other.error);
        let mut borrow = false;
        let mut i = 0;
        while i < N {
            let (difference_of_words, first) = self.value[i].overflowing_sub(other.value[i]);
            let (word, second) = difference_of_words.overflowing_sub(borrow as u64);
            (difference.value[i], borrow) = (word, first | second);
            i += 1;
        }
        difference
    }

    /// `|ab − ãb̃| ≤ |ã|·e_b + |b̃|·e_a + e_a·e_b·ulp`; the product is cut below one ulp.
    pub(super) fn mul(self, other: Self) -> Self {
        // The 2N words from the one of weight ulp² on.
        let mut product = [[0_u64; N]; 2];
        for (i, &a) in self.value.iter().enumerate().filter(|(_, a)| **a != 0) {
            let mut carry = 0;
            for (j, &b) in other.value.iter().enumerate() {
                let place = &mut product[(i + j) / N][(i + j) % N];
                (*place, carry) = a.carrying_mul_add(b, *place, carry);
            }
            product[1][i] = carry;
        }
        // Words N − 1 to 2N − 2: what lies below is cut.
        let [low, high] = product;
        let value = std::array::from_fn(|i| if i == 0 { low[N - 1] } else { high[i - 1] });
        let ceiling = |x: Self| u128::from(x.value[N - 1]) + 1;
        let bits = |error: u128| 128 - error.leading_zeros() as usize;
        // e_a·e_b·ulp < 1, or too large to matter; and the cut.
        let is_small = bits(self.error) + bits(other.error) <= Self::FRACTION_BITS;
        let cross = if is_small { 2 } else { UNBOUNDED };
        Self { value, error: cross }
            .with_error(ceiling(self).saturating_mul(other.error))
            .with_error(ceiling(other).saturating_mul(self.error))
    }

    const fn divided(self, divisor: u64) -> Self {
        let mut quotient = Self {
            value: [0; N],
            error: self.error / divisor as u128 + 2,
        };
        let mut remainder = 0_u128;
        let mut i = N;
        while i > 0 {
            i -= 1;
            let dividend = remainder << 64 | self.value[i] as u128;
            quotient.value[i] = (dividend / divisor as u128) as u64;
            remainder = dividend % divisor as u128;
        }
        if self.error == UNBOUNDED {
            quotient.error = UNBOUNDED;
        }
        quotient
    }

    /// `self·2^bits`, bits < 64.
    pub(super) const fn shifted_up(self, bits: u32) -> Self {
        let mut shifted = Self {
            value: [0; N],
            error: self.error.saturating_mul(1 << bits),
        };
        let mut low = 0;
        let mut i = 0;
        while i < N {
            shifted.value[i] = self.value[i] << bits | low;
            low = if bits == 0 { 0 } else { self.value[i] >> (64 - bits) };
            i += 1;
        }
        shifted
    }

    /// `self·2^−bits`, 0 < bits < 64.
    fn shifted_down(self, bits: u32) -> Self {
        let mut value = self.value.map(|word| word >> bits);
        for i in 0..N - 1 {
            value[i] |= self.value[i + 1] << (64 - bits);
        }
        Self { value, ..self }.with_error(1)
    }

    /// arctan(1/q) = Σ (−1)ⁱ/((2i + 1)·q^(2i+1)), artanh(1/q) without the signs; q ≥ 3.
    ///
    /// It ends at a power cut to 0, whose exact value is below ulp plus its error; the remainder is below twice that.
    const fn arc_tangent(q: u64, hyperbolic: bool) -> Self {
        let mut power = Self::ONE.divided(q);
        let mut sum = power;
        let mut i = 1;
        while !power.is_zero() {
            power = power.divided(q * q);
            let term = power.divided(2 * i + 1);
            sum = if hyperbolic || i % 2 == 0 {
                sum.add(term)
            } else {
                sum.sub(term)
            };
            i += 1;
        }
        sum.with_error(2 * (power.error + 1))
    }

    const fn is_zero(&self) -> bool {
        let mut i = 0;
        while i < N {
            if self.value[i] != 0 {
                return false;
            }
            i += 1;
        }
        true
    }

    fn compare(&self, other: &Self) -> Ordering {
        self.value.iter().rev().cmp(other.value.iter().rev())
    }

    /// `−ln x` for `0 < x ≤ 1`; none if the value is 0 or above 1.
    ///
    /// `x = 2⁻ᵉ·m` with `½ ≤ m ≤ 1`. Factors `1 + 2⁻ᵏ` bring m to `m·Π(1 + 2⁻ᵏ) = 1 − d` with `d < 2⁻⁸`, and
    /// `−ln(1 − d) = Σ dⁱ/i`, whose remainder after J terms is below `d^(J+1)/((J+1)(1−d))`, below `ulp` plus what d's
    /// own error adds, for 8(J + 1) bits beyond those of the fraction.
    pub(super) fn minus_ln(self) -> Option<Self> {
        if self.compare(&Self::ONE) == Ordering::Greater || self.is_zero() {
            return None;
        }
        let mut m = self;
        let mut sum = Self::ZERO;
        while m.value[N - 1] == 0 && m.value[N - 2] == 0 {
            m.value.copy_within(..N - 1, 1);
            m.value[0] = 0;
            m.error = m.error.saturating_mul(1 << 64);
            sum = sum.add(Self::LOGARITHMS[0].times(64));
        }
        if m.value[N - 1] == 0 {
            let zeros = m.value[N - 2].leading_zeros();
            m = m.shifted_up(zeros);
            sum = sum.add(Self::LOGARITHMS[0].times(u64::from(zeros)));
        }
        for k in 1..=8 {
            loop {
                let next = m.add(m.shifted_down(k));
                if next.compare(&Self::ONE) == Ordering::Greater {
                    break;
                }
                m = next;
                sum = sum.add(Self::LOGARITHMS[k as usize]);
            }
        }
        let d = Self::ONE.sub(m);
        // An error as large as this leaves nothing to decide, and the remainder's bound is for small ones.
        if d.error >> (Self::FRACTION_BITS / 2).min(100) != 0 {
            return None;
        }
        let terms = Self::FRACTION_BITS as u64 / 8 + 2;
        let mut series = Self::ZERO;
        for i in (1..=terms).rev() {
            series = Self::ONE.divided(i).add(series.mul(d));
        }
        Some(sum.add(series.mul(d)).with_error(1))
    }

    /// `self·factor`.
    fn times(self, factor: u64) -> Self {
        self.mul(Self::integer(factor))
    }

    /// `(sin πy/4, cos πy/4)` for `0 ≤ y ≤ 1`.
    ///
    /// `cos φ = 1 − φ²/(1·2)·(1 − φ²/(3·4)·(1 − …))` and `sin φ = φ·(1 − φ²/(2·3)·(1 − …))`. With J brackets the remainder
    /// is below `φ^(2J)/(2J)! < ulp`, which `(2J)! > 2^(64(N−1))` grants.
    pub(super) fn sin_cos_quarter_pi(self) -> (Self, Self) {
        let angle = self.mul(Self::QUARTER_PI);
        let square = angle.mul(angle);
        let brackets = Self::FRACTION_BITS as u64 / 8 + 2;
        let (mut sine, mut cosine) = (Self::ONE, Self::ONE);
        for i in (1..=brackets).rev() {
            cosine = Self::ONE.sub(square.mul(cosine).divided((2 * i - 1) * (2 * i)));
            sine = Self::ONE.sub(square.mul(sine).divided(2 * i * (2 * i + 1)));
        }
        (angle.mul(sine.with_error(1)), cosine.with_error(1))
    }

    /// `√self`.
    ///
    /// Newton's steps `r += (x − r²)/2r`, the correction in f64, gain about 50 bits each; then the ends of the interval
    /// are widened until their squares prove that they enclose the root.
    pub(super) fn sqrt(self) -> Self {
        if self.error == UNBOUNDED {
            return self;
        }
        let error = Self::ulps(self.error);
        let exact = Self { error: 0, ..self };
        let high = exact.add(error);
        let low = match exact.compare(&error) {
            Ordering::Greater => exact.sub(error),
            _ => Self::ZERO,
        };
        let mut root = Self::from_f64(self.to_f64().sqrt());
        for _ in 0..=64 * N / 48 {
            root.error = 0;
            let square = root.mul(root);
            if root.is_zero() {
                break;
            }
            let divisor = 2.0 * root.to_f64();
            root = match square.compare(&exact) {
                Ordering::Less => root.add(Self::from_f64(exact.sub(square).to_f64() / divisor)),
                _ => root.sub(Self::from_f64(square.sub(exact).to_f64() / divisor)),
            };
        }
        root.error = 0;
        let mut width = 2_u128;
        loop {
            let step = Self::ulps(width);
            let above = root.add(step);
            // A product is cut: it is at least its value and less than one ulp above it.
            let encloses_above = above.mul(above).compare(&high) != Ordering::Less;
            let encloses_below = match root.compare(&step) {
                Ordering::Greater => {
                    let below = root.sub(step);
                    below.mul(below).compare(&low) == Ordering::Less
                }
                _ => true,
            };
            if encloses_above && encloses_below {
                return root.with_error(width);
            }
            if width >> 126 != 0 {
                return root.with_error(UNBOUNDED);
            }
            width *= 2;
        }
    }

    /// `⌊x + ½⌋`, if all numbers enclosed agree; `|x| < 2⁶³ − 1`.
    pub(super) fn nearest_integer(self) -> Option<i64> {
        let mut half = Self::ZERO;
        half.value[N - 2] = 1 << 63;
        self.add(half).floor()
    }

    /// `⌊x⌋`, if all numbers enclosed agree.
    fn floor(self) -> Option<i64> {
        if self.error >> 127 != 0 {
            return None;
        }
        let error = Self::ulps(self.error);
        let [low, high] = [self.sub(error), self.add(error)].map(|end| end.value[N - 1].cast_signed());
        (low == high).then_some(low)
    }

    /// True if no number enclosed is below 0.
    pub(super) fn is_certainly_positive(self) -> bool {
        self.error >> 127 == 0 && self.sub(Self::ulps(self.error)).value[N - 1].cast_signed() >= 0
    }

    /// The value's words and the error.
    #[cfg(test)]
    pub(super) fn parts(self) -> ([u64; N], u128) {
        (self.value, self.error)
    }

    /// The bound of the error.
    pub(super) fn absolute_error(self) -> f64 {
        scaled(self.error as f64, -(Self::FRACTION_BITS as i32))
    }
}

fn scaled(x: f64, exponent: i32) -> f64 {
    // In two steps: a result may be subnormal, a factor may not.
    x * 2f64.powi(exponent / 2) * 2f64.powi(exponent - exponent / 2)
}
