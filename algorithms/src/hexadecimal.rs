//! Hexadecimal digits of digests.

/// Lower-case hexadecimal digits, two a byte.
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
