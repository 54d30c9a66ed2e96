//! What of a process stands in memory.

use nix::sys::mman::{MmapAdvise, madvise};
use std::ffi::c_void;
use std::ptr::NonNull;

/// Lets go of the pages of program code that only the start of a long-lived process needed; they
/// come back from the page cache when they are used again. Returns the octets let go of.
pub fn forget_code() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    maps.lines()
        .filter_map(code)
        .map(|(at, len)| forget(at, len))
        .sum()
}

/// Address and length of a mapping of code that comes from a file and cannot be written.
fn code(line: &str) -> Option<(usize, usize)> {
    let mut words = line.split_whitespace();
    let (range, mode) = (words.next()?, words.next()?);
    let file = words.nth(3)?;
    if mode != "r-xp" || !file.starts_with('/') {
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
    // SAFETY: the kernel named this range as code of a file that is never written. Its pages are those of
    // the file, so that whatever reads or runs them later finds the same again.
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
        let line = |mode: &str, file: &str| format!("1000-3000 {mode} 00000000 fe:00 77   {file}");
        assert_eq!(code(&line("r-xp", "/usr/bin/x")), Some((0x1000, 0x2000)));
        assert_eq!(code(&line("r--p", "/usr/bin/x")), None);
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
