//! Python's `textwrap.TextWrapper.fill`, as far as the highstate outputter uses it.

use super::python::lstrip;
use halite_wire::textwrap::{Wrapper, is_wrap_space};

/// Wraps text to `width` columns, each line indented by `indent` spaces.
pub(super) fn fill(text: &str, width: usize, indent: usize) -> String {
    let wrapper = Wrapper {
        width: width.saturating_sub(indent).max(1),
        break_words: true,
        break_hyphens: true,
    };
    let before = " ".repeat(indent);
    let lines = wrapper.wrap(&munge(text)).into_iter();
    let lines: Vec<String> = lines.map(|line| format!("{before}{line}")).collect();
    lines.join("\n")
}

/// Expands tabs to multiples of eight, then replaces all other ASCII white space by blanks.
fn munge(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut column = 0;
    for c in text.chars() {
        match c {
            '\t' => {
                let fill = 8 - column % 8;
                out.extend(std::iter::repeat_n(' ', fill));
                column += fill;
            }
            '\n' | '\r' => {
                out.push(' ');
                column = 0;
            }
            c => {
                out.push(if is_wrap_space(c) { ' ' } else { c });
                column += 1;
            }
        }
    }
    out
}

/// `str.lstrip()` of the wrapped text, for a first line that follows a label.
pub(super) fn fill_behind_label(text: &str, width: usize, indent: usize) -> String {
    lstrip(&fill(text, width, indent)).to_owned()
}
