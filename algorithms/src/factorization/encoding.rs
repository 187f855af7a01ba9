//! A factorisation as bytes: keyed by all its inputs, closed by a digest, checked on reading.
//!
//! The layout is `magic · key (32 bytes) · fields · SHA-256 of everything before it (32 bytes)`, integers as u64 and
//! numbers as f64, little-endian. Reading recomputes the digest, compares the key with that of the request, rebuilds C
//! and recomputes its sensitivity; a difference is [`FactorizationError::Damaged`]. Where the bytes lie is not decided here.

use rounds_numerics::Mat;
use sha2::{Digest, Sha256};

use super::error::FactorizationError;
use super::strategy::{BandedStrategy, Strategy};
use super::tree::TreeVariant;
use super::{Factorization, FactorizationRequest};
use crate::hexadecimal;

/// The layout's name and version. A change of the layout changes the number.
const MAGIC: &[u8; 16] = b"rounds-factor-02";

/// Version of the optimisers behind `optimal`, `banded` and `blt`, and of the closed forms. Increase it with every change
/// after which a request gets another C, however close: a cache would answer with the C of the earlier version.
const SOLVER_VERSION: u32 = 2;

/// SHA-256 of a request: all the inputs of a factorisation, the version of the layout and that of the solvers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FactorizationKey([u8; 32]);

impl FactorizationKey {
    /// 64 hexadecimal digits: a file name.
    pub fn hexadecimal(&self) -> String {
        hexadecimal(&self.0)
    }
}

impl FactorizationRequest {
    /// The key of this request.
    pub fn key(&self) -> FactorizationKey {
        let text = format!(
            "{}|{SOLVER_VERSION}|{}|{}|{}|{}|{:?}|{:016x}",
            hexadecimal(MAGIC),
            self.workload.rounds(),
            self.workload.key(),
            self.participation.describe(),
            self.method,
            self.objective,
            self.gap.to_bits()
        );
        FactorizationKey(Sha256::digest(text.as_bytes()).into())
    }

    /// Reads a factorisation of this request back.
    ///
    /// # Errors
    /// `Damaged`, with the check that failed.
    pub fn decode(&self, bytes: &[u8]) -> Result<Factorization, FactorizationError> {
        let parts = bytes.split_last_chunk::<32>();
        let (content, digest) = parts.ok_or_else(|| damaged("it is shorter than its digest"))?;
        if Sha256::digest(content).as_slice() != digest {
            return Err(damaged("its digest does not match its content"));
        }
        let mut reader = Reader { rest: content };
        if reader.take(MAGIC.len())? != MAGIC {
            return Err(damaged("it was written in another format"));
        }
        if reader.take(32)? != self.key().0 {
            return Err(damaged("it belongs to other inputs"));
        }
        let recorded_sensitivity = reader.number()?;
        let gap = reader.number()?;
        let squared_row_errors = reader.numbers()?;
        let strategy = read_strategy(&mut reader)?;
        if !reader.rest.is_empty() {
            return Err(damaged("it is longer than its fields"));
        }
        let rounds = self.workload.rounds();
        strategy.check().map_err(|error| damaged(&error.to_string()))?;
        if strategy.rounds() != rounds || squared_row_errors.len() != rounds {
            return Err(damaged("its shape is not that of the workload"));
        }
        let mut factorization = Factorization {
            sensitivity: strategy.sensitivity(&self.participation)?,
            workload: self.workload.clone(),
            participation: self.participation,
            method: Some(self.method),
            strategy,
            squared_row_errors,
            relative_gap: (!gap.is_nan()).then_some(gap),
        };
        factorization.correct_sensitivity()?;
        factorization.check_sensitivity(recorded_sensitivity).map_err(|error| damaged(&error.to_string()))?;
        Ok(factorization)
    }
}

impl Factorization {
    /// The bytes of this factorisation under the key of the request that made it.
    pub fn encode(&self, key: FactorizationKey) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&key.0);
        write_number(&mut bytes, self.sensitivity.value);
        write_number(&mut bytes, self.relative_gap.unwrap_or(f64::NAN));
        write_numbers(&mut bytes, &self.squared_row_errors);
        let (form, integers, lists) = match &self.strategy {
            Strategy::Identity { rounds } => (0, vec![*rounds], vec![]),
            Strategy::Dense(matrix) => {
                let lower = (0..matrix.ncols()).flat_map(|column| matrix.col(column).iter().skip(column).copied());
                (1, vec![matrix.nrows()], vec![lower.collect()])
            }
            Strategy::Banded(banded) => (2, vec![banded.rounds, banded.bands], vec![banded.coefficients.clone()]),
            Strategy::Toeplitz { coefficients } => (3, vec![], vec![coefficients.clone()]),
            Strategy::Blt { rounds, omega, theta } => (4, vec![*rounds], vec![omega.clone(), theta.clone()]),
            Strategy::Tree { rounds, variant } => {
                let is_online = usize::from(*variant == TreeVariant::HonakerOnline);
                (5, vec![*rounds, is_online], vec![])
            }
        };
        write_integer(&mut bytes, form);
        integers.iter().for_each(|&integer| write_integer(&mut bytes, integer));
        lists.iter().for_each(|numbers| write_numbers(&mut bytes, numbers));
        let digest = Sha256::digest(&bytes);
        bytes.extend_from_slice(&digest);
        bytes
    }

    /// SHA-256 of what [`encode`](Self::encode) writes before it.
    pub fn digest(&self, key: FactorizationKey) -> [u8; 32] {
        *self.encode(key).last_chunk().expect("it ends with its digest")
    }
}

fn read_strategy(reader: &mut Reader<'_>) -> Result<Strategy, FactorizationError> {
    Ok(match reader.integer()? {
        0 => Strategy::Identity { rounds: reader.integer()? },
        1 => {
            let size = reader.integer()?;
            let lower = reader.numbers()?;
            if size.checked_mul(size + 1).map(|double| double / 2) != Some(lower.len()) {
                return Err(damaged("its triangle has the wrong number of entries"));
            }
            // Column j of the triangle starts at Σ_{i<j} (size − i).
            let start = |column: usize| column * size - column * column.saturating_sub(1) / 2;
            Strategy::Dense(Mat::from_fn(size, size, |row, column| {
                if row >= column { lower[start(column) + row - column] } else { 0.0 }
            }))
        }
        2 => {
            let (rounds, bands) = (reader.integer()?, reader.integer()?);
            Strategy::Banded(BandedStrategy { rounds, bands, coefficients: reader.numbers()? })
        }
        3 => Strategy::Toeplitz { coefficients: reader.numbers()? },
        4 => Strategy::Blt { rounds: reader.integer()?, omega: reader.numbers()?, theta: reader.numbers()? },
        5 => Strategy::Tree {
            rounds: reader.integer()?,
            variant: match reader.integer()? {
                1 => TreeVariant::HonakerOnline,
                _ => TreeVariant::Plain,
            },
        },
        _ => return Err(damaged("it holds an unknown form of C")),
    })
}

fn damaged(reason: &str) -> FactorizationError {
    FactorizationError::Damaged { reason: reason.to_owned() }
}

fn write_integer(bytes: &mut Vec<u8>, value: usize) {
    bytes.extend_from_slice(&(value as u64).to_le_bytes());
}

fn write_number(bytes: &mut Vec<u8>, value: f64) {
    bytes.extend_from_slice(&value.to_le_bytes());
}

fn write_numbers(bytes: &mut Vec<u8>, values: &[f64]) {
    write_integer(bytes, values.len());
    values.iter().for_each(|&value| write_number(bytes, value));
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], FactorizationError> {
        let parts = self.rest.split_at_checked(count);
        let (taken, rest) = parts.ok_or_else(|| damaged("it ends too early"))?;
        self.rest = rest;
        Ok(taken)
    }

    fn eight(&mut self) -> Result<[u8; 8], FactorizationError> {
        self.take(8)?.try_into().map_err(|_| damaged("it ends too early"))
    }

    fn integer(&mut self) -> Result<usize, FactorizationError> {
        usize::try_from(u64::from_le_bytes(self.eight()?)).map_err(|_| damaged("a length is too large"))
    }

    fn number(&mut self) -> Result<f64, FactorizationError> {
        Ok(f64::from_le_bytes(self.eight()?))
    }

    fn numbers(&mut self) -> Result<Vec<f64>, FactorizationError> {
        let count = self.integer()?;
        let length = count.checked_mul(8).ok_or_else(|| damaged("a length is too large"))?;
        let (chunks, _) = self.take(length)?.as_chunks::<8>();
        Ok(chunks.iter().map(|chunk| f64::from_le_bytes(*chunk)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Method, Workload, WorkloadSpecification};
    use super::*;
    use crate::factorization::Participation;

    fn request(method: Method) -> FactorizationRequest {
        let workload = Workload::new(12, WorkloadSpecification::prefix().with_momentum(0.5)).unwrap();
        FactorizationRequest::new(workload, Participation::FixedEpoch { epochs: 2 }, method)
    }

    fn damaged(request: &FactorizationRequest, bytes: &[u8]) -> bool {
        matches!(request.decode(bytes), Err(FactorizationError::Damaged { .. }))
    }

    /// Σ c_k·cos k over the entries of C's lower triangle, row by row: a digest that rounding hardly changes.
    fn digest(request: FactorizationRequest) -> f64 {
        let matrix = request.factorize().unwrap().strategy().matrix();
        let triangle = (0..matrix.nrows()).flat_map(|row| (0..=row).map(move |column| (row, column)));
        let terms = triangle.enumerate().map(|(k, place)| matrix[place] * (k as f64).cos());
        terms.sum()
    }

    /// The digests were computed by the solvers of that version. They are compared to 1e-7, since rounding differs between machines:
    /// a change of C in later digits is not seen here, and needs a new version all the same.
    #[test]
    fn a_solver_that_finds_another_c_has_another_version() {
        let of_version: (u32, [(&str, f64); 7]) = (
            2,
            [
                ("optimal", 1.027_119_007_8),
                ("optimal max prefix", 0.318_473_330_0),
                ("optimal single", 0.690_636_724_1),
                ("optimal single max", 0.788_287_330_6),
                ("banded=3", 1.044_192_483_6),
                ("blt=2", 1.955_337_691_6),
                ("toeplitz", 1.657_489_294_7),
            ],
        );
        let found = of_version.1.map(|(name, _)| {
            let mut words = name.split(' ');
            let mut request = request(words.next().unwrap().parse().unwrap());
            for word in words {
                match word {
                    "max" => request.objective = super::super::Objective::Max,
                    "single" => request.participation = Participation::Single,
                    _ => request.workload = Workload::new(12, WorkloadSpecification::prefix()).unwrap(),
                }
            }
            request.gap = 1e-4;
            (name, digest(request))
        });
        let same = |((_, found), (_, expected)): (&(&str, f64), &(&str, f64))| (found - expected).abs() < 1e-7;
        assert!(
            SOLVER_VERSION == of_version.0 && found.iter().zip(&of_version.1).all(same),
            "a factorisation has changed: increase SOLVER_VERSION, which keeps those of the earlier solver out of caches, and write \
             here: {SOLVER_VERSION} {found:?}"
        );
    }

    #[test]
    fn every_form_is_read_back_bit_by_bit() {
        let texts = "optimal banded=3 blt=2 toeplitz fourier identity tree honaker-online honaker-full";
        for method in texts.split(' ') {
            let method = method.parse().unwrap();
            let request = request(method);
            let key = request.key();
            let found = request.clone().factorize().unwrap();
            let bytes = found.encode(key);
            let read = request.decode(&bytes).unwrap();
            assert_eq!(read.encode(key), bytes, "{method}");
            assert_eq!(read.sensitivity(), found.sensitivity(), "{method}");
            assert_eq!(read.frobenius().to_bits(), found.frobenius().to_bits(), "{method}");
            assert_eq!(read.relative_gap(), found.relative_gap(), "{method}");
        }
    }

    #[test]
    fn every_flipped_byte_and_every_cut_is_noticed() {
        let request = request(Method::Banded { bands: 2 });
        let bytes = request.clone().factorize().unwrap().encode(request.key());
        for position in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[position] ^= 4;
            assert!(damaged(&request, &changed), "{position}");
            assert!(damaged(&request, &bytes[..position]), "{position}");
        }
    }

    #[test]
    fn another_request_has_another_key_and_refuses_the_bytes() {
        let base = request(Method::Banded { bands: 2 });
        let bytes = base.clone().factorize().unwrap().encode(base.key());
        let momentum = WorkloadSpecification::prefix().with_momentum(0.5 + f64::EPSILON);
        let mut others = [(); 4].map(|()| base.clone());
        others[0].gap = 1e-7;
        others[1].objective = super::super::Objective::Max;
        others[2].participation = Participation::FixedEpoch { epochs: 3 };
        others[3].workload = Workload::new(12, momentum).unwrap();
        for other in others.into_iter().chain([request(Method::Banded { bands: 3 })]) {
            assert_ne!(other.key(), base.key());
            assert!(damaged(&other, &bytes));
        }
    }

    #[test]
    fn a_wrong_sensitivity_under_a_right_digest_is_noticed() {
        let request = request(Method::Toeplitz);
        let mut found = request.clone().factorize().unwrap();
        found.sensitivity.value *= 0.5;
        let bytes = found.encode(request.key());
        assert!(damaged(&request, &bytes));
    }
}
