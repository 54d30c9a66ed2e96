//! Targets of the command line tools. They are apart from the others because they need most of the workspace.

use halite::wire::{Value, yaml};
use std::sync::LazyLock;

/// Their names and bodies.
pub const ALL: &[(&str, fn(&[u8]))] = &[("saltfile", saltfile)];

static COMMANDS: LazyLock<Vec<clap::Command>> = LazyLock::new(halite::cli::commands);

/// A Saltfile, for each command.
pub fn saltfile(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(Value::Map(content)) = yaml::parse(text) else {
        return;
    };
    for command in COMMANDS.iter() {
        let words = halite::cli::saltfile::words(command, &content, |_| false);
        // Whatever it says, it adds options and nothing else.
        for word in words.unwrap_or_default() {
            let word = word.to_string_lossy().into_owned();
            assert!(word.starts_with("--") && word.len() > 2, "{word:?}");
        }
    }
}
