//! The beginning of a frame, until the rest of it arrives.

/// Bytes that are held between two reads of a stream.
#[derive(Debug, Default)]
pub(crate) struct Incomplete(Vec<u8>);

impl Incomplete {
    /// Bytes that are held.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Passes what is held and `bytes` to `decode`, which returns the number of bytes that it has consumed, and holds the rest.
    ///
    /// # Errors
    /// That of `decode`.
    pub fn feed<E>(
        &mut self,
        bytes: &[u8],
        decode: impl FnOnce(&[u8]) -> Result<usize, E>,
    ) -> Result<(), E> {
        let mut held = std::mem::take(&mut self.0);
        if held.is_empty() {
            let used = decode(bytes)?;
            held.extend_from_slice(bytes.get(used..).unwrap_or_default());
        } else {
            held.extend_from_slice(bytes);
            let used = decode(&held)?;
            // A small rest does not keep the memory of a large frame.
            if used > 0 {
                held = held.get(used..).unwrap_or_default().to_vec();
            }
        }
        self.0 = held;
        Ok(())
    }
}
