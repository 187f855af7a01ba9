//! Parquet: tables are read as the text of the CSV file that they would be, some rows at a time, so that the reader of CSV finds,
//! drafts and encodes their columns. The crate that reads them is large; the cargo feature `parquet` adds it.

#[cfg(not(feature = "parquet"))]
use crate::data::{error::DataError, source::Source};

#[cfg(not(feature = "parquet"))]
pub(super) fn open(source: &Source<'_>) -> Result<Source<'static>, DataError> {
    let problem = "a Parquet file, which this build does not read: build it with cargo's feature parquet, \
                   or write the table as CSV (in pandas: frame.to_csv('table.csv', index=False))";
    Err(DataError::file(source.path(), problem))
}

#[cfg(feature = "parquet")]
pub(super) use reading::open;

#[cfg(feature = "parquet")]
mod reading {
    use std::fmt::Write as _;
    use std::fs::File;
    use std::io::{self, Read};

    use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type};
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::record::Field;
    use parquet::record::reader::RowIter;
    use parquet::schema::types::ColumnDescriptor;

    use crate::data::error::DataError;
    use crate::data::source::{Compression, Source, damaged};

    /// Rows that become text at a time.
    const ROWS: usize = 1024;

    /// The text of the file that `source` has opened.
    pub(in super::super) fn open(source: &Source<'_>) -> Result<Source<'static>, DataError> {
        let path = source.path();
        let file = File::open(path).map_err(DataError::read(path))?;
        let reader = SerializedFileReader::new(file).map_err(|error| damaged(path, "Parquet", &error))?;
        let columns = reader.metadata().file_metadata().schema_descr().columns();
        if let Some(nested) = columns.iter().find(|column| !is_readable(column)) {
            let problem = format!(
                "column {:?} is nested or of a type that has no text; write the table without it",
                nested.path().string()
            );
            return Err(DataError::contents(path, problem));
        }
        let in_nanoseconds = columns.iter().map(|column| is_in_nanoseconds(column)).collect();
        let mut text = Vec::new();
        end_with(&mut text, columns.iter().map(|column| column.name()));
        let text = Text { in_nanoseconds, rows: reader.into_iter(), bytes: text, read: 0 };
        Ok(Source::entry(path.into(), source.file_bytes, Compression::Parquet, text))
    }

    /// A column has one value a row, of a type that the crate's reader of rows converts.
    fn is_readable(column: &ColumnDescriptor) -> bool {
        use ConvertedType as As;
        let is_flat = column.path().parts().len() == 1 && column.max_rep_level() == 0;
        let is_known = match column.physical_type() {
            Type::INT32 => {
                !matches!(column.converted_type(), As::INT_64 | As::UINT_64 | As::TIME_MICROS | As::INTERVAL)
            }
            Type::INT64 => matches!(
                column.converted_type(),
                As::NONE
                    | As::INT_64
                    | As::UINT_64
                    | As::TIME_MICROS
                    | As::TIMESTAMP_MILLIS
                    | As::TIMESTAMP_MICROS
                    | As::DECIMAL
            ),
            Type::BYTE_ARRAY => matches!(column.converted_type(), As::UTF8 | As::ENUM | As::JSON | As::DECIMAL),
            Type::FIXED_LEN_BYTE_ARRAY => {
                column.converted_type() == As::DECIMAL || column.logical_type_ref() == Some(&LogicalType::Float16)
            }
            Type::BOOLEAN | Type::INT96 | Type::FLOAT | Type::DOUBLE => true,
        };
        is_flat && is_known
    }

    /// Times of nanoseconds are integers to the crate's reader.
    fn is_in_nanoseconds(column: &ColumnDescriptor) -> bool {
        let logical = column.logical_type_ref();
        matches!(logical, Some(LogicalType::Timestamp(time)) if time.unit == TimeUnit::NANOS)
    }

    /// Rows that become text as they are read.
    struct Text {
        rows: RowIter<'static>,
        in_nanoseconds: Vec<bool>,
        bytes: Vec<u8>,
        /// Those of `bytes` that were handed on.
        read: usize,
    }

    impl Text {
        fn next_rows(&mut self) -> io::Result<()> {
            self.bytes.clear();
            self.read = 0;
            for row in self.rows.by_ref().take(ROWS) {
                // The crate's message quotes values.
                let row = row.map_err(|_| io::Error::other("a page does not hold what its header says"))?;
                let fields = row.get_column_iter().zip(&self.in_nanoseconds);
                end_with(&mut self.bytes, fields.map(|((_, field), &nanoseconds)| written(field, nanoseconds)));
            }
            Ok(())
        }
    }

    impl Read for Text {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.read == self.bytes.len() {
                self.next_rows()?;
            }
            let read = (&self.bytes[self.read..]).read(buffer)?;
            self.read += read;
            Ok(read)
        }
    }

    /// A field's text; nothing for a null.
    fn written(field: &Field, nanoseconds: bool) -> String {
        match field {
            Field::Null => String::new(),
            Field::Str(text) => text.clone(),
            Field::Float(number) => number.to_string(),
            Field::Double(number) => number.to_string(),
            Field::Long(number) if nanoseconds => jiff::Timestamp::from_nanosecond(i128::from(*number))
                .map_or_else(|_| String::new(), |time| time.to_string()),
            // The crate panics at times that its calendar lacks.
            Field::Date(days) if jiff::Timestamp::from_second(i64::from(*days) * 86_400).is_err() => String::new(),
            Field::TimestampMillis(time) if jiff::Timestamp::from_millisecond(*time).is_err() => String::new(),
            Field::TimestampMicros(time) if jiff::Timestamp::from_microsecond(*time).is_err() => String::new(),
            field => field.to_string(),
        }
    }

    /// Appends a line of quoted fields. A line feed in a field becomes a blank: rows are lines.
    fn end_with(text: &mut Vec<u8>, fields: impl Iterator<Item = impl AsRef<str>>) {
        let mut line = String::new();
        for field in fields {
            let field = field.as_ref().replace('"', "\"\"").replace(['\n', '\r'], " ");
            write!(line, "\"{field}\",").expect("memory takes text");
        }
        line.pop();
        text.extend_from_slice(line.as_bytes());
        text.push(b'\n');
    }
}
