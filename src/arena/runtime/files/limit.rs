//! The size limit of a module (`module_size`).

use std::io::Read;

/// Reads to the end, up to a limit.
///
/// # Errors
/// There are more than `most` bytes, or reading fails.
pub(super) fn read(source: impl Read, most: usize) -> Result<Vec<u8>, String> {
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    let mut content = Vec::new();
    let read = source.take(limit).read_to_end(&mut content);
    read.map_err(|e| e.to_string())?;
    if content.len() > most {
        return Err(too_large(most));
    }
    Ok(content)
}

/// The error for a file that is too large.
pub(super) fn too_large(most: usize) -> String {
    format!("it is larger than {most} bytes (module_size)")
}
