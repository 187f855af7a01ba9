//! The peak of the integer kernels: their instructions on registers alone, and the operations that a gradient takes of them.

use super::lattice::Precision;
use super::model::LinearModel;
use crate::instructions::InstructionSet;
#[cfg(all(target_arch = "x86_64", target_feature = "avx512bw"))]
use crate::instructions::tiles;

/// Multiplications and additions of 8 bits for the gradient of a row of bytes: of each digit of the weights in the margins,
/// of each digit of the coefficients in the sum. The bias takes none.
pub fn integer_operations(model: &LinearModel, precision: Precision) -> f64 {
    (4 * precision.digits() * model.features * model.outputs) as f64
}

/// Repeats `lines` of registers alone.
#[cfg(target_arch = "x86_64")]
macro_rules! repeat {
    ($steps:ident: $($line:literal)+) => {
        // SAFETY: no memory, and all registers that C functions may change are given up.
        unsafe {
            std::arch::asm!(
                "2:", $($line,)+ "dec rcx", "jnz 2b",
                inout("rcx") $steps => _, clobber_abi("C"), options(nomem, nostack)
            );
        }
    };
}

/// Runs `steps` steps of independent products on registers, enough of them to hide their latency. Returns the multiplications
/// and additions of 8 bits, `None` for the set without integer kernels.
///
/// # Panics
/// Instructions that this processor does not have, or no steps.
pub fn integer_peak_loop(instructions: InstructionSet, steps: usize) -> Option<f64> {
    assert!(instructions.is_available() && steps > 0, "{instructions:?} on this processor");
    let products: Option<usize> = match instructions {
        InstructionSet::Scalar => None,
        #[cfg(target_arch = "x86_64")]
        InstructionSet::Avx2 | InstructionSet::Avx512 => {
            repeat! {
                steps:
                "vpmaddwd ymm8, ymm14, ymm15" "vpaddd ymm0, ymm0, ymm8" "vpmaddwd ymm9, ymm14, ymm15" "vpaddd ymm1, ymm1, ymm9"
                "vpmaddwd ymm8, ymm14, ymm15" "vpaddd ymm2, ymm2, ymm8" "vpmaddwd ymm9, ymm14, ymm15" "vpaddd ymm3, ymm3, ymm9"
                "vpmaddwd ymm8, ymm14, ymm15" "vpaddd ymm4, ymm4, ymm8" "vpmaddwd ymm9, ymm14, ymm15" "vpaddd ymm5, ymm5, ymm9"
                "vpmaddwd ymm8, ymm14, ymm15" "vpaddd ymm6, ymm6, ymm8" "vpmaddwd ymm9, ymm14, ymm15" "vpaddd ymm7, ymm7, ymm9"
            }
            Some(8 * 16)
        }
        #[cfg(target_arch = "x86_64")]
        InstructionSet::Vnni => {
            repeat! {
                steps:
                "vpdpbusd zmm0, zmm14, zmm15" "vpdpbusd zmm1, zmm14, zmm15" "vpdpbusd zmm2, zmm14, zmm15"
                "vpdpbusd zmm3, zmm14, zmm15" "vpdpbusd zmm4, zmm14, zmm15" "vpdpbusd zmm5, zmm14, zmm15"
                "vpdpbusd zmm6, zmm14, zmm15" "vpdpbusd zmm7, zmm14, zmm15" "vpdpbusd zmm8, zmm14, zmm15"
                "vpdpbusd zmm9, zmm14, zmm15" "vpdpbusd zmm10, zmm14, zmm15" "vpdpbusd zmm11, zmm14, zmm15"
            }
            Some(12 * 64)
        }
        #[cfg(all(target_arch = "x86_64", target_feature = "avx512bw"))]
        InstructionSet::Amx => {
            let _shapes = tiles::TileWeights { start: std::ptr::null(), columns: 32 }.shapes().configure();
            repeat! {
                steps:
                "tdpbusd tmm0, tmm4, tmm6" "tdpbusd tmm1, tmm4, tmm7" "tdpbusd tmm2, tmm5, tmm6" "tdpbusd tmm3, tmm5, tmm7"
            }
            Some(4 * 16 * 16 * 64)
        }
        #[allow(unreachable_patterns)]
        _ => unreachable!("the set is available"),
    };
    products.map(|products| (2 * products * steps) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::Loss;

    #[test]
    fn every_set_but_the_definition_has_a_peak() {
        for set in InstructionSet::available() {
            let (one, ten) = (integer_peak_loop(set, 1), integer_peak_loop(set, 10));
            assert_eq!(one.is_none(), set == InstructionSet::Scalar);
            assert_eq!(ten, one.map(|one| 10.0 * one), "{set:?}");
        }
    }

    #[test]
    fn a_gradient_takes_each_digit_twice() {
        let model = LinearModel { features: 100, outputs: 10, bias: true, loss: Loss::Softmax };
        assert_eq!(integer_operations(&model, Precision::Bits16), 2.0 * 2.0 * 2.0 * 1_000.0);
        assert_eq!(integer_operations(&model, Precision::Bits24), 2.0 * 3.0 * 2.0 * 1_000.0);
    }
}
