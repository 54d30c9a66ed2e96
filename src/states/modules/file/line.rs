//! `file.line`.

use super::edit::{edited, existing};
use super::managed::Managed;
use super::{Step, absolute, fail, mode_of};
use crate::declare::State;
use halite_modules::execution::file::paths;
use halite_wire::Value;

pub(super) fn line(s: &mut State<'_, '_>) -> Step {
    let name = absolute(s, "line")?;
    if s.flag("create") && !s.test && !paths::is_file(&name) {
        let mut request = Managed::with_contents(s, &name, Value::Nil);
        request.perms.user = s.arg("user").clone();
        request.perms.group = s.arg("group").clone();
        request.perms.mode = mode_of(s.arg("file_mode"));
        request.apply(s)?;
    }
    existing(&name)?;
    let mode = s.text("mode").map(|mode| mode.to_lowercase());
    let Some(mode) = mode.filter(|mode| !mode.is_empty()) else {
        return fail("Mode was not defined. How to process the file?");
    };
    if s.arg("content").is_nil() && mode != "delete" {
        return fail("Content can only be empty if mode is ['delete']");
    }
    // It changes nothing in test mode.
    let with = s.pick(&[
        "content",
        "match",
        "mode",
        "location",
        "before",
        "after",
        "show_changes",
        "backup",
        "quiet",
        "indent",
    ]);
    let done = s.salt_with("file.line", vec![name.into()], with)?;
    Ok(edited(s, done, "Changes would be made"))
}
