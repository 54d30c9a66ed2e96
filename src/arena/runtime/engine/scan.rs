//! Checks the code of a module before it is compiled: how many local variables its functions declare.
//!
//! A few bytes may declare thousands of them, and the interpreter takes time for each: a module of 800 KB with 100 000
//! functions of 29 000 locals took a minute. Other malformed code is left for the interpreter to find.

/// Limit of local variables of all functions of a module together. Large programs have a few hundred thousand.
pub(super) const MOST_LOCALS: u64 = 2_000_000;

/// Bytes before the first section: magic and version.
const PREAMBLE: usize = 8;
/// The section with the functions.
const CODE: u8 = 10;

/// The bytes not read yet.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// A 32-bit number in LEB128: five bytes at most.
    fn number(&mut self) -> Option<u32> {
        let mut value: u64 = 0;
        for shift in [0, 7, 14, 21, 28] {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return u32::try_from(value).ok();
            }
        }
        None
    }

    /// A part with a length prefix.
    fn part(&mut self) -> Option<Cursor<'a>> {
        let len = self.number()? as usize;
        let (part, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(Cursor(part))
    }
}

/// Number of local variables of all functions of a module together; `None` if they cannot be counted.
pub(super) fn locals(module: &[u8]) -> Option<u64> {
    let mut rest = Cursor(module.get(PREAMBLE..)?);
    let mut total: u64 = 0;
    while !rest.0.is_empty() {
        let id = rest.byte()?;
        let mut section = rest.part()?;
        if id != CODE {
            continue;
        }
        for _ in 0..section.number()? {
            let mut body = section.part()?;
            for _ in 0..body.number()? {
                total = total.saturating_add(u64::from(body.number()?));
                body.byte()?;
            }
        }
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locals_of_all_functions_are_counted() {
        let code = wat::parse_str(
            "(module (memory 1) (func (local i32 i32 i64)) (func) (func (param i32) (local f64) (nop)) (data \"x\"))",
        );
        assert_eq!(locals(&code.expect("a module")), Some(4));
        let empty = wat::parse_str("(module)").expect("a module");
        assert_eq!(locals(&empty), Some(0));
    }

    #[test]
    fn what_is_cut_off_is_not_counted() {
        let code = wat::parse_str("(module (func (local i32 i64)) (func (local f32)))");
        let code = code.expect("a module");
        for len in 0..code.len() {
            assert!(locals(&code[..len]).is_none_or(|n| n == 0), "{len}");
        }
        // A number of more than five bytes.
        assert_eq!(locals(b"\0asm\x01\0\0\0\x0a\x80\x80\x80\x80\x80\x00"), None);
    }
}
