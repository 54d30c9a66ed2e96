//! Tells text from other data, as stock does.

use super::paths;
use halite_sys::safe_open::open_finite;
use std::io::Read;
use std::path::Path;

/// Whether bytes look binary (`salt/utils/stringutils.py is_binary`).
pub fn is_binary(data: &[u8]) -> bool {
    if data.is_empty() {
        return false;
    }
    if data.contains(&0) {
        return true;
    }
    let wide = match std::str::from_utf8(data) {
        Ok(_) => true,
        Err(e) => e.error_len().is_none(),
    };
    let is_text = |b: &u8| match b {
        32..=126 | b'\n' | b'\r' | b'\t' | 0x0c | 0x08 => true,
        128..=254 => wide,
        _ => false,
    };
    let other = data.iter().filter(|b| !is_text(b)).count();
    other as f64 / data.len() as f64 > 0.30
}

/// The first bytes of a file.
fn head(path: &str, count: u64) -> Option<Vec<u8>> {
    let mut data = Vec::new();
    let file = open_finite(Path::new(path)).ok()?;
    file.take(count).read_to_end(&mut data).ok()?;
    Some(data)
}

/// `salt/utils/files.py is_text`.
pub fn is_text(path: &str) -> bool {
    head(path, 512).is_some_and(|data| !is_binary(&data))
}

/// `salt/utils/files.py is_binary`.
pub fn is_binary_file(path: &str) -> bool {
    paths::is_file(path) && head(path, 2048).is_some_and(|data| is_binary(&data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_or_not() {
        assert!(!is_binary(b"abc\n"));
        assert!(is_binary(b"a\0b"));
        assert!(is_binary(b"\x01\x02\x03a"));
        assert!(!is_binary("h\u{e9}h\u{e9}".as_bytes()));
        assert!(is_binary(b"\xff\xfe\xfd"));
    }
}
