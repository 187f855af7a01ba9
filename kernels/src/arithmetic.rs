//! The floating-point mode of a thread.

/// Sets the processor's default arithmetic for this thread: rounding to nearest, with subnormal numbers. A foreign library may have changed that
/// for some threads of a process and not for others; a row would then have other bits where a neighbour moves it to another thread.
pub fn use_default_mode() {
    mode::exchanged(mode::DEFAULT);
}

/// Runs `work` in the [default mode](use_default_mode), and leaves that of the thread as it was.
pub fn in_default_mode<R>(work: impl FnOnce() -> R) -> R {
    let _restored = Restored(mode::exchanged(mode::DEFAULT));
    work()
}

/// The mode that a thread had.
struct Restored(mode::Mode);

impl Drop for Restored {
    fn drop(&mut self) {
        mode::exchanged(self.0);
    }
}

#[cfg(target_arch = "x86_64")]
mod mode {
    use std::arch::asm;

    pub(super) type Mode = u32;

    /// All exceptions masked, to nearest, no flush to zero.
    pub(super) const DEFAULT: Mode = 0x1f80;

    /// Sets the mode of this thread; the one before.
    pub(super) fn exchanged(mode: Mode) -> Mode {
        let mut before = 0;
        // SAFETY: the register is stored and loaded; masked exceptions raise no signals.
        unsafe {
            asm!("stmxcsr [{}]", "ldmxcsr [{}]", in(reg) &raw mut before, in(reg) &raw const mode, options(nostack));
        };
        before
    }
}

#[cfg(target_arch = "aarch64")]
mod mode {
    use std::arch::asm;

    pub(super) type Mode = u64;

    pub(super) const DEFAULT: Mode = 0;

    /// Sets the mode of this thread; the one before.
    pub(super) fn exchanged(mode: Mode) -> Mode {
        let before: Mode;
        // SAFETY: the register is read and written; without traps no exception raises a signal.
        unsafe {
            asm!("mrs {before}, fpcr", "msr fpcr, {mode}", before = out(reg) before, mode = in(reg) mode, options(nostack));
        };
        before
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod mode {
    pub(super) type Mode = ();

    pub(super) const DEFAULT: Mode = ();

    pub(super) fn exchanged((): Mode) -> Mode {}
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[test]
    fn work_has_subnormal_numbers_where_a_library_turned_them_off_and_leaves_that_as_it_is() {
        let half = || black_box(f32::MIN_POSITIVE) * black_box(0.5);
        // Flush to zero, and subnormal operands as zero.
        let before = mode::exchanged(0x9fc0);
        let found = (half(), in_default_mode(half), half());
        mode::exchanged(before);
        assert_eq!(found, (0.0, f32::MIN_POSITIVE / 2.0, 0.0));
        assert_eq!(half(), f32::MIN_POSITIVE / 2.0);
    }
}
