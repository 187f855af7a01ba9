//! Tests that measure the memory of their process: a binary with an allocator of its own, and one test at a time.

use std::sync::{Mutex, MutexGuard, PoisonError};

use peak_alloc::PeakAlloc;

mod data_mutations;
#[expect(dead_code, reason = "a part of the builders is for other test binaries")]
#[path = "../all/files.rs"]
mod files;
mod peak;

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

/// Held by a test that measures: peaks are those of the whole process.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
