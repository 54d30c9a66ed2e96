//! Manual pages of the configuration files, and what the pages of commands say about files.

use super::{commands, escaped};
use halite::config::{OptionInfo, Role, default_text, option_groups};
use std::fmt::Write;

/// Day of the version, in the title of every page.
const DATE: &str = "2026-11-22";

/// Options that name files and directories.
const PLACES: [&str; 8] = [
    "pki_dir",
    "cachedir",
    "sock_dir",
    "pidfile",
    "log_file",
    "key_logfile",
    "syndic_pidfile",
    "syndic_log_file",
];

/// Which configuration files a command reads, and which of the places there it uses.
const FILES: [(&str, &[Role], &[&str]); 12] = [
    (
        "halite-master",
        &[Role::Master],
        &["pki_dir", "cachedir", "sock_dir", "pidfile", "log_file"],
    ),
    ("halite", &[Role::Master], &["cachedir", "sock_dir"]),
    ("halite-cp", &[Role::Master], &["cachedir", "sock_dir"]),
    ("halite-run", &[Role::Master], &["cachedir", "sock_dir"]),
    ("halite-key", &[Role::Master], &["pki_dir", "key_logfile"]),
    ("halite-api", &[Role::Master], &["cachedir", "sock_dir"]),
    (
        "halite-syndic",
        &[Role::Master, Role::Minion],
        &["syndic_pidfile", "syndic_log_file"],
    ),
    (
        "halite-minion",
        &[Role::Minion],
        &["pki_dir", "cachedir", "sock_dir", "pidfile", "log_file"],
    ),
    ("halite-call", &[Role::Minion], &["pki_dir", "cachedir"]),
    (
        "halite-sysinspect-minion",
        &[Role::Minion],
        &["pki_dir", "cachedir"],
    ),
    (
        "halite-federation-broker",
        &[Role::FederationBroker],
        &["log_file"],
    ),
    // Its help has a section of its own.
    ("halite-runtime", &[Role::Runtime], &[]),
];

fn entry(command: &str) -> Option<(&'static [Role], &'static [&'static str])> {
    let found = FILES.iter().find(|(name, _, _)| *name == command)?;
    Some((found.1, found.2))
}

/// The configuration files that a command reads.
pub fn pages_of(command: &str) -> &'static [Role] {
    entry(command).map_or(&[], |(roles, _)| roles)
}

/// The first line of a page.
pub fn title(name: &str, section: u8) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let name = escaped(&name.to_uppercase());
    format!(".TH {name} {section} {DATE} \"halite {version}\" halite\n")
}

/// The section on files of a command's page, if it reads a configuration and its help names none.
pub fn files(page: &mut String, command: &str) {
    let Some((roles, places)) = entry(command) else {
        return;
    };
    if page.contains(".SH \"FILES\"") {
        return;
    }
    page.push_str(".SH \"FILES\"\n");
    for role in roles {
        configuration(page, *role);
        for (_, options) in option_groups(*role) {
            for option in options.iter().filter(|o| places.contains(&o.name)) {
                place(page, option);
            }
        }
    }
}

fn configuration(page: &mut String, role: Role) {
    let name = escaped(role.name());
    let _ = writeln!(
        page,
        ".TP\n.IR /etc/halite/{name} \", \" /etc/halite/{name}.d/*.conf\nConfiguration, see\n.BR halite\\-{name} (5)."
    );
}

fn place(page: &mut String, option: &OptionInfo) {
    let default = default_text(option);
    if default.starts_with('/') {
        let (default, name) = (escaped(&default), escaped(option.name));
        let help = escaped(option.help.trim());
        let _ = writeln!(page, ".TP\n.I {default}\n{help} (option\n.BR {name} )");
    }
}

/// The page of a configuration file: every option with type, default and meaning.
pub fn page(role: Role) -> String {
    let name = role.name();
    let command = format!("halite-{name}");
    let shown = escaped(name);
    let mut page = title(&command, 5);
    let _ = writeln!(
        page,
        ".SH NAME\nhalite\\-{shown} \\- configuration of the {}\n\
         .SH SYNOPSIS\n.I /etc/halite/{shown}\n.br\n.I /etc/halite/{shown}.d/*.conf\n\
         .SH DESCRIPTION\nThe file is YAML: a line is\n.IR \"option: value\" ,\n\
         what belongs to an option and stands on further lines is indented. Files in\n.I /etc/halite/{shown}.d\n\
         that end in .conf are read after it in the order of their names; a later value replaces an earlier one.\n.PP\n\
         The option\n.B \\-c\nof the commands names another directory than\n.IR /etc/halite .\n\
         In a directory called\n.I salt\nthe defaults of paths are those of Salt:\n.I salt\nstands where\n.I halite\nstands below.\n.PP\n\
         All options may be left out. Other names than these are kept for templates, with a warning.",
        escaped(&name.replace('-', " ")),
    );
    if known(&command, "check_config") {
        let _ = writeln!(
            page,
            ".PP\n.B {} \\-\\-check\\-config\nsays what is wrong with the file.",
            escaped(&command)
        );
    }
    for (group, options) in option_groups(role) {
        let _ = writeln!(page, ".SH \"{}\"", escaped(&group.title().to_uppercase()));
        for option in options {
            item(&mut page, option);
        }
    }
    page.push_str(".SH FILES\n");
    configuration_files(&mut page, role);
    let _ = writeln!(page, ".SH \"SEE ALSO\"\n.BR {} (1)", escaped(&command));
    page
}

fn known(command: &str, argument: &str) -> bool {
    commands()
        .iter()
        .filter(|c| c.get_name() == command)
        .any(|c| c.get_arguments().any(|a| a.get_id() == argument))
}

fn item(page: &mut String, option: &OptionInfo) {
    let default = match default_text(option) {
        text if text.is_empty() => "empty".to_owned(),
        text => format!("\\fI{}\\fR", escaped(&text)),
    };
    let _ = writeln!(
        page,
        ".TP\n\\fB{}\\fR ({}; default {default})\n{}",
        escaped(option.name),
        escaped(option.type_name),
        escaped(option.help.trim())
    );
}

fn configuration_files(page: &mut String, role: Role) {
    let name = escaped(role.name());
    let _ = writeln!(page, ".TP\n.I /etc/halite/{name}\nThis file.");
    for (_, options) in option_groups(role) {
        for option in options.iter().filter(|o| PLACES.contains(&o.name)) {
            place(page, option);
        }
    }
}

/// Each option of a file stands on its page, with its default, and each command that reads one names it.
#[test]
fn pages_name_every_option() {
    for role in super::ROLES {
        let page = page(role);
        for (_, options) in option_groups(role) {
            for option in options {
                let head = format!("\n.TP\n\\fB{}\\fR (", escaped(option.name));
                assert!(page.contains(&head), "{}: {}", role.name(), option.name);
            }
        }
    }
    for command in commands() {
        let reads = command.get_arguments().any(|a| a.get_id() == "config_dir");
        let name = command.get_name();
        assert_eq!(reads, entry(name).is_some(), "{name} in FILES");
    }
}

/// What a formatter says of a page is a mistake in how it is made.
#[test]
fn formatters_have_nothing_to_say() {
    let found = std::process::Command::new("man").arg("--version").output();
    if found.is_err() {
        eprintln!("skipped: there is no man");
        return;
    }
    for entry in std::fs::read_dir(super::root().join("man")).unwrap() {
        let path = entry.unwrap().path();
        let mut man = std::process::Command::new("man");
        man.args(["--warnings", "-E", "UTF-8", "-l"]).arg(&path);
        let told = man
            .env("LC_ALL", "C.UTF-8")
            .env("MANWIDTH", "100")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&told.stderr).into_owned();
        assert!(
            told.status.success() && said.is_empty(),
            "{}: {said}",
            path.display()
        );
        assert!(told.stdout.len() > 500, "{}", path.display());
    }
}
