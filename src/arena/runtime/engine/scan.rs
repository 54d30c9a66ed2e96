//! Checks the sizes of a module before it is compiled, where a few bytes of it take much time or memory.
//!
//! A few bytes may declare thousands of local variables, and the interpreter takes time for each: a module of 800 KB with
//! 100 000 functions of 29 000 locals took a minute. An element takes one byte in the module and thirty in memory, as long
//! as the module runs, whether a table has room for it or not: 10 MB took 300 MiB. A block that is not closed yet takes two
//! bytes and more than a hundred in memory while its function is compiled: 9 MB took 500 MiB. Malformed code is left for
//! the interpreter to find.

/// Limit of local variables of all functions of a module together. Large programs have a few hundred thousand.
const MOST_LOCALS: u64 = 2_000_000;
/// Limit of the bytes of a function. Interpreters of languages have some with a few hundred thousand.
const MOST_FUNCTION: u64 = 2 << 20;
/// Bytes that an element of a table may take: a function is named with five at most, and segments have headers.
const BYTES_PER_ELEMENT: u64 = 8;

/// Bytes before the first section: magic and version.
const PREAMBLE: usize = 8;
/// The section with the elements of tables.
const ELEMENTS: u8 = 9;
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

/// Sizes of a module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sizes {
    /// Local variables of all functions together.
    pub(super) locals: u64,
    /// Bytes of the largest function.
    pub(super) function: usize,
    /// Bytes of the elements for tables.
    pub(super) elements: usize,
}

impl Sizes {
    /// The sizes of a module; `None` if it cannot be parsed.
    pub(super) fn of(module: &[u8]) -> Option<Sizes> {
        let mut rest = Cursor(module.get(PREAMBLE..)?);
        let mut sizes = Sizes::default();
        while !rest.0.is_empty() {
            let id = rest.byte()?;
            let mut section = rest.part()?;
            match id {
                CODE => {
                    for _ in 0..section.number()? {
                        sizes.add_function(section.part()?)?;
                    }
                }
                ELEMENTS => sizes.elements = sizes.elements.saturating_add(section.0.len()),
                _ => {}
            }
        }
        Some(sizes)
    }

    fn add_function(&mut self, mut body: Cursor<'_>) -> Option<()> {
        self.function = self.function.max(body.0.len());
        for _ in 0..body.number()? {
            self.locals = self.locals.saturating_add(u64::from(body.number()?));
            body.byte()?;
        }
        Some(())
    }

    /// Why a module of these sizes is refused, if it is; its tables may have so many elements.
    pub(super) fn fault(&self, table_elements: u64) -> Option<String> {
        let elements = table_elements.saturating_mul(BYTES_PER_ELEMENT);
        let limits = [
            ("local variables", self.locals, MOST_LOCALS),
            ("bytes in one function", self.function as u64, MOST_FUNCTION),
            ("bytes of table elements", self.elements as u64, elements),
        ];
        let (what, has, most) = limits.into_iter().find(|(_, has, most)| has > most)?;
        Some(format!(
            "the module has {has} {what}, but only {most} are allowed"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locals_of_all_functions_are_counted() {
        let code = wat::parse_str(
            "(module (memory 1) (func (local i32 i32 i64)) (func) (func (param i32) (local f64) (nop)) (data \"x\"))",
        );
        let sizes = Sizes::of(&code.expect("a module")).expect("a module");
        // A local variable is of three bytes here: number, type, and their count before; the last has an `nop` as well.
        assert_eq!((sizes.locals, sizes.function, sizes.elements), (4, 6, 0));
        let empty = wat::parse_str("(module)").expect("a module");
        assert_eq!(Sizes::of(&empty), Some(Sizes::default()));
    }

    #[test]
    fn what_is_cut_off_is_not_counted() {
        let code = wat::parse_str("(module (func (local i32 i64)) (func (local f32)))");
        let code = code.expect("a module");
        for len in 0..code.len() {
            assert!(
                Sizes::of(&code[..len]).is_none_or(|s| s.locals == 0),
                "{len}"
            );
        }
        // A number of more than five bytes.
        assert_eq!(
            Sizes::of(b"\0asm\x01\0\0\0\x0a\x80\x80\x80\x80\x80\x00"),
            None
        );
    }
}
