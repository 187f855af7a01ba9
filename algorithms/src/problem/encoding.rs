//! From raw fields and numbers to features and labels of a declared domain. Every input has an image, whatever it is; nothing
//! here fails, and no row enters another one's image.

use std::collections::HashMap;

use rounds_kernels::features::NULL_CLASS;

use super::domain::{Column, ColumnKind, Columns, Domain, Label, Other, Storage};
use super::features::{Buffer, ByteRows, Features, Labels, SparseMatrix};

/// The code of the null row's label: [`NULL_CLASS`], and as the bits of an f32 one of the NaNs.
pub const NULL_LABEL: u32 = NULL_CLASS;

/// The number that a field holds, blanks around it allowed; NaN for an empty field or a word.
pub fn number(field: &[u8]) -> f64 {
    let Ok(text) = std::str::from_utf8(field) else {
        return f64::NAN;
    };
    // Few fields have blanks.
    text.parse().or_else(|_| text.trim().parse()).unwrap_or(f64::NAN)
}

/// Declared words. A field is one of them if it is spelt the same, or else if both are the same number (`+1`, `1.0` and `1`),
/// to the precision of f32.
#[derive(Clone, Debug)]
pub struct Words {
    spelt: HashMap<Vec<u8>, u32>,
    /// Those that are numbers, ascending; of equal ones the first.
    numbers: Vec<(f32, u32)>,
}

impl Words {
    /// The words, by their index.
    pub fn new(words: &[String]) -> Self {
        let numbered = || words.iter().zip(0..);
        let mut numbers: Vec<(f32, u32)> = numbered()
            .map(|(word, index)| (number(word.as_bytes()) as f32 + 0.0, index))
            .filter(|(number, _)| !number.is_nan())
            .collect();
        numbers.sort_by(|a, b| a.0.total_cmp(&b.0));
        numbers.dedup_by_key(|(number, _)| *number);
        Self { spelt: numbered().map(|(word, index)| (word.clone().into_bytes(), index)).collect(), numbers }
    }

    /// The index of the word that is this number.
    pub fn of_number(&self, wanted: f32) -> Option<u32> {
        let place = self.numbers.binary_search_by(|(number, _)| number.total_cmp(&(wanted + 0.0)));
        place.ok().map(|place| self.numbers[place].1)
    }

    /// The index of the word that a field is, or is but for blanks around it.
    pub fn of_field(&self, field: &[u8]) -> Option<u32> {
        let spelt = self.spelt.get(field).or_else(|| self.spelt.get(field.trim_ascii()));
        spelt.copied().or_else(|| self.of_number(number(field) as f32))
    }
}

/// The map from rows as they stand in files to rows of a domain. Labels are handed on as codes: the class, or the bits of an
/// f32, or [`NULL_LABEL`].
#[derive(Clone, Debug)]
pub struct Encoder<'a> {
    domain: &'a Domain,
    columns: &'a [Column],
    /// Of every category, and of numbers none.
    words: Vec<Words>,
    /// Of the classes, if there are any.
    classes: Words,
}

impl<'a> Encoder<'a> {
    /// The map into `domain`.
    pub fn new(domain: &'a Domain) -> Self {
        let columns = match &domain.columns {
            Columns::Matrix { .. } => &[],
            Columns::Named(columns) => columns.as_slice(),
        };
        let words = |column: &Column| match &column.kind {
            ColumnKind::Number { .. } => Words::new(&[]),
            ColumnKind::Category { values, .. } => Words::new(values),
        };
        let classes = match &domain.label {
            Label::Classes(names) => names.as_slice(),
            Label::Number(_) => &[],
        };
        Self { domain, columns, words: columns.iter().map(words).collect(), classes: Words::new(classes) }
    }

    /// Number of features of a named column.
    pub fn width(&self, column: usize) -> usize {
        self.columns[column].kind.features()
    }

    /// `false` if a named column's field makes its row the null row.
    ///
    /// # Panics
    /// If there is no such column.
    pub fn keeps(&self, column: usize, field: &[u8]) -> bool {
        match &self.columns[column].kind {
            ColumnKind::Number { missing, .. } => missing.is_some() || !number(field).is_nan(),
            ColumnKind::Category { other, .. } => {
                matches!(other, Other::Value(_)) || self.words[column].of_field(field).is_some()
            }
        }
    }

    /// Writes the features of a named column's field. `false` if the field makes its row the null row.
    ///
    /// # Panics
    /// If there is no such column, or `out` is not as long as its [`width`](Self::width).
    pub fn field(&self, column: usize, field: &[u8], out: &mut [f32]) -> bool {
        match &self.columns[column].kind {
            ColumnKind::Number { .. } => self.number(column, number(field), out),
            ColumnKind::Category { other, .. } => {
                let index = match (self.words[column].of_field(field), other) {
                    (Some(index), _) => index as usize,
                    (None, Other::Value(index)) => *index,
                    (None, Other::NullRow) => return false,
                };
                out.fill(0.0);
                out[index] = 1.0;
                true
            }
        }
    }

    /// As [`field`](Self::field), of the number that stands in the field of a column of numbers, NaN for a word.
    ///
    /// # Panics
    /// If there is no such column of numbers, or `out` is empty.
    pub fn number(&self, column: usize, value: f64, out: &mut [f32]) -> bool {
        let ColumnKind::Number { bounds, missing } = &self.columns[column].kind else { panic!("a category has words") };
        if value.is_nan() && missing.is_none() {
            return false;
        }
        out[0] = bounds.to_unit(bounds.clamp(value, missing.unwrap_or(0.0))) as f32;
        true
    }

    /// The code of a label as it stands in a text.
    pub fn label(&self, field: &[u8]) -> u32 {
        match &self.domain.label {
            Label::Classes(_) => self.classes.of_field(field).unwrap_or(NULL_LABEL),
            Label::Number(_) => self.label_number(number(field)),
        }
    }

    /// The code of a label that is a number.
    pub fn label_number(&self, label: f64) -> u32 {
        match &self.domain.label {
            Label::Classes(_) => self.classes.of_number(label as f32).unwrap_or(NULL_LABEL),
            Label::Number(_) if label.is_nan() => NULL_LABEL,
            Label::Number(bounds) => (bounds.to_unit(bounds.clamp(label, 0.0)) as f32).to_bits(),
        }
    }

    /// Encodes the values of a matrix, in the domain's storage.
    ///
    /// # Panics
    /// If the domain has named columns.
    pub fn matrix(&self, raw: Features) -> Features {
        let Columns::Matrix { bounds, .. } = self.domain.columns else {
            panic!("named columns are encoded field by field")
        };
        let clamp = |value: f32| bounds.clamp(f64::from(value), 0.0);
        let keeps_zero = bounds.lo() <= 0.0 && 0.0 <= bounds.hi();
        let encode = |value: f32| {
            let value = clamp(value);
            (if keeps_zero { value / bounds.magnitude() } else { bounds.to_unit(value) }) as f32
        };
        // Most bounds are those of the encoded values: one pass that the compiler turns into vector instructions.
        let identity = keeps_zero && bounds.magnitude() == 1.0;
        let (lo, hi) = (bounds.lo() as f32, bounds.hi() as f32);
        let narrow = f64::from(lo) == bounds.lo() && f64::from(hi) == bounds.hi();
        let encode_all = |values: &mut [f32]| {
            if identity && narrow {
                for value in values {
                    let number = if value.is_nan() { 0.0 } else { *value };
                    *value = number.max(lo).min(hi);
                }
            } else {
                values.iter_mut().for_each(|value| *value = encode(*value));
            }
        };
        match (raw, self.domain.storage) {
            (Features::U8 { rows, .. }, Storage::Bytes) => Features::U8 { rows, scale: BYTE_SCALE },
            (Features::U8 { rows, .. }, storage) => {
                let table: Vec<f32> = (0..=u8::MAX).map(|byte| encode(f32::from(byte))).collect();
                let mut values = Buffer::zeroed(rows.stored());
                for (value, &byte) in values.iter_mut().zip(rows.iter().flatten()) {
                    *value = table[usize::from(byte)];
                }
                stored_as(storage, values, rows.columns())
            }
            (Features::F32 { values, columns }, Storage::Bytes) => {
                let bytes: Vec<u8> = values.iter().map(|&value| clamp(value).round() as u8).collect();
                Features::U8 { rows: ByteRows::new(&bytes, columns), scale: BYTE_SCALE }
            }
            (Features::F32 { mut values, columns }, storage) => {
                encode_all(&mut values);
                stored_as(storage, values, columns)
            }
            (Features::Sparse(mut sparse), _) => {
                encode_all(&mut sparse.values);
                Features::Sparse(sparse)
            }
        }
    }

    /// Features and labels of encoded rows and the codes of their labels: the features of null rows become 0.
    pub fn finish(&self, mut features: Features, codes: Vec<u32>) -> (Features, Labels) {
        if codes.contains(&NULL_LABEL) {
            features.clear_rows(|row| codes.get(row) == Some(&NULL_LABEL));
        }
        let labels = match &self.domain.label {
            Label::Classes(names) => {
                Labels::Classes { values: codes, classes: names.len(), names: Some(names.clone()) }
            }
            Label::Number(_) => Labels::Values(codes.into_iter().map(f32::from_bits).collect()),
        };
        (features, labels)
    }
}

/// The factor of bytes with the bounds [0, 255].
pub const BYTE_SCALE: f32 = 1.0 / 255.0;

/// Encoded values as dense or sparse rows.
fn stored_as(storage: Storage, values: Buffer<f32>, columns: usize) -> Features {
    if storage != Storage::Sparse {
        return Features::f32(values, columns);
    }
    let mut sparse = SparseMatrix::new(columns);
    for row in values.chunks_exact(columns) {
        let entries = (0..).zip(row.iter().copied());
        sparse.push_row(entries.filter(|(_, value)| *value != 0.0));
    }
    Features::Sparse(sparse)
}

#[cfg(test)]
mod tests {
    use super::super::domain::{Bounds, DomainSource};
    use super::*;

    fn domain(columns: Columns, storage: Storage, label: Label) -> Domain {
        Domain::new(columns, storage, label, DomainSource::Arguments)
    }

    fn classes(names: &[&str]) -> Label {
        Label::Classes(names.iter().map(ToString::to_string).collect())
    }

    fn matrix(lo: f64, hi: f64, storage: Storage) -> Domain {
        let bounds = Bounds::new(lo, hi).unwrap();
        domain(Columns::Matrix { count: 2, bounds }, storage, classes(&["-1", "1"]))
    }

    fn named(kinds: Vec<ColumnKind>) -> Domain {
        let columns = kinds.into_iter().enumerate().map(|(index, kind)| Column { name: index.to_string(), kind });
        domain(Columns::Named(columns.collect()), Storage::Dense, classes(&["a", "b"]))
    }

    #[test]
    fn numbers_are_cut_to_their_bounds_and_mapped_affinely() {
        let bounds = Bounds::new(-10.0, 30.0).unwrap();
        let kind = |missing| ColumnKind::Number { bounds, missing };
        let domain = named(vec![kind(None), kind(Some(20.0)), kind(Some(1e9))]);
        let encoder = Encoder::new(&domain);
        let encode = |column, text: &str| {
            let mut out = [7.0];
            encoder.field(column, text.as_bytes(), &mut out).then_some(out[0])
        };
        for (text, value) in [
            ("10", 0.0),
            (" 30 ", 1.0),
            ("-10", -1.0),
            ("1e300", 1.0),
            ("-1e999", -1.0),
            ("inf", 1.0),
            ("-Infinity", -1.0),
            ("1e-300", -0.5),
        ] {
            assert_eq!(encode(0, text), Some(value), "{text}");
        }
        for text in ["", "nan", "NaN", "word", "1,5", "1e", "\u{fffd}"] {
            let missing = [encode(0, text), encode(1, text), encode(2, text)];
            assert_eq!(missing, [None, Some(0.5), Some(1.0)], "{text}");
        }
        assert!(!encoder.field(0, b"\xff", &mut [0.0]));
    }

    #[test]
    fn words_become_one_of_their_features_and_others_what_the_policy_says() {
        let values: Vec<String> = ["x", "1", "1.0"].map(str::to_owned).to_vec();
        let kind = |other| ColumnKind::Category { values: values.clone(), other };
        let domain = named(vec![kind(Other::NullRow), kind(Other::Value(0))]);
        let encoder = Encoder::new(&domain);
        let encode = |column, text: &str| {
            let mut out = [7.0; 3];
            encoder.field(column, text.as_bytes(), &mut out).then_some(out)
        };
        assert_eq!(encoder.width(0), 3);
        assert_eq!(encode(0, "x "), Some([1.0, 0.0, 0.0]));
        // Spelt the same before the same number.
        assert_eq!(encode(0, "1.0"), Some([0.0, 0.0, 1.0]));
        assert_eq!(encode(0, "+1"), Some([0.0, 1.0, 0.0]));
        assert_eq!((encode(0, ""), encode(0, "X")), (None, None));
        assert_eq!(encode(1, "X"), Some([1.0, 0.0, 0.0]));
    }

    #[test]
    fn labels_that_are_not_declared_are_those_of_the_null_row() {
        let domain = matrix(0.0, 1.0, Storage::Dense);
        let encoder = Encoder::new(&domain);
        let labels = ["1", "+1.0", "-1", "", "2", "nan", "inf", "yes"].map(|label| encoder.label(label.as_bytes()));
        assert_eq!(labels[..3], [1, 1, 0]);
        assert!(labels[3..].iter().all(|&label| label == NULL_LABEL));
        assert_eq!((encoder.label_number(-1.0), encoder.label_number(f64::NAN)), (0, NULL_LABEL));
        let mut domain = domain.clone();
        domain.label = Label::Number(Bounds::new(0.0, 4.0).unwrap());
        let encoder = Encoder::new(&domain);
        for (text, value) in [("3", 0.5), ("1e300", 1.0), ("-inf", -1.0)] {
            assert_eq!(f32::from_bits(encoder.label(text.as_bytes())), value);
        }
        assert_eq!((encoder.label(b"x"), encoder.label(b"nan")), (NULL_LABEL, NULL_LABEL));
        assert!(f32::from_bits(NULL_LABEL).is_nan());
    }

    #[test]
    fn matrices_are_scaled_where_0_stays_0_and_mapped_onto_the_unit_interval_otherwise() {
        let encode = |lo, hi, storage, raw: Features| Encoder::new(&matrix(lo, hi, storage)).matrix(raw);
        let raw = || Features::f32(vec![f32::NAN, 5.0, -1e30, f32::INFINITY], 2);
        let dense = |lo, hi| encode(lo, hi, Storage::Dense, raw());
        assert_eq!(dense(-1.0, 1.0), Features::f32(vec![0.0, 1.0, -1.0, 1.0], 2));
        assert_eq!(dense(-10.0, 5.0), Features::f32(vec![0.0, 0.5, -1.0, 0.5], 2));
        assert_eq!(dense(4.0, 8.0), Features::f32(vec![-1.0, -0.5, -1.0, 1.0], 2));
        let sparse = Features::Sparse(SparseMatrix {
            offsets: vec![0, 1, 3],
            indices: vec![1, 0, 1],
            values: vec![0.5, -1.0, 0.5],
            columns: 2,
        });
        assert_eq!(encode(-10.0, 5.0, Storage::Sparse, raw()), sparse);
        let bytes = || Features::bytes(&[0, 255, 51, 102], 2, 1.0);
        let scaled = Features::bytes(&[0, 255, 51, 102], 2, 1.0 / 255.0);
        assert_eq!(encode(0.0, 255.0, Storage::Bytes, bytes()), scaled);
        assert_eq!(encode(0.0, 102.0, Storage::Dense, bytes()), Features::f32(vec![0.0, 1.0, 0.5, 1.0], 2));
        let numbers = Features::f32(vec![f32::NAN, 1e9, 51.4, -3.0], 2);
        let scaled = Features::bytes(&[0, 255, 51, 0], 2, 1.0 / 255.0);
        assert_eq!(encode(0.0, 255.0, Storage::Bytes, numbers), scaled);
    }

    #[test]
    fn null_rows_have_no_features_in_any_format() {
        let finish = |storage, features| {
            let domain = matrix(0.0, if storage == Storage::Bytes { 255.0 } else { 1.0 }, storage);
            Encoder::new(&domain).finish(features, vec![1, NULL_LABEL, 0])
        };
        let values = vec![0.5, 1.0, 0.5, 1.0, 0.5, 1.0];
        let (features, labels) = finish(Storage::Dense, Features::f32(values.clone(), 2));
        assert_eq!(features, Features::f32(vec![0.5, 1.0, 0.0, 0.0, 0.5, 1.0], 2));
        assert!(labels.targets().is_null(1) && !labels.targets().is_null(2));
        let (features, _) = finish(Storage::Bytes, Features::bytes(&[1, 2, 3, 4, 5, 6], 2, BYTE_SCALE));
        assert_eq!(features, Features::bytes(&[1, 2, 0, 0, 5, 6], 2, BYTE_SCALE));
        let (features, _) = finish(Storage::Sparse, stored_as(Storage::Sparse, values.into(), 2));
        let Features::Sparse(sparse) = features else { panic!("sparse") };
        assert_eq!((sparse.offsets, sparse.values), (vec![0, 2, 2, 4], vec![0.5, 1.0, 0.5, 1.0]));
    }
}
