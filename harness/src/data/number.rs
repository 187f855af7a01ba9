//! Decimal numbers from text, correctly rounded to f32, at the speed of the memory they are read from.

/// 10^0 … 10^22, all exact in f64.
const POWERS_OF_TEN: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];

/// The part of an f64's mantissa that f32 lacks, when the f64 lies halfway between two f32.
const HALFWAY: u64 = 1 << 28;

/// Reads the decimal number that `text` starts with: `[+-]digits[.digits][(e|E)[+-]digits]`, digits on either side of the
/// point optional. Returns the number, rounded to nearest (ties to even) as `str::parse::<f32>` does, and its length in
/// bytes; an overflow is an infinity. `None` if no number stands there; words such as `nan` are not numbers.
///
/// A mantissa below 2⁵³ and a power of ten within 10^±22 make one rounding in f64; rounding that to f32 is a second one, and
/// differs from a single rounding only where the f64 lies halfway between two f32, or below their normal range. Those
/// cases, and longer numbers, take the slow way through the standard library.
#[inline]
pub fn scan(text: &[u8]) -> Option<(f32, usize)> {
    let mut at = 0;
    let negative = match text.first() {
        Some(b'-') => {
            at = 1;
            true
        }
        Some(b'+') => {
            at = 1;
            false
        }
        _ => false,
    };
    let mut mantissa = 0u64;
    let start = at;
    while let Some(digit) = digit(text, at) {
        mantissa = mantissa.wrapping_mul(10).wrapping_add(digit);
        at += 1;
    }
    let mut digits = at - start;
    let mut exponent = 0i64;
    if text.get(at) == Some(&b'.') {
        at += 1;
        let start = at;
        while let Some(digit) = digit(text, at) {
            mantissa = mantissa.wrapping_mul(10).wrapping_add(digit);
            at += 1;
        }
        digits += at - start;
        exponent = -((at - start).cast_signed() as i64);
    }
    if digits == 0 {
        return None;
    }
    if let Some(b'e' | b'E') = text.get(at) {
        let sign = usize::from(matches!(text.get(at + 1), Some(b'-' | b'+')));
        let start = at + 1 + sign;
        let mut end = start;
        let mut power = 0i64;
        while let Some(digit) = digit(text, end) {
            power = (power * 10 + digit.cast_signed()).min(1 << 32);
            end += 1;
        }
        if end > start {
            exponent += if text[at + 1] == b'-' { -power } else { power };
            at = end;
        }
    }
    let scale = exponent.unsigned_abs() as usize;
    if digits > 19 || mantissa >= 1 << 53 || scale >= POWERS_OF_TEN.len() {
        return Some((slow(&text[..at]), at));
    }
    let magnitude = mantissa as f64;
    let magnitude = if exponent < 0 {
        magnitude / POWERS_OF_TEN[scale]
    } else {
        magnitude * POWERS_OF_TEN[scale]
    };
    let ambiguous = magnitude.to_bits() & (2 * HALFWAY - 1) == HALFWAY
        || (magnitude < f64::from(f32::MIN_POSITIVE) && magnitude != 0.0);
    if ambiguous {
        return Some((slow(&text[..at]), at));
    }
    let number = magnitude as f32;
    Some((if negative { -number } else { number }, at))
}

#[inline]
fn digit(text: &[u8], at: usize) -> Option<u64> {
    text.get(at)
        .map(|byte| byte.wrapping_sub(b'0'))
        .filter(|&digit| digit < 10)
        .map(u64::from)
}

#[cold]
fn slow(text: &[u8]) -> f32 {
    let text = std::str::from_utf8(text).expect("digits, signs, points and exponents are ASCII");
    text.parse().expect("what was scanned is a number")
}

/// The whole of `text` as a number, blanks around it allowed.
pub fn parse(text: &[u8]) -> Option<f32> {
    let text = text.trim_ascii();
    scan(text)
        .filter(|&(_, length)| length == text.len())
        .map(|(number, _)| number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_end_where_their_syntax_ends() {
        for (text, number, length) in [
            ("1", 1.0, 1),
            ("-1 2", -1.0, 2),
            ("+3.5:", 3.5, 4),
            (".5,", 0.5, 2),
            ("5.,", 5.0, 2),
            ("1e3x", 1000.0, 3),
            ("1e", 1.0, 1),
            ("1e+", 1.0, 1),
            ("1.5E-1", 0.15, 6),
            ("0.000", 0.0, 5),
            ("1e999", f32::INFINITY, 5),
            ("-1e-999", -0.0, 7),
            ("1e99999999999999999999999", f32::INFINITY, 25),
            ("0e99999999999999999999999", 0.0, 25),
            ("00000000000000000000000001", 1.0, 26),
        ] {
            let found = scan(text.as_bytes()).unwrap();
            assert_eq!((found.0.to_bits(), found.1), (number.to_bits(), length), "{text}");
        }
        for text in ["", "-", "+", ".", "-.", "nan", "inf", "e5", ".e5", " 1", "x"] {
            assert_eq!(scan(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!((parse(b" 1.5 "), parse(b"1.5x"), parse(b"")), (Some(1.5), None, None));
    }

    #[test]
    fn numbers_halfway_between_two_f32_round_once() {
        // 1 + 2⁻²⁴ is halfway; a little above it rounds up, though its f64 is the halfway point itself.
        assert_eq!(parse(b"1.000000059604644775390625"), Some(1.0));
        assert_eq!(parse(b"1.0000000596046447753906251"), Some(1.0 + f32::EPSILON));
        assert_eq!(parse(b"16777217"), Some(16_777_216.0));
        assert_eq!(parse(b"16777219"), Some(16_777_220.0));
        assert_eq!(parse(b"16777217.0000000001"), Some(16_777_218.0));
        // Halfway between the two smallest subnormals.
        for text in [
            "1e-45",
            "2.1e-45",
            "0.7e-45",
            "2.101947696487225606e-45",
            "1.1754942e-38",
        ] {
            assert_eq!(parse(text.as_bytes()), text.parse().ok(), "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]
        #[test]
        fn every_number_is_the_one_that_the_standard_library_reads(text in "[+-]?[0-9]{0,12}(\\.[0-9]{0,12})?([eE][+-]?[0-9]{1,2})?") {
            let expected: Option<f32> = text.parse().ok();
            prop_assert_eq!(parse(text.as_bytes()).map(f32::to_bits), expected.map(f32::to_bits), "{}", text);
        }

        #[test]
        fn every_f32_survives_being_written_and_read(bits in any::<u32>()) {
            let number = f32::from_bits(bits);
            prop_assume!(number.is_finite());
            prop_assert_eq!(parse(number.to_string().as_bytes()).map(f32::to_bits), Some(bits));
            prop_assert_eq!(parse(format!("{number:e}").as_bytes()).map(f32::to_bits), Some(bits));
            // As many programs write f32: converted to f64 and with 17 digits.
            prop_assert_eq!(parse(format!("{:.17e}", f64::from(number)).as_bytes()).map(f32::to_bits), Some(bits));
        }
    }
}
