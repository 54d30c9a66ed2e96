//! What of a process stands in memory.

use nix::sys::mman::{MmapAdvise, madvise};
use std::ffi::c_void;
use std::ptr::NonNull;

/// Calls of [`IdleDetector::is_due`] without anything new until a process counts as waiting.
const QUIET: u32 = 3;

/// Says when a long-lived process that has done something has come to rest again, so that it may
/// give back what only work needs.
#[derive(Debug)]
pub struct IdleDetector {
    quiet: u32,
    warm: bool,
}

impl Default for IdleDetector {
    /// A process that has just begun: its beginning was work.
    fn default() -> IdleDetector {
        IdleDetector {
            quiet: 0,
            warm: true,
        }
    }
}

impl IdleDetector {
    /// To be called about once a second with whether anything was done since the last call. True
    /// once after each time of work, when three calls in a row have told of none.
    pub fn is_due(&mut self, worked: bool) -> bool {
        if worked {
            *self = IdleDetector::default();
            return false;
        }
        self.quiet = self.quiet.saturating_add(1);
        self.quiet >= QUIET && std::mem::take(&mut self.warm)
    }
}

/// Gives back what a process that waits does not need: memory that was freed and that the allocator
/// keeps, and program code.
pub fn trim_memory() {
    trim();
    forget_code();
}

/// Hands freed memory back to the system, wherever in the heap it lies.
#[cfg(target_env = "gnu")]
fn trim() {
    // SAFETY: the allocator of the C library locks its own structures and touches only what is free.
    #[allow(unsafe_code)]
    unsafe {
        nix::libc::malloc_trim(0);
    }
}

/// Bytes that [`keep_freed`] keeps.
const KEPT: i32 = 3 << 20;

/// Has the allocator keep some MiB that are freed, rather than hand them back and ask for them again with
/// every large buffer, each page to be cleared anew. [`trim_memory`] hands them back at rest.
#[cfg(target_env = "gnu")]
pub fn keep_freed() {
    // SAFETY: only sets two limits of the allocator, which locks itself.
    #[allow(unsafe_code)]
    unsafe {
        nix::libc::mallopt(nix::libc::M_MMAP_THRESHOLD, KEPT);
        nix::libc::mallopt(nix::libc::M_TRIM_THRESHOLD, KEPT);
    }
}

/// Other C libraries have no such limits.
#[cfg(not(target_env = "gnu"))]
pub fn keep_freed() {}

/// Other C libraries hand memory back as it is freed.
#[cfg(not(target_env = "gnu"))]
fn trim() {}

/// Lets go of the pages of program code, and of the constants before it, that a long-lived process
/// used before it began to wait; they come back from the page cache when they are used again.
/// Returns the bytes let go of.
pub fn forget_code() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let ranges = maps.lines().filter_map(code);
    ranges.map(|(at, len)| forget(at, len)).sum()
}

/// Address and length of a mapping of code that comes from a file, or of the part of such a file that
/// begins with its head. Neither is ever written, unlike what the loader adapts behind them.
fn code(line: &str) -> Option<(usize, usize)> {
    let mut words = line.split_whitespace();
    let (range, mode, offset) = (words.next()?, words.next()?, words.next()?);
    let file = words.nth(2)?;
    let constants = mode == "r--p" && offset.bytes().all(|b| b == b'0');
    if !(mode == "r-xp" || constants) || !file.starts_with('/') {
        return None;
    }
    let (from, to) = range.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    let (from, to) = (number(from)?, number(to)?);
    Some((from, to.checked_sub(from)?))
}

#[allow(unsafe_code)]
fn forget(at: usize, len: usize) -> usize {
    let Some(address) = NonNull::new(at as *mut c_void) else {
        return 0;
    };
    // SAFETY: the kernel named this range as code or constants of a file, which nobody writes. Its pages are
    // those of the file, so that whatever reads or runs them later finds the same again.
    match unsafe { madvise(address, len, MmapAdvise::MADV_DONTNEED) } {
        Ok(()) => len,
        Err(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_of_files_is_meant() {
        let line = |mode: &str, file: &str| format!("1000-3000 {mode} 00007000 fe:00 77   {file}");
        assert_eq!(code(&line("r-xp", "/usr/bin/x")), Some((0x1000, 0x2000)));
        assert_eq!(code(&line("r--p", "/usr/bin/x")), None);
        let head = line("r--p", "/usr/bin/x").replace("7000", "0000");
        assert_eq!(code(&head), Some((0x1000, 0x2000)));
        assert_eq!(code(&line("rw-p", "/usr/bin/x")), None);
        assert_eq!(code(&line("r-xp", "[vdso]")), None);
        assert_eq!(code("1000-3000 r-xp 00000000 00:00 0"), None);
    }

    #[test]
    fn rest_comes_once_after_work() {
        let mut rest = IdleDetector::default();
        let mut calls =
            |worked: &[bool]| -> Vec<bool> { worked.iter().map(|w| rest.is_due(*w)).collect() };
        assert_eq!(calls(&[false; 5]), [false, false, true, false, false]);
        assert_eq!(calls(&[true, false, false, true]), [false; 4]);
        assert_eq!(calls(&[false; 5]), [false, false, true, false, false]);
    }

    #[test]
    fn what_is_in_use_stays() {
        let held: Vec<Vec<u8>> = (0..1000u32).map(|n| vec![n as u8; 3000]).collect();
        drop(held.iter().map(Vec::clone).collect::<Vec<_>>());
        trim_memory();
        assert!((0..1000u32).all(|n| held[n as usize] == vec![n as u8; 3000]));
    }

    #[test]
    fn code_runs_on() {
        assert!(forget_code() > 0);
        assert!(forget_code() > 0, "it can be done again");
    }
}
