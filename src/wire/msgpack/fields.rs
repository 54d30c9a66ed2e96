//! Maps whose keys are text, each there once: envelopes and loads.

use super::{DecodeError, Item, Reader};
use crate::Map;
use crate::budget::{self, Budget};

/// Most fields of a [load](decode_load).
pub(super) const MAX_FIELDS: usize = 256;

/// Decodes exactly one load: a map whose keys are text, each there once. Whoever [looks into it](fields) without decoding
/// it sees the same.
///
/// # Errors
/// It is something else, or exceeds a limit.
pub fn decode_load(bytes: &[u8], mut budget: Budget) -> Result<Map, DecodeError> {
    let mut fields = fields(bytes)?;
    budget.take(2 * fields.left)?;
    let mut out = Vec::with_capacity(fields.left);
    while let Some(field) = fields.next_with(|r| r.value_at(budget::MAX_DEPTH - 1, &mut budget)) {
        let (name, value) = field?;
        out.push((name.into(), value));
    }
    match fields.rest() {
        [] => Ok(Map(out)),
        _ => Err(DecodeError::Trailing),
    }
}

/// The fields of a map, as they stand in its bytes: see [`fields`].
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    reader: Reader<'a>,
    left: usize,
    seen: Vec<&'a str>,
}

/// Reads the fields of a map without decoding their values: each name, and the bytes of its value. The map may be cut short;
/// its last field is then an error.
///
/// # Errors
/// It is not a map, or has too many fields. The fields themselves are errors from the first that is malformed, whose name is
/// not text, or has been there before.
pub fn fields(bytes: &[u8]) -> Result<Fields<'_>, DecodeError> {
    let mut reader = Reader::new(bytes);
    match reader.item()? {
        Item::Map(left) if left <= MAX_FIELDS => Ok(Fields {
            reader,
            left,
            seen: Vec::with_capacity(left),
        }),
        _ => Err(DecodeError::BadFields),
    }
}

impl<'a> Fields<'a> {
    /// What follows the fields read so far.
    pub fn rest(&self) -> &'a [u8] {
        self.reader.rest()
    }

    /// The next field, whose value is taken by `read`; none after an error.
    fn next_with<T>(
        &mut self,
        read: impl FnOnce(&mut Reader<'a>) -> Result<T, DecodeError>,
    ) -> Option<Result<(&'a str, T), DecodeError>> {
        self.left = self.left.checked_sub(1)?;
        let field = self
            .name()
            .and_then(|name| Ok((name, read(&mut self.reader)?)));
        if field.is_err() {
            self.left = 0;
        }
        Some(field)
    }

    fn name(&mut self) -> Result<&'a str, DecodeError> {
        let name = self.reader.item()?.text();
        let new = name.filter(|name| !self.seen.contains(name));
        let new = new.ok_or(DecodeError::BadFields)?;
        self.seen.push(new);
        Ok(new)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(&'a str, &'a [u8]), DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_with(Reader::skip)
    }
}
