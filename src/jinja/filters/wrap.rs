//! `wordwrap`: Python's `textwrap.wrap` with white space preserved.

use super::super::cx::Cx;
use super::super::error::Error;
use super::super::methods::split_lines;
use super::super::value::{Args, Obj};
use super::{FilterFn, flag, integer, text_of};
use halite_wire::textwrap::Wrapper;

pub(super) const TABLE: &[(&str, FilterFn)] = &[("wordwrap", wordwrap)];

fn wordwrap(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let names = [
        "width",
        "break_long_words",
        "wrapstring",
        "break_on_hyphens",
    ];
    let bound = args.bind("do_wordwrap", &names)?;
    let width = integer(&bound[0], 79)?;
    let newline = cx.options().newline_sequence.clone();
    let between = match &bound[2] {
        None | Some(Obj::None) => newline.as_str(),
        Some(text) => text_of(text)?,
    };
    if let Obj::Undefined(missing) = value {
        return Err(missing.error());
    }
    let Some(text) = value.as_str() else {
        return Err(super::no_attribute(value, "splitlines"));
    };
    let lines = split_lines(text, false);
    if width <= 0 && !lines.is_empty() {
        return Err(Error::value_error(format!(
            "invalid width {width} (must be > 0)"
        )));
    }
    let wrapper = Wrapper {
        width: usize::try_from(width).unwrap_or(1),
        break_words: flag(&bound[1], true)?,
        break_hyphens: flag(&bound[3], true)?,
    };
    cx.charge(text.len())?;
    let wrapped: Vec<String> = lines
        .iter()
        .map(|line| wrapper.wrap(line).join(between))
        .collect();
    Ok(wrapped.join(between).into())
}
