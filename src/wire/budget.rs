//! What decoding one document from outside may cost, the same for every format.
//!
//! A decoder asks for values before it allocates them and passes its depth and its budget on to whatever it decodes
//! inside: a document within a document has no limits of its own.

use std::fmt;

/// Deepest nesting of lists and maps, with links followed.
pub const MAX_DEPTH: usize = 100;
/// Values that any document may have, however short it is; in memory some 32 bytes each.
pub const MAX_VALUES: usize = 1 << 18;
/// Bytes of a document for each further value.
const BYTES_PER_VALUE: usize = 4;
/// Text that any document may have once its links are followed, in bytes.
const MAX_TEXT: usize = 32 << 20;
/// Further bytes of text for each byte of the document.
const TEXT_PER_BYTE: usize = 4;

/// The limit that a document exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exceeded {
    /// [`MAX_DEPTH`].
    Depth,
    /// The number of values.
    Values,
    /// Bytes of text.
    Text,
}

impl Exceeded {
    /// What is limited.
    pub fn limit(self) -> &'static str {
        match self {
            Exceeded::Depth => "100 lists or maps inside one another",
            Exceeded::Values => "values for a document of its size",
            Exceeded::Text => "text for a document of its size",
        }
    }
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let over = match self {
            Exceeded::Depth => "more than",
            Exceeded::Values => "too many",
            Exceeded::Text => "too much",
        };
        write!(f, "{over} {}", self.limit())
    }
}

impl std::error::Error for Exceeded {}

/// What remains of the limits during decoding.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    values: usize,
    text: usize,
}

impl Budget {
    /// For strangers and foreign systems: the same for a document of any length.
    pub fn fixed() -> Budget {
        Budget {
            values: MAX_VALUES,
            text: MAX_TEXT,
        }
    }

    /// For documents of that many bytes from those who are known. A large result may have many values.
    pub fn of(length: usize) -> Budget {
        Budget {
            values: MAX_VALUES + length / BYTES_PER_VALUE,
            text: length
                .saturating_mul(TEXT_PER_BYTE)
                .saturating_add(MAX_TEXT),
        }
    }

    /// For one of many texts of that many bytes: no more values than bytes, so that all of them together cost little more
    /// than they are long.
    pub fn strict(length: usize) -> Budget {
        Budget {
            values: length.saturating_add(16),
            text: length.saturating_mul(2).saturating_add(64),
        }
    }

    /// Deducts values.
    ///
    /// # Errors
    /// Fewer are left.
    pub fn take(&mut self, values: usize) -> Result<(), Exceeded> {
        self.values = self.values.checked_sub(values).ok_or(Exceeded::Values)?;
        Ok(())
    }

    /// Deducts bytes of text.
    ///
    /// # Errors
    /// Fewer are left.
    pub fn take_text(&mut self, bytes: usize) -> Result<(), Exceeded> {
        self.text = self.text.checked_sub(bytes).ok_or(Exceeded::Text)?;
        Ok(())
    }
}

/// The depth inside a list or map at this depth.
///
/// # Errors
/// It is too deep.
pub fn deeper(depth: usize) -> Result<usize, Exceeded> {
    if depth < MAX_DEPTH {
        Ok(depth + 1)
    } else {
        Err(Exceeded::Depth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_spent_once() {
        let mut budget = Budget::fixed();
        assert_eq!(budget.take(MAX_VALUES), Ok(()));
        assert_eq!(budget.take(1), Err(Exceeded::Values));
        assert_eq!(budget.take_text(MAX_TEXT + 1), Err(Exceeded::Text));
        let mut longer = Budget::of(400);
        assert_eq!(longer.take(MAX_VALUES + 100), Ok(()));
        assert_eq!(longer.take(1), Err(Exceeded::Values));
        let mut one = Budget::strict(4);
        assert_eq!((one.take(20), one.take(1)), (Ok(()), Err(Exceeded::Values)));
        assert!(Budget::of(usize::MAX).take(MAX_VALUES).is_ok());
        assert!(Exceeded::Depth.limit().starts_with(&MAX_DEPTH.to_string()));
        assert_eq!(
            (deeper(0), deeper(MAX_DEPTH)),
            (Ok(1), Err(Exceeded::Depth))
        );
    }
}
