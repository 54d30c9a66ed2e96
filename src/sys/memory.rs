//! Memory use of this process.

use nix::sys::mman::{MmapAdvise, madvise};
use std::ffi::c_void;
use std::ptr::NonNull;

/// Consecutive idle calls of [`IdleDetector::is_due`] after which a process counts as idle.
const QUIET: u32 = 3;

/// Detects when a long-lived process becomes idle after work, so that it can free memory needed for work only.
#[derive(Debug)]
pub struct IdleDetector {
    quiet: u32,
    warm: bool,
}

impl Default for IdleDetector {
    /// A process that has just started: startup counts as work.
    fn default() -> IdleDetector {
        IdleDetector {
            quiet: 0,
            warm: true,
        }
    }
}

impl IdleDetector {
    /// Call about once a second with whether anything was done since the last call. Returns true once after
    /// each period of work, at the third idle call in a row.
    pub fn is_due(&mut self, worked: bool) -> bool {
        if worked {
            *self = IdleDetector::default();
            return false;
        }
        self.quiet = self.quiet.saturating_add(1);
        self.quiet >= QUIET && std::mem::take(&mut self.warm)
    }
}

/// Limits the memory that this process and its children can have of their own: an allocation beyond it fails, which
/// ends the process instead of others of the host. A lower limit stays.
///
/// # Errors
/// The limit cannot be set.
pub fn limit_memory(bytes: u64) -> std::io::Result<()> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (soft, hard) = getrlimit(Resource::RLIMIT_DATA)?;
    Ok(setrlimit(Resource::RLIMIT_DATA, bytes.min(soft), hard)?)
}

/// Frees what an idle process does not need: memory that the allocator keeps for reuse, and program code.
pub fn trim_memory() {
    trim();
    drop_code_pages();
}

/// Returns freed memory anywhere in the heap to the system.
#[cfg(target_env = "gnu")]
fn trim() {
    // SAFETY: the C library's allocator takes its own locks and touches only free memory.
    #[allow(unsafe_code)]
    unsafe {
        nix::libc::malloc_trim(0);
    }
}

/// Freed bytes that [`keep_freed`] retains.
const KEPT: i32 = 3 << 20;

/// Makes the allocator retain some MiB of freed memory instead of returning it to the system and requesting it
/// again (each page to be zeroed) for every large buffer. [`trim_memory`] returns it when idle.
#[cfg(target_env = "gnu")]
pub fn keep_freed() {
    // SAFETY: only sets two limits of the allocator, which takes its own locks.
    #[allow(unsafe_code)]
    unsafe {
        nix::libc::mallopt(nix::libc::M_MMAP_THRESHOLD, KEPT);
        nix::libc::mallopt(nix::libc::M_TRIM_THRESHOLD, KEPT);
    }
}

/// Other C libraries have no such limits.
#[cfg(not(target_env = "gnu"))]
pub fn keep_freed() {}

/// Other C libraries return memory as it is freed.
#[cfg(not(target_env = "gnu"))]
fn trim() {}

/// Drops pages of program code and constants that a long-lived process used before it became idle; they come
/// back from the page cache on use. Returns the number of bytes dropped.
pub fn drop_code_pages() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let ranges = maps.lines().filter_map(code);
    ranges.map(|(at, len)| drop_pages(at, len)).sum()
}

/// Address and length of a file-backed code mapping, or of the part of such a file that starts with its header.
/// Neither is ever written to, unlike the relocated data behind them.
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
fn drop_pages(at: usize, len: usize) -> usize {
    let Some(address) = NonNull::new(at as *mut c_void) else {
        return 0;
    };
    // SAFETY: the kernel reports this range as code or constants of a file, which nobody writes to. Its pages
    // are those of the file, so later reads and calls find the same content.
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
        assert!(drop_code_pages() > 0);
        assert!(drop_code_pages() > 0, "it can be done again");
    }
}
