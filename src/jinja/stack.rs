//! Measures the use of the thread's stack, so that nested templates cannot crash the process.

/// The current stack position: an address in the caller's frame.
#[inline(never)]
pub fn pointer() -> usize {
    let mark = 0u8;
    std::hint::black_box(&raw const mark) as usize
}

/// Whether the stack has grown by more than `limit` bytes since `base`.
pub fn exceeded(base: usize, limit: usize) -> bool {
    base.abs_diff(pointer()) > limit
}
