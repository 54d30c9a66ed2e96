//! Completions of the commands for bash, zsh and fish, made from the definitions of their options, and tried in
//! the shells that this machine has.

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ValueHint};
use clap_complete::{Shell, generate};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The name of a file of completions for a command.
type FileName = fn(&str) -> String;

/// The shells, each with the names that its completions have where distributions lay them.
const SHELLS: [(Shell, FileName); 3] = [
    (Shell::Bash, |command| command.to_owned()),
    (Shell::Zsh, |command| format!("_{command}")),
    (Shell::Fish, |command| format!("{command}.fish")),
];

/// Where completions lie in the repository.
const PLACE: &str = "packaging/completions";

/// The files of one command, by their path in the repository.
pub fn files(command: &clap::Command) -> Vec<(String, String)> {
    let name = command.get_name().to_owned();
    let described = command.clone().mut_args(|a| described(&name, a));
    let files = SHELLS.iter().map(|(shell, file)| {
        let mut script = Vec::new();
        generate(*shell, &mut described.clone(), &name, &mut script);
        let script = String::from_utf8(script).unwrap();
        (format!("{PLACE}/{shell}/{}", file(&name)), tidy(&script))
    });
    files.collect()
}

/// Without blanks at the ends of lines.
fn tidy(script: &str) -> String {
    let lines = script.trim_end().lines();
    lines.flat_map(|line| [line.trim_end(), "\n"]).collect()
}

/// An argument with what shells want to know of its values: which words it takes, or that it is a path.
fn described(command: &str, arg: Arg) -> Arg {
    if !matches!(arg.get_action(), ArgAction::Set | ArgAction::Append) {
        return arg;
    }
    let words = words(&arg);
    if !words.is_empty() {
        return arg.value_parser(PossibleValuesParser::new(words));
    }
    let named = arg.get_value_names().and_then(<[_]>::first);
    let hint = match named.map(|name| name.as_str()) {
        Some("DIR") => ValueHint::DirPath,
        Some("FILE") => ValueHint::FilePath,
        // The files to be copied, and the place on the minions.
        _ if command == "halite-cp" && arg.is_positional() => ValueHint::AnyPath,
        _ => ValueHint::Other,
    };
    arg.value_hint(hint)
}

/// The words that the help of an option lists behind its colon: "How to show results: nested, json".
fn words(arg: &Arg) -> Vec<&'static str> {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let Some((_, list)) = help.split_once(": ") else {
        return Vec::new();
    };
    // clap wants words that live as long as the program.
    let words: Vec<&str> = list.to_owned().leak().split(", ").collect();
    let plain = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    match words.len() > 1 && words.iter().all(plain) {
        true => words,
        false => Vec::new(),
    }
}

fn script(shell: Shell, command: &str) -> PathBuf {
    let (_, file) = SHELLS.iter().find(|(known, _)| *known == shell).unwrap();
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join(PLACE);
    place.join(shell.to_string()).join(file(command))
}

/// Whether the shell is here; says so if not.
fn has(shell: Shell) -> bool {
    let found = Command::new(shell.to_string()).arg("--version").output();
    if found.is_err() {
        eprintln!("skipped: {shell} is not installed");
    }
    found.is_ok()
}

/// What a script prints in a shell, a word a line.
fn said(shell: Shell, options: &[&str], script: &str) -> Vec<String> {
    let mut command = Command::new(shell.to_string());
    command.args(options).arg("-c").arg(script);
    let done = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(text(&done.stderr), "", "{script}");
    let words = text(&done.stdout);
    words.lines().map(str::to_owned).collect()
}

/// What bash offers behind `words`, the last of which is incomplete.
fn bash(words: &[&str]) -> Vec<String> {
    let script = script(Shell::Bash, words[0]);
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let last = words.len() - 1;
    let (word, before) = (words[last], words[last - 1]);
    said(
        Shell::Bash,
        &["--norc", "--noprofile"],
        &format!(
            ". '{}'\n\
             COMP_WORDS=({}); COMP_CWORD={last}\n\
             spec=$(complete -p {name}) && function=${{spec#*-F }} && function=${{function%% *}}\n\
             compopt() {{ :; }}\n\
             $function {name} '{word}' '{before}'\n\
             printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            script.display(),
            quoted.join(" "),
            name = words[0],
        ),
    )
}

/// What fish offers behind a line.
fn fish(line: &str) -> Vec<String> {
    let name = line.split(' ').next().unwrap();
    let script = script(Shell::Fish, name);
    let told = format!("source '{}'; complete -C '{line}'", script.display());
    let lines = said(Shell::Fish, &["--no-config"], &told);
    // What an offer means stands behind a tabulator.
    let words = lines.iter().filter_map(|line| line.split('\t').next());
    words.map(str::to_owned).collect()
}

/// What zsh offers behind a line: the script is loaded by `compinit`, and its offers are caught where zsh would show them.
fn zsh(line: &str) -> Vec<String> {
    let name = line.split(' ').next().unwrap();
    let script = script(Shell::Zsh, name);
    let place = script.parent().unwrap().display();
    let mut offers = said(
        Shell::Zsh,
        &["-f"],
        &format!(
            "zmodload zsh/zpty; unset HISTFILE\n\
             zpty shell zsh -f -i\n\
             tell() {{ zpty -w shell \"$1\" }}\n\
             tell \"PS1=''; stty -echo; fpath=('{place}' \\$fpath); autoload -Uz compinit; compinit -D -u\"\n\
             tell 'compadd() {{\n\
                 local -a caught; local each\n\
                 builtin compadd -A caught \"$@\"\n\
                 for each in $caught; do print -r -- \"<offer>$each</offer>\"; done\n\
                 builtin compadd \"$@\"\n\
             }}'\n\
             tell 'done-completing() {{ zle complete-word; print -r -- \"<end>\"; zle kill-buffer }}'\n\
             tell 'zle -N done-completing; bindkey \"^I\" done-completing; print -r -- \"<rea\"\"dy>\"'\n\
             zpty -r shell got '*<ready>*'\n\
             zpty -n -w shell '{line}'$'\\t'\n\
             zpty -r shell got '*<end>*'\n\
             zpty -d shell\n\
             print -r -- \"$got\" | sed -n 's/.*<offer>\\(.*\\)<\\/offer>.*/\\1/p'"
        ),
    );
    // It asks several times, from the narrowest kind of match on.
    offers.sort();
    offers.dedup();
    offers
}

const ACCEPT: [&str; 2] = ["--accept", "--accept-all"];

#[test]
fn bash_completes() {
    if !has(Shell::Bash) {
        return;
    }
    assert_eq!(bash(&["halite-key", "--ac"]), ACCEPT);
    assert_eq!(bash(&["halite", "--out", "j"]), ["json"]);
    let levels = bash(&["halite-master", "-l", "w"]);
    assert_eq!(levels, ["warning"]);
    for command in super::commands() {
        let offered = bash(&[command.get_name(), "--vers"]);
        assert!(
            offered.contains(&"--version".to_owned()),
            "{}: {offered:?}",
            command.get_name()
        );
    }
}

#[test]
fn fish_completes() {
    if !has(Shell::Fish) {
        return;
    }
    assert_eq!(fish("halite-key --ac"), ACCEPT);
    assert_eq!(fish("halite --out j"), ["json"]);
}

#[test]
fn zsh_completes() {
    if !has(Shell::Zsh) {
        return;
    }
    assert_eq!(zsh("halite-key --ac"), ACCEPT);
    assert_eq!(zsh("halite --out j"), ["json"]);
}
