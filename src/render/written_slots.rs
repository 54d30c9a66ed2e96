//! Which slots SLS files have as they are written, before they are rendered.
//!
//! A slot is text in a declaration (`__slot__:salt:module.function(...)`), and what templates put into one may come from others:
//! events, the mine, grains of minions. So a run only calls functions that stand in a slot of a file that it has read. Stock
//! calls any.

use std::cell::RefCell;
use std::collections::BTreeSet;

/// How a slot begins.
pub const PREFIX: &str = "__slot__:salt:";

thread_local! {
    static WRITTEN: RefCell<BTreeSet<String>> = const { RefCell::new(BTreeSet::new()) };
}

/// Notes the functions of slots in a file that is read.
pub fn note(text: &str) {
    for (at, _) in text.match_indices(PREFIX) {
        let rest = &text[at + PREFIX.len()..];
        if let Some((function, _)) = rest.split_once('(') {
            WRITTEN.with_borrow_mut(|all| all.insert(function.to_owned()));
        }
    }
}

/// The functions of slots in files that this thread has read.
pub fn functions() -> BTreeSet<String> {
    WRITTEN.with_borrow(Clone::clone)
}

#[cfg(test)]
mod tests {
    #[test]
    fn functions_in_slots_are_noted() {
        super::note(
            "a: __slot__:salt:test.echo(a)\nb: \"__slot__:salt:cmd.run({{ x }}).y\"\nc: __slot__:salt:",
        );
        let all: Vec<String> = super::functions().into_iter().collect();
        assert_eq!(all, ["cmd.run", "test.echo"]);
    }
}
