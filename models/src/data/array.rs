//! Arrays of a header and elements, as IDX and NPY files hold them: a file is checked against its header before memory is
//! reserved for its elements, and bytes stay bytes.
//!
//! Crates for these formats reserve memory for a whole array on the word of its header, and convert bytes.

use crate::data::capacity::reserve_promised;
use crate::data::error::DataError;
use crate::data::ids::Ids;
use crate::data::labels::{RawLabels, Words};
use crate::data::source::Source;
use rounds_algorithms::problem::{Buffer, ByteRows, Features};

/// Bytes that are read at a time, whole elements.
pub(super) const BLOCK: usize = 1 << 19;

/// Type of an element: bytes that are 0 or not, integers and IEEE 754 numbers of so many bits, and words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    Bool,
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    U64,
    I64,
    F32,
    F64,
    /// Up to so many bytes, zeros behind them.
    Bytes(usize),
    /// Up to so many characters of four bytes, zeros behind them.
    Characters(usize),
}

impl Element {
    pub(super) fn bytes(self) -> usize {
        match self {
            Self::Bool | Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
            Self::Bytes(length) => length,
            Self::Characters(length) => 4 * length,
        }
    }

    pub(super) fn is_word(self) -> bool {
        matches!(self, Self::Bytes(_) | Self::Characters(_))
    }

    /// The word in an element's bytes; a character that is none becomes the replacement character.
    fn word(self, big_endian: bool, bytes: &[u8]) -> Vec<u8> {
        let Self::Characters(_) = self else {
            let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
            return bytes[..end].to_vec();
        };
        let character = |&bytes: &[u8; 4]| {
            let code = if big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) };
            char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
        };
        let text: String = bytes.as_chunks::<4>().0.iter().map(character).collect();
        text.trim_end_matches('\0').as_bytes().to_vec()
    }

    /// The text of an element that is an integer or a word.
    fn id(self, big_endian: bool, bytes: &[u8]) -> Vec<u8> {
        if self.is_word() {
            return self.word(big_endian, bytes);
        }
        let digits = |bits: i128, &byte: &u8| bits << 8 | i128::from(byte);
        let bits = if big_endian { bytes.iter().fold(0, digits) } else { bytes.iter().rev().fold(0, digits) };
        let unused = 128 - 8 * bytes.len();
        let is_signed = matches!(self, Self::I8 | Self::I16 | Self::I32 | Self::I64);
        (if is_signed { bits << unused >> unused } else { bits }).to_string().into_bytes()
    }

    /// Appends the elements in `bytes`, each rounded to the nearest f32.
    fn decode(self, big_endian: bool, bytes: &[u8], out: &mut Vec<f32>) {
        fn extend<const N: usize>(bytes: &[u8], out: &mut Vec<f32>, swap: bool, number: impl Fn([u8; N]) -> f32) {
            out.extend(bytes.as_chunks::<N>().0.iter().map(|&(mut element)| {
                if swap {
                    element.reverse();
                }
                number(element)
            }));
        }
        match self {
            Self::Bool => extend(bytes, out, false, |[byte]| f32::from(u8::from(byte != 0))),
            Self::U8 => extend(bytes, out, false, |[byte]| f32::from(byte)),
            Self::I8 => extend(bytes, out, false, |element| f32::from(i8::from_le_bytes(element))),
            Self::U16 => extend(bytes, out, big_endian, |element| f32::from(u16::from_le_bytes(element))),
            Self::I16 => extend(bytes, out, big_endian, |element| f32::from(i16::from_le_bytes(element))),
            Self::U32 => extend(bytes, out, big_endian, |element| u32::from_le_bytes(element) as f32),
            Self::I32 => extend(bytes, out, big_endian, |element| i32::from_le_bytes(element) as f32),
            Self::U64 => extend(bytes, out, big_endian, |element| u64::from_le_bytes(element) as f32),
            Self::I64 => extend(bytes, out, big_endian, |element| i64::from_le_bytes(element) as f32),
            Self::F32 => extend(bytes, out, big_endian, f32::from_le_bytes),
            Self::F64 => extend(bytes, out, big_endian, |element| f64::from_le_bytes(element) as f32),
            Self::Bytes(_) | Self::Characters(_) => unreachable!("words are no features"),
        }
    }
}

/// The promises of a header that its file can keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) element: Element,
    pub(super) big_endian: bool,
    /// The elements run down the columns.
    pub(super) fortran_order: bool,
    /// One to eight dimensions, none of them empty.
    pub(super) shape: Vec<usize>,
    /// Bytes before the elements.
    pub(super) start: usize,
}

impl Header {
    /// Checks the header of `source`: afterwards the file is known to be as long as it must be, or packed and able to be.
    ///
    /// # Errors
    /// Shapes without elements or impossibly large, and files of another size.
    pub(super) fn checked(self, source: &Source<'_>) -> Result<Self, DataError> {
        let multiply = |total: u128, &size: &usize| total.checked_mul(size as u128);
        let elements = self.shape.iter().try_fold(self.element.bytes() as u128, multiply);
        let elements = elements.filter(|_| (1..=8).contains(&self.shape.len()) && !self.shape.contains(&0));
        let Some(bytes) = elements else {
            let found: String = format!("the shape {:?}", self.shape).chars().take(90).collect();
            let expected = "one to eight dimensions, none of them empty or impossibly large";
            return Err(DataError::header(source.path(), found, expected));
        };
        source.check_promise(bytes.saturating_add(self.start as u128))?;
        Ok(self)
    }

    pub(super) fn rows(&self) -> usize {
        self.shape[0]
    }

    /// Elements of a row.
    pub(super) fn columns(&self) -> usize {
        self.shape[1..].iter().product()
    }

    pub(super) fn row_bytes(&self) -> usize {
        self.columns() * self.element.bytes()
    }

    pub(super) fn bytes(&self) -> usize {
        self.rows() * self.row_bytes()
    }

    /// Bytes of the file.
    fn promised(&self) -> u128 {
        (self.start + self.bytes()) as u128
    }

    /// The rows of all elements that follow the header: bytes with `scale`, or f32.
    ///
    /// # Errors
    /// One dimension; files that cannot be read, or are not as long as the header promises.
    pub(super) fn read_features(&self, source: &mut Source<'_>, scale: f32) -> Result<Features, DataError> {
        if self.shape.len() < 2 {
            let expected = "features of two dimensions or more (one dimension holds labels)";
            return Err(DataError::header(source.path(), format_args!("the shape {:?}", self.shape), expected));
        }
        if self.element.is_word() {
            let expected = "features that are numbers; encode words as columns of 0 and 1, or write the table as CSV";
            return Err(DataError::header(source.path(), "words", expected));
        }
        let mut rows = Rows::new(self, source.justified_bytes(), scale);
        self.for_each_block(source, |bytes| rows.extend(bytes))?;
        Ok(rows.features)
    }

    /// Calls `take` with the bytes of all elements, a block at a time.
    ///
    /// # Errors
    /// Files that cannot be read, or are not as long as the header promises.
    pub(super) fn for_each_block(&self, source: &mut Source<'_>, mut take: impl FnMut(&[u8])) -> Result<(), DataError> {
        let mut left = self.bytes();
        let size = self.element.bytes();
        let most = (BLOCK / size).max(1) * size;
        let mut block = Vec::with_capacity(left.min(most));
        while left > 0 {
            block.clear();
            let wanted = left.min(most);
            let read = source.read_up_to(wanted, &mut block)?;
            if read < wanted {
                let found = self.promised() - (left - read) as u128;
                return Err(DataError::size(source.path(), self.promised(), found));
            }
            take(&block);
            left -= wanted;
        }
        source.expect_end(self.promised())
    }

    /// All elements as numbers.
    fn read_numbers(&self, source: &mut Source<'_>) -> Result<Vec<f32>, DataError> {
        let mut numbers = Vec::new();
        let justified = source.justified_bytes() / self.element.bytes();
        self.for_each_block(source, |bytes| {
            let more = bytes.len() / self.element.bytes();
            reserve_promised(&mut numbers, more, self.rows() * self.columns(), justified);
            self.element.decode(self.big_endian, bytes, &mut numbers);
        })?;
        Ok(numbers)
    }

    /// All elements as labels: numbers, or words.
    pub(super) fn read_labels(&self, source: &mut Source<'_>) -> Result<RawLabels, DataError> {
        if !self.element.is_word() {
            return self.read_numbers(source).map(RawLabels::Numbers);
        }
        let (mut words, mut rows) = (Words::default(), Vec::new());
        self.for_each_block(source, |bytes| {
            let elements = bytes.chunks_exact(self.element.bytes());
            rows.extend(elements.map(|bytes| words.index(&self.element.word(self.big_endian, bytes))));
        })?;
        Ok(words.labels(rows))
    }

    /// All elements as ids of units.
    pub(super) fn read_ids(&self, source: &mut Source<'_>) -> Result<Ids, DataError> {
        if matches!(self.element, Element::F32 | Element::F64) {
            let found = format_args!("the element type {:?}", self.element);
            return Err(DataError::header(source.path(), found, "ids of units that are integers or words"));
        }
        let mut ids = Ids::default();
        self.for_each_block(source, |bytes| {
            let elements = bytes.chunks_exact(self.element.bytes());
            elements.for_each(|bytes| ids.take(&self.element.id(self.big_endian, bytes)));
        })?;
        Ok(ids)
    }
}

/// Rows in C order, from elements in the order of the file.
pub(super) struct Rows {
    pub(super) features: Features,
    header: Header,
    /// Bytes for which capacity may be reserved before they have arrived.
    justified: usize,
    /// Elements so far.
    filled: usize,
    numbers: Vec<f32>,
}

impl Rows {
    /// No rows of the many that `header` promises, of which the file's size justifies `justified` bytes; bytes have `scale`.
    pub(super) fn new(header: &Header, justified: usize, scale: f32) -> Self {
        // Elements that run down the columns overwrite zeros.
        let (rows, columns) = (if header.fortran_order { header.rows() } else { 0 }, header.columns());
        Self {
            features: if header.element == Element::U8 {
                let rows = ByteRows::zeroed(rows, columns);
                Features::U8 { rows, scale }
            } else {
                Features::f32(Buffer::zeroed(rows * columns), columns)
            },
            header: header.clone(),
            justified,
            filled: 0,
            numbers: Vec::new(),
        }
    }

    pub(super) fn extend(&mut self, bytes: &[u8]) {
        let (rows, size) = (self.header.rows(), self.header.element.bytes());
        let promised = rows * self.header.columns();
        match &mut self.features {
            Features::U8 { rows: values, .. } if self.header.fortran_order => {
                let (memory, stride) = values.memory_mut();
                transpose(memory, stride, rows, self.filled, bytes);
            }
            Features::U8 { rows: values, .. } => {
                reserve_promised(values, bytes.len(), promised, self.justified);
                values.extend_from_slice(bytes);
            }
            Features::F32 { values, .. } => {
                self.numbers.clear();
                let big_endian = self.header.big_endian;
                self.header.element.decode(big_endian, bytes, &mut self.numbers);
                if self.header.fortran_order {
                    transpose(values, self.header.columns(), rows, self.filled, &self.numbers);
                } else {
                    reserve_promised(values, self.numbers.len(), promised, self.justified / size);
                    values.extend_from_slice(&self.numbers);
                }
            }
            Features::Sparse(_) => unreachable!("arrays are dense"),
        }
        self.filled += bytes.len() / size;
    }
}

/// Writes `block`, elements in the order of columns of which `filled` came before, to rows that lie `stride` apart.
fn transpose<T: Copy>(memory: &mut [T], stride: usize, rows: usize, filled: usize, block: &[T]) {
    let (mut column, mut row) = (filled / rows, filled % rows);
    for &value in block {
        memory[row * stride + column] = value;
        row += 1;
        if row == rows {
            (row, column) = (0, column + 1);
        }
    }
}
