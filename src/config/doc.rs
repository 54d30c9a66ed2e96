//! The sample file and the table of options, both made from the same definition.

use super::{
    FEDERATION_OPTIONS, Flavour, MASTER_OPTIONS, MINION_OPTIONS, OptionGroup, OptionInfo,
    RUNTIME_OPTIONS, Role,
};
use std::fmt::Write;

const WIDTH: usize = 96;

/// The options of a role.
pub(super) fn table(role: Role) -> &'static [OptionInfo] {
    match role {
        Role::Master => MASTER_OPTIONS,
        Role::Minion => MINION_OPTIONS,
        Role::FederationBroker => FEDERATION_OPTIONS,
        Role::Runtime => RUNTIME_OPTIONS,
    }
}

/// The default of an option as its file would have it with default paths; empty if the default is empty.
pub fn default_text(option: &OptionInfo) -> String {
    match option.default {
        "null" => String::new(),
        text => text.replace("{product}", Flavour::Halite.name()),
    }
}

/// The options of a role by group, in the order of the sample file; empty groups are left out.
pub fn option_groups(role: Role) -> impl Iterator<Item = (OptionGroup, Vec<&'static OptionInfo>)> {
    OptionGroup::ALL.into_iter().filter_map(move |group| {
        let options = table(role).iter().filter(|o| o.group == group);
        let options: Vec<_> = options.collect();
        (!options.is_empty()).then_some((group, options))
    })
}

/// A configuration file with every option commented out, at its default.
pub fn sample_config(role: Role) -> String {
    let name = role.name();
    let mut out = format!(
        "# Configuration of halite-{name}: /etc/halite/{name}\n#\n# All options with their \
         defaults. Remove the '#' to change one.\n# Files in /etc/halite/{name}.d that end in .conf \
         are read after this one.\n"
    );
    for (group, options) in option_groups(role) {
        let _ = write!(out, "\n\n##### {} #####\n", group.title());
        for option in options {
            out.push('\n');
            for line in wrapped(option.help) {
                let _ = writeln!(out, "# {line}");
            }
            let _ = writeln!(
                out,
                "{}",
                format!("#{}: {}", option.name, default_text(option)).trim_end()
            );
        }
    }
    out
}

/// A Markdown table of options for each group.
pub fn options_markdown(role: Role) -> String {
    let name = role.name();
    let mut out = format!(
        "# Options of the {}\n\nThe options in `/etc/halite/{name}` and `/etc/halite/{name}.d/*.conf`, with type and \
         default. A line is `option: value`, in YAML. There is also a manual page, `man 5 halite-{name}`, and a \
         sample file, `packaging/config/{name}`.\n",
        name.replace('-', " ")
    );
    for (group, options) in option_groups(role) {
        let _ = write!(
            out,
            "\n## {}\n\n| option | type | default | meaning |\n|---|---|---|---|\n",
            group.title()
        );
        for option in options {
            let default = match default_text(option) {
                text if text.is_empty() => "(empty)".to_owned(),
                text => format!("`{}`", cell(&text)),
            };
            let help = cell(option.help.trim());
            let _ = writeln!(
                out,
                "| `{}` | {} | {default} | {help} |",
                option.name, option.type_name
            );
        }
    }
    out
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last().map_or(0, |l| l.len());
        if line > 0 && line + 1 + word.len() > WIDTH {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}
