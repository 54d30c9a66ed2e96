//! Findings about the options in the files, one each.

use super::compatibility::{self, Compatibility, Row};
use super::finding::{Finding, Report, Verdict};
use halite_config::{Given, Inspection, Role, Standing};
use halite_wire::Value;

/// The note for options of Salt about which nothing else is known.
const NO_EFFECT: &str = "Salt has this option; here it has no effect";

/// Adds a finding for each option of each file.
pub(super) fn check(seen: &Inspection, role: Role, report: &mut Report) {
    for given in &seen.given {
        report.findings.push(of(given, seen, role));
    }
}

fn of(given: &Given, seen: &Inspection, role: Role) -> Finding {
    let (verdict, mut note) = classify(given, role);
    // Maps and lists of included files are merged; other values of the first file are replaced.
    let last = seen.last(&given.name).unwrap_or(given);
    let merged = matches!(given.value, Value::Map(_) | Value::Array(_))
        && seen.files.first() != Some(&given.file);
    let replaced = !merged && (&last.file, last.line) != (&given.file, given.line);
    if replaced {
        let text = format!("{} replaces it", last.file.display());
        note = join(note, &text);
    }
    Finding::option(verdict, given, note)
}

fn classify(given: &Given, role: Role) -> (Verdict, String) {
    let rows = compatibility::about(&given.name, &given.value, role);
    let worst = rows.first().copied();
    match given.standing {
        Standing::Refused(why) => (Verdict::Different, why.to_owned()),
        Standing::Unknown(Some(near)) if worst.is_none() => {
            let note = format!("neither Salt nor halite has it; is '{near}' meant?");
            (Verdict::NeedsAction, note)
        }
        Standing::Unknown(None) if worst.is_none() => {
            let note = "neither Salt nor halite has it; templates and config.get see it";
            (Verdict::Unknown, note.to_owned())
        }
        Standing::Followed => match worst {
            Some(row) if row.state != Compatibility::Same => match follows(row, given) {
                Verdict::Supported => (Verdict::Supported, String::new()),
                other => (other, row.text.clone()),
            },
            _ => (Verdict::Supported, String::new()),
        },
        Standing::Ignored | Standing::Unknown(_) => match worst {
            Some(Row { state, text, .. }) if *state != Compatibility::Same => {
                let verdict = match (state, given.value.truthy()) {
                    (Compatibility::Absent, true) => Verdict::NeedsAction,
                    _ => Verdict::Ignored,
                };
                (verdict, join(absent(*state), text))
            }
            // The row says that it is as in Salt, so it is implemented elsewhere.
            Some(_) => (Verdict::Supported, String::new()),
            None => (Verdict::Ignored, NO_EFFECT.to_owned()),
        },
    }
}

fn absent(state: Compatibility) -> String {
    match state {
        Compatibility::Absent => "not there".to_owned(),
        _ => String::new(),
    }
}

fn follows(row: &Row, given: &Given) -> Verdict {
    match (row.state, given.value.truthy()) {
        (Compatibility::Absent, true) => Verdict::NeedsAction,
        (_, false) if !row.is_of_value() => Verdict::Supported,
        _ => Verdict::Different,
    }
}

fn join(note: String, more: &str) -> String {
    match (note.is_empty(), more.is_empty()) {
        (true, _) => more.to_owned(),
        (_, true) => note,
        _ => format!("{note}; {more}"),
    }
}

/// A finding for a sentence about the configuration as a whole. It is attached to the option that the sentence
/// names: between quotes, or before its first colon.
pub(super) fn sentence(text: &str, seen: &Inspection) -> Option<Finding> {
    let quoted = text.split('\'').skip(1).step_by(2);
    let head = text.split_once(':').map(|(head, _)| head);
    let mut names = quoted.clone().chain(head);
    let by_value = |word: &str| seen.given.iter().rev().find(|g| g.value.is_str(word));
    let given = names.find_map(|name| seen.last(name));
    let given = given.or_else(|| quoted.clone().find_map(by_value));
    let Some(given) = given else {
        let file = seen.files.first()?;
        return Some(Finding::about(
            Verdict::NeedsAction,
            file,
            "configuration",
            text.to_owned(),
        ));
    };
    if given.standing != Standing::Followed {
        // It has been reported by name already.
        return None;
    }
    // `external_auth: keystone: ...`, `ext_pillar: 'vault' ...`
    let behind = text.split(':').nth(1).map(str::trim);
    let line = quoted
        .chain(behind)
        .map(|name| given.line_of(name))
        .find(|line| *line != given.line);
    let at = line.unwrap_or(given.line);
    let head = format!("{}: ", given.name);
    let note = text.strip_prefix(&head).unwrap_or(text).to_owned();
    Some(Finding::option(Verdict::NeedsAction, given, note).at(at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_config::inspect;

    fn report(role: Role, text: &str) -> Vec<(String, usize, Verdict)> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(role.name()), text).unwrap();
        let mut report = Report::default();
        check(&inspect(dir.path(), role).unwrap(), role, &mut report);
        let found = report.findings.into_iter();
        found.map(|f| (f.what, f.line, f.verdict)).collect()
    }

    #[test]
    fn options_are_judged() {
        let found = report(
            Role::Master,
            "user: root\nworker_thread: 9\nmax_minions: 5\nengines:\n  - slack: {}\ntransport: zeromq\n\
             con_cache: true\nmy_thing: 1\nredis.host: h\nrest_tornado: {port: 1}\n",
        );
        let expected = [
            ("user", 1, Verdict::Supported),
            ("worker_thread", 2, Verdict::NeedsAction),
            ("max_minions", 3, Verdict::Different),
            ("engines", 4, Verdict::Different),
            ("transport", 6, Verdict::Supported),
            ("con_cache", 7, Verdict::Ignored),
            ("my_thing", 8, Verdict::Unknown),
            ("redis.host", 9, Verdict::Supported),
            ("rest_tornado", 10, Verdict::NeedsAction),
        ];
        assert_eq!(found, expected.map(|(n, l, v)| (n.to_owned(), l, v)));
        let minion = report(Role::Minion, "master: m\nmultiprocessing: false\n");
        assert_eq!(minion[0].2, Verdict::Supported);
        assert_eq!(minion[1].2, Verdict::Different);
    }

    #[test]
    fn sentences_find_their_option() {
        let dir = tempfile::tempdir().unwrap();
        let text = "external_auth:\n  keystone:\n    x: []\next_pillar:\n  - vault: a\nbad: 1\nlog_level: chatty\n";
        std::fs::write(dir.path().join("master"), text).unwrap();
        let seen = inspect(dir.path(), Role::Master).unwrap();
        let at = |text: &str| sentence(text, &seen).map(|f| (f.what, f.line));
        let told = at("external_auth: keystone: the system \"keystone\" is not supported");
        assert_eq!(told, Some(("external_auth".into(), 2)));
        let told = at("ext_pillar: 'vault' is not available");
        assert_eq!(told, Some(("ext_pillar".into(), 5)));
        assert_eq!(at("/x/master: the option 'bad': unknown"), None);
        let told = at("the log level 'chatty' is unknown");
        assert_eq!(told, Some(("log_level".into(), 7)));
        assert_eq!(at("a sentence").map(|f| f.0), Some("configuration".into()));
    }
}
