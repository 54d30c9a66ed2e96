//! How much of the thread's stack is in use, so that no template can end the process by nesting.

/// Where the stack is now: an address within the caller's reach.
#[inline(never)]
pub fn pointer() -> usize {
    let mark = 0u8;
    std::hint::black_box(&raw const mark) as usize
}

/// Whether the stack has grown by more than `limit` bytes since it was at `base`.
pub fn exceeded(base: usize, limit: usize) -> bool {
    base.abs_diff(pointer()) > limit
}
