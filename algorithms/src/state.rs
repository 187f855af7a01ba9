//! The content of a checkpoint: every stateful object names its buffers to a visitor, which saves or restores them.

/// Saves or restores named values; an object visits the same names in the same order both times.
pub trait StateVisitor {
    /// A counter.
    fn u64(&mut self, name: &str, value: &mut u64);
    /// An f32 vector of fixed length.
    fn f32s(&mut self, name: &str, values: &mut [f32]);
    /// An f64 vector of fixed length.
    fn f64s(&mut self, name: &str, values: &mut [f64]);
}
