//! What of a process stands in memory.

use nix::sys::mman::{MmapAdvise, madvise};
use std::ffi::c_void;
use std::ptr::NonNull;

/// Lets go of the pages of program code, and of the constants before it, that a long-lived process
/// used before it began to wait; they come back from the page cache when they are used again.
/// Returns the octets let go of.
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
    fn code_runs_on() {
        assert!(forget_code() > 0);
        assert!(forget_code() > 0, "it can be done again");
    }
}
