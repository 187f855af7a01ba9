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

const MOST_TERMS: usize = 132;

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
    /// 1/k! and 1/k for as many k as the series of N ≤ 17 words need.
    const INVERSE_FACTORIALS: &'static [Self; 2 * MOST_TERMS] = &Self::inverses(true);
    const INVERSES: &'static [Self; 2 * MOST_TERMS] = &Self::inverses(false);
    /// Terms of a series that gains eight digits with each.
    const TERMS: usize = {
        assert!(N >= 3 && Self::FRACTION_BITS / 8 + 3 < MOST_TERMS);
        Self::FRACTION_BITS / 8 + 2
    };
    /// π/4 = 4·arctan(1/5) − arctan(1/239) (Machin).
    const QUARTER_PI: Self = Self::arc_tangent(5, false).shifted_up(2).sub(Self::arc_tangent(239, false));

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
        assert!(x.abs() < 2f64.powi(64), "{x} is beyond the range of the exact arithmetic");
        let bits = x.abs().to_bits();
        let (mantissa, exponent) = match (bits >> 52, bits & ((1 << 52) - 1)) {
            (0, mantissa) => (mantissa, 1),
            (exponent, mantissa) => (mantissa | 1 << 52, exponent as usize),
        };
        // x = mantissa·2^(exponent − 1075): its lowest bit lies at this place of the fraction.
        let place = (exponent + Self::FRACTION_BITS).cast_signed() - 1075;
        let mut value = [0; N];
        if let Ok(place) = usize::try_from(place) {
            let bits = u128::from(mantissa) << (place % 64);
            value[place / 64] = bits as u64;
            if let Some(next) = value.get_mut(place / 64 + 1) {
                *next = (bits >> 64) as u64;
            }
        } else {
            value[0] = mantissa.checked_shr(place.unsigned_abs() as u32).unwrap_or(0);
        }
        Self { value, error: u128::from(place < 0) }
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
        Self { value: self.value, error: self.error.saturating_add(error) }
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
        let (mut low, mut high) = ([0_u64; N], [0_u64; N]);
        for (i, &a) in self.value.iter().enumerate() {
            if a == 0 {
                continue;
            }
            let mut carry = 0;
            for (j, &b) in other.value.iter().enumerate() {
                let place = if i + j < N { &mut low[i + j] } else { &mut high[i + j - N] };
                (*place, carry) = a.carrying_mul_add(b, *place, carry);
            }
            high[i] = carry;
        }
        // Words N − 1 to 2N − 2: what lies below is cut.
        let value = std::array::from_fn(|i| if i == 0 { low[N - 1] } else { high[i - 1] });
        let bits = |error: u128| 128 - error.leading_zeros() as usize;
        // e_a·e_b·ulp < 1, or too large to matter; and the cut.
        let is_small = bits(self.error) + bits(other.error) <= Self::FRACTION_BITS;
        let cross = if is_small { 2 } else { UNBOUNDED };
        Self { value, error: cross }
            .with_error(self.error_times_ceiling(&other))
            .with_error(other.error_times_ceiling(&self))
    }

    /// `error·(⌊factor⌋ + 1)`.
    fn error_times_ceiling(&self, factor: &Self) -> u128 {
        match (u64::try_from(self.error), factor.value[N - 1].checked_add(1)) {
            (Ok(error), Some(ceiling)) => u128::from(error) * u128::from(ceiling),
            _ => self.error.saturating_mul(u128::from(factor.value[N - 1]) + 1),
        }
    }

    const fn divided(self, divisor: u64) -> Self {
        let mut quotient = Self { value: [0; N], error: self.error / divisor as u128 + 2 };
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
        let mut shifted = Self { value: [0; N], error: self.error.saturating_mul(1 << bits) };
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

    /// 1 and then 1/1, 1/2, 1/3, …, or their products.
    const fn inverses(factorials: bool) -> [Self; 2 * MOST_TERMS] {
        let mut inverses = [Self::ONE; 2 * MOST_TERMS];
        let mut k = 1;
        while k < 2 * MOST_TERMS {
            let factor = if factorials { inverses[k - 1] } else { Self::ONE };
            inverses[k] = factor.divided(k as u64);
            k += 1;
        }
        inverses
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
            sum = if hyperbolic || i % 2 == 0 { sum.add(term) } else { sum.sub(term) };
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
        let mut series = Self::ZERO;
        for inverse in Self::INVERSES[1..=Self::TERMS].iter().rev() {
            series = inverse.add(series.mul(d));
        }
        Some(sum.add(series.mul(d)).with_error(1))
    }

    /// `self·factor`.
    fn times(self, factor: u64) -> Self {
        self.mul(Self::integer(factor))
    }

    /// `(sin πy/4, cos πy/4)` for `0 ≤ y ≤ 1`.
    ///
    /// By the series of `cos φ` and `sin φ/φ` in `−φ²`. After J terms their remainder is below `φ^(2J)/(2J)! < ulp`, as
    /// `(2J)! > 2^(64(N−1))`.
    pub(super) fn sin_cos_quarter_pi(self) -> (Self, Self) {
        let angle = self.mul(Self::QUARTER_PI);
        let square = angle.mul(angle);
        let [mut sine, mut cosine] = [Self::ZERO; 2];
        for [even, odd] in Self::INVERSE_FACTORIALS.as_chunks().0[..Self::TERMS].iter().rev() {
            cosine = even.sub(square.mul(cosine));
            sine = odd.sub(square.mul(sine));
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
            let (is_below, rest) = match square.compare(&exact) {
                Ordering::Less => (true, exact.sub(square)),
                _ => (false, square.sub(exact)),
            };
            if root.is_zero() {
                break;
            }
            let correction = Self::from_f64(rest.to_f64() / (2.0 * root.to_f64()));
            if correction.is_zero() {
                break;
            }
            root = if is_below { root.add(correction) } else { root.sub(correction) };
        }
        root.error = 0;
        // Where they should be; the loop shows that they are.
        let mut width = (0.51 * self.error as f64 / root.to_f64()).min(1e30) as u128 + 2;
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

    /// `1/|x|` for `2⁻⁴⁰ < |x| < 2⁴⁰`.
    ///
    /// Newton's steps `y += (1 − xy)·y`, the correction in f64. Then `|y − 1/x| = |1 − xy|/x`, which the enclosure of xy bounds.
    fn reciprocal(x: f64) -> Self {
        let x = x.abs();
        assert!(
            2f64.powi(-40) < x && x < 2f64.powi(40),
            "the divisor {x} lies outside of what the exact arithmetic divides by"
        );
        let divisor = Self::from_f64(x);
        let mut inverse = Self::from_f64(1.0 / x);
        let mut error = f64::INFINITY;
        for step in 0..=64 * N / 48 {
            inverse.error = 0;
            let product = divisor.mul(inverse);
            let (is_below, rest) = match product.compare(&Self::ONE) {
                Ordering::Less => (true, Self::ONE.sub(product)),
                _ => (false, product.sub(Self::ONE)),
            };
            let ulp = scaled(1.0, -(Self::FRACTION_BITS as i32));
            error = 1.001 * (rest.to_f64() + rest.absolute_error()) / x / ulp + 2.0;
            let correction = Self::from_f64(rest.to_f64() / x);
            if correction.is_zero() {
                break;
            }
            if step < 64 * N / 48 {
                inverse = if is_below { inverse.add(correction) } else { inverse.sub(correction) };
            }
        }
        // `error` is that of this very value.
        inverse.error = 0;
        inverse.with_error(error as u128 + 1)
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

/// A real number of either sign in N words: what a [`LinearForm`](super::LinearForm) computes with. Every result encloses the
/// exact one; what no bound is known of decides nothing.
#[derive(Clone, Copy, Debug)]
pub struct Exact<const N: usize> {
    is_negative: bool,
    magnitude: Ball<N>,
}

impl<const N: usize> Exact<N> {
    /// 0.
    pub const ZERO: Self = Self::new(false, Ball::ZERO);
    /// A number of which nothing is known.
    pub(super) const UNKNOWN: Self = Self::new(false, Ball::ZERO.with_error(UNBOUNDED));

    pub(super) const fn new(is_negative: bool, magnitude: Ball<N>) -> Self {
        Self { is_negative, magnitude }
    }

    /// `self·factor`, for `|factor| < 2⁶⁴` and a product below 2⁶².
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        Self {
            is_negative: self.is_negative != (factor < 0.0),
            // The first factor's words that are 0 cost nothing, and a factor in f64 has at most two others.
            magnitude: Ball::from_f64(factor).mul(self.magnitude),
        }
    }

    /// `self/divisor`, for `2⁻⁴⁰ < |divisor| < 2⁴⁰`.
    #[must_use]
    pub fn over(self, divisor: f64) -> Self {
        Self {
            is_negative: self.is_negative != (divisor < 0.0),
            magnitude: self.magnitude.mul(Ball::reciprocal(divisor)),
        }
    }

    /// The middle of the numbers enclosed, as a number of its own, and the greatest distance of one of them from it.
    ///
    /// A recursion keeps middles and bounds their distances once: balls of balls would grow exponentially.
    pub fn centre(self) -> (Self, f64) {
        let distance =
            if self.magnitude.error >> 127 == 0 { self.absolute_error() * (1.0 + f64::EPSILON) } else { f64::INFINITY };
        let magnitude = Ball { error: 0, ..self.magnitude };
        (Self { magnitude, ..self }, distance)
    }

    /// All numbers within `distance` of one enclosed; nothing is known from 2¹²⁷ ulps on, nor where it is NaN.
    #[must_use]
    pub fn widened(self, distance: f64) -> Self {
        let ulps = 1.001 * scaled(distance, Ball::<N>::FRACTION_BITS as i32) + 1.0;
        let error = if ulps < 2f64.powi(127) { ulps as u128 } else { UNBOUNDED };
        Self { magnitude: self.magnitude.with_error(error), ..self }
    }

    /// In two's complement.
    fn signed(self) -> Ball<N> {
        if self.is_negative { Ball::ZERO.sub(self.magnitude) } else { self.magnitude }
    }

    /// `⌊x + ½⌋`, if all numbers enclosed agree.
    pub(super) fn nearest_integer(self) -> Option<i64> {
        self.signed().nearest_integer()
    }

    pub(super) fn to_f64(self) -> f64 {
        self.magnitude.to_f64() * if self.is_negative { -1.0 } else { 1.0 }
    }

    pub(super) fn absolute_error(self) -> f64 {
        self.magnitude.absolute_error()
    }
}

impl<const N: usize> std::ops::Add for Exact<N> {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let sum = self.signed().add(other.signed());
        let is_negative = sum.value[N - 1] >> 63 == 1;
        Self { is_negative, magnitude: if is_negative { Ball::ZERO.sub(sum) } else { sum } }
    }
}

impl<const N: usize> std::ops::Neg for Exact<N> {
    type Output = Self;

    fn neg(self) -> Self {
        Self { is_negative: !self.is_negative, ..self }
    }
}

impl<const N: usize> std::ops::Sub for Exact<N> {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

/// `x·2^exponent` for exponents in ±2000.
fn scaled(x: f64, exponent: i32) -> f64 {
    // In two steps: a result may be subnormal, a factor may not.
    let power = |exponent: i32| f64::from_bits(((exponent + 1023) as u64) << 52);
    x * power(exponent / 2) * power(exponent - exponent / 2)
}
