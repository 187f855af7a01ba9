//! Decimal numbers from text, correctly rounded to f32 or f64.

use fast_float2::FastFloat;

/// The decimal number at the beginning of `text`, `[+-]digits[.digits][(e|E)[+-]digits]` with digits on at least one side of
/// the point, and its length in bytes. Rounded to nearest (ties to even); an overflow is an infinity. `None` if there is no
/// number; words such as `nan` are no numbers.
#[inline]
pub(super) fn scan<Float: FastFloat>(text: &[u8]) -> Option<(Float, usize)> {
    let sign = usize::from(matches!(text.first(), Some(b'-' | b'+')));
    // The crate takes nan and inf for numbers.
    text.get(sign).filter(|byte| matches!(byte, b'0'..=b'9' | b'.'))?;
    fast_float2::parse_partial(text).ok()
}

/// The number that is all of `text`, blanks around it allowed.
#[inline]
pub(super) fn parse<Float: FastFloat>(text: &[u8]) -> Option<Float> {
    let text = text.trim_ascii();
    scan(text).filter(|&(_, length)| length == text.len()).map(|(number, _)| number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_end_where_their_syntax_ends() {
        for (text, number, length) in [
            ("-1 2", -1.0, 2),
            ("+3.5:", 3.5, 4),
            (".5,", 0.5, 2),
            ("5.,", 5.0, 2),
            ("1e3x", 1000.0, 3),
            ("1e999", f32::INFINITY, 5),
            ("-1e-999", -0.0, 7),
            ("1e99999999999999999999999", f32::INFINITY, 25),
            ("0e99999999999999999999999", 0.0, 25),
            ("00000000000000000000000001", 1.0, 26),
        ] {
            let found = scan::<f32>(text.as_bytes()).unwrap();
            assert_eq!((found.0.to_bits(), found.1), (number.to_bits(), length), "{text}");
        }
        for text in ["", "-", "+", ".", "-.", "nan", "-inf", "infinity", "e5", ".e5", " 1", "x"] {
            assert_eq!(scan::<f32>(text.as_bytes()), None, "{text:?}");
        }
        let all = parse::<f32>;
        assert_eq!((all(b" 1.5 "), all(b"1.5x"), all(b"1e")), (Some(1.5), None, None));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(5_000))]
        #[test]
        fn every_number_is_the_one_that_the_standard_library_reads(
            text in "[+-]?[0-9]{0,12}(\\.[0-9]{0,12})?([eE][+-]?[0-9]{1,2})?",
            bits in any::<u32>(),
        ) {
            let written = f32::from_bits(bits);
            prop_assume!(written.is_finite());
            // Many programs write f32 as f64 with 17 digits.
            for text in [text, format!("{written:e}"), format!("{:.17e}", f64::from(written))] {
                let expected: Option<f32> = text.parse().ok();
                prop_assert_eq!(parse::<f32>(text.as_bytes()).map(f32::to_bits), expected.map(f32::to_bits), "{}", text);
            }
        }
    }
}
