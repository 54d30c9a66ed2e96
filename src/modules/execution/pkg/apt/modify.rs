//! `pkg.mod_repo`: adding and changing repositories.

use super::keys;
use super::list::fetch;
use super::repos::{find, has_ppas};
use super::sources::{Entry, LIST, Line, Section, SourceFormat, flag, load, save};
use crate::execution::cmd::which;
use crate::execution::declare::Result;
use crate::execution::nested::is_true;
use crate::execution::pkg::common::{has_keyword, option, option_is_true};
use crate::execution::{Call, CallError, command_helpers, python};
use halite_wire::Value;
use halite_wire::map;

/// The wanted options of an entry.
struct EntryOptions {
    comps: Vec<String>,
    all_comps: Vec<String>,
    architectures: Vec<String>,
    disabled: Option<bool>,
}

pub fn mod_repo(call: &mut Call<'_>) -> Result {
    let repo = python::str(call.arg("repo"));
    let refresh = match (
        has_keyword(call, "refresh_db"),
        has_keyword(call, "refresh"),
    ) {
        (true, _) => option_is_true(call, "refresh_db"),
        (_, true) => option_is_true(call, "refresh"),
        _ => true,
    };
    let aptkey = call.flag("aptkey") && which("apt-key").is_some();
    if repo.starts_with("ppa:") {
        return ppa(call, &repo, refresh);
    }
    let mut entries = load();
    if option_is_true(call, "consolidate") {
        entries = consolidated(entries)?;
    }
    let wanted = Line::parse(&repo)?;
    if wanted.invalid {
        return Err(CallError::Invocation(format!(
            "Name {repo} is not valid. This must be the complete repo entry as seen in the sources file"
        )));
    }
    keys::for_repo(call, &wanted.signedby, aptkey)?;
    let wishes = entry_options(call, &wanted)?;
    let at = match matching(call, &entries, &wanted, &wishes) {
        Some(at) => at,
        None => {
            entries.push(new_entry(call, &wanted, aptkey)?);
            entries.len() - 1
        }
    };
    change(call, &mut entries[at], &wanted, wishes)?;
    save(&entries)?;
    if refresh {
        fetch(call, &Value::Nil, false, None)?;
    }
    Ok(map! {repo.as_str() => find(&repo)?}.into())
}

/// Expands Launchpad's short addresses through Ubuntu's program.
fn ppa(call: &mut Call<'_>, repo: &str, refresh: bool) -> Result {
    if !has_ppas(call) {
        return Err(CallError::Command(format!(
            "cannot parse \"ppa:\" style repo definitions: {repo}"
        )));
    }
    if which("apt-add-repository").is_none() || has_keyword(call, "ppa_auth") {
        return Err(CallError::Command(format!(
            "Unable to add PPA '{}': apt-add-repository is not installed, or the PPA is private; give its whole \
             line with the key instead",
            &repo[4..]
        )));
    }
    let argv = ["apt-add-repository", "-y", repo];
    let ran = command_helpers::run_all(call, argv)?;
    if !ran.ok() {
        return Err(CallError::Command(format!(
            "Unable to add PPA '{}'. '{}' exited with status {}: '{}'",
            &repo[4..],
            python::repr(&argv.map(Value::from).to_vec().into()),
            ran.retcode,
            ran.stderr
        )));
    }
    if refresh {
        fetch(call, &Value::Nil, false, None)?;
    }
    let done = map! {
        "pid" => ran.pid, "retcode" => ran.retcode, "stdout" => ran.stdout, "stderr" => ran.stderr,
    };
    Ok(map! {repo => done}.into())
}

/// Merges entries that differ only in their components, in the main file.
fn consolidated(entries: Vec<Entry>) -> Result<Vec<Entry>> {
    let mut list: Vec<Entry> = Vec::new();
    let mut files = Vec::new();
    for entry in entries.into_iter().filter(|e| !e.invalid()) {
        let SourceFormat::Line(line) = &entry.form else {
            list.push(entry);
            continue;
        };
        if entry.file != LIST {
            files.push(entry.file.clone());
        }
        let same = |other: &&mut Entry| match &other.form {
            SourceFormat::Line(o) => {
                (&o.architectures, o.disabled, &o.kind, &o.uri, &o.dist)
                    == (
                        &line.architectures,
                        line.disabled,
                        &line.kind,
                        &line.uri,
                        &line.dist,
                    )
            }
            SourceFormat::Section(_) => false,
        };
        match list.iter_mut().find(same) {
            Some(first) => {
                let mut comps = first.comps();
                comps.extend(
                    line.comps
                        .iter()
                        .filter(|c| !first.comps().contains(c))
                        .cloned(),
                );
                first.set_comps(&comps);
            }
            None => list.push(Entry {
                file: LIST.to_owned(),
                form: entry.form,
            }),
        }
    }
    save(&list)?;
    for file in files {
        let _ = std::fs::remove_file(file);
    }
    Ok(list)
}

fn entry_options(call: &Call<'_>, wanted: &Line) -> Result<EntryOptions> {
    let split = |value: Value| -> Vec<String> {
        python::str(&value)
            .split(',')
            .map(|w| w.trim().to_owned())
            .collect()
    };
    let mut all_comps = wanted.comps.clone();
    let comps = if has_keyword(call, "comps") {
        split(option(call, "comps"))
    } else {
        all_comps.clone()
    };
    all_comps.extend(comps.iter().filter(|c| !wanted.comps.contains(c)).cloned());
    let architectures = if has_keyword(call, "architectures") {
        python::str(&option(call, "architectures"))
            .split(',')
            .map(str::to_owned)
            .collect()
    } else {
        wanted.architectures.clone()
    };
    let disabled = match (has_keyword(call, "disabled"), has_keyword(call, "enabled")) {
        (true, _) => Some(is_true(&option(call, "disabled"))),
        (_, true) => Some(!is_true(&option(call, "enabled"))),
        _ => None,
    };
    Ok(EntryOptions {
        comps,
        all_comps,
        architectures,
        disabled,
    })
}

/// The entry to change. After the first candidate, the next match ends the search.
fn matching(
    call: &Call<'_>,
    entries: &[Entry],
    wanted: &Line,
    wishes: &EntryOptions,
) -> Option<usize> {
    let trimmed = |uri: &str| uri.trim_end_matches('/').to_owned();
    let (kind, dist) = (option(call, "type"), option(call, "dist"));
    entries.iter().position(|entry| {
        if entry.invalid() || entry.types().is_empty() {
            return false;
        }
        let own = entry.types().contains(&wanted.kind)
            && entry
                .uris()
                .iter()
                .any(|u| trimmed(u) == trimmed(&wanted.uri))
            && entry.suites().contains(&wanted.dist);
        let named = |list: Vec<String>, value: &Value| {
            value.as_str().is_some_and(|v| list.contains(&v.to_owned()))
        };
        let fits = own || (named(entry.suites(), &dist) && named(entry.types(), &kind));
        fits && (entry.comps().is_empty()
            || entry.comps().iter().any(|c| wishes.all_comps.contains(c))
            || entry.architectures() != wishes.architectures)
    })
}

/// A new entry in the format of the wanted file.
fn new_entry(call: &Call<'_>, wanted: &Line, aptkey: bool) -> Result<Entry> {
    let trusted = option(call, "trusted");
    let word = if has_keyword(call, "trusted") {
        python::str(&trusted)
    } else {
        "no".to_owned()
    };
    if !aptkey && wanted.signedby.is_empty() && !flag(&word)? {
        let text = "missing 'signedby' or 'trusted' option when apt-key is missing";
        return Err(CallError::Invocation(text.to_owned()));
    }
    let file = option(call, "file").as_str().unwrap_or(LIST).to_owned();
    if !file.ends_with(".sources") {
        return Ok(Entry {
            file,
            form: SourceFormat::Line(wanted.clone()),
        });
    }
    let mut section = Section::default();
    section.set("Types", wanted.kind.as_str());
    section.set("URIs", wanted.uri.as_str());
    section.set("Suites", wanted.dist.as_str());
    section.set("Components", wanted.comps.join(" "));
    let yes = trusted == Value::Bool(true) || option(call, "Trusted") == Value::Bool(true);
    if yes || (!has_keyword(call, "trusted") && wanted.trusted == Some(true)) {
        section.set("Trusted", "yes");
    }
    Ok(Entry {
        file,
        form: SourceFormat::Section(section),
    })
}

/// Applies the wanted options to an entry.
fn change(call: &Call<'_>, entry: &mut Entry, wanted: &Line, wishes: EntryOptions) -> Result<()> {
    let comment = option(call, "comments");
    let comment = match &comment {
        Value::Nil => None,
        Value::Array(list) => Some(list.iter().map(python::str).collect::<Vec<_>>().join(" ")),
        other => Some(python::str(other)),
    };
    let comment = comment.map(|c| c.trim().to_owned());
    let keep_architectures = wishes.architectures.is_empty() && entry.architectures().is_empty();
    if let Some(file) = option(call, "file").as_str() {
        entry.file = file.to_owned();
    }
    let trusted = match option(call, "trusted") {
        Value::Nil if !has_keyword(call, "trusted") => None,
        Value::Str(text) => Some(Some(flag(&text)?)),
        Value::Bool(b) => Some(Some(b)),
        Value::Int(i @ (0 | 1)) => Some(Some(i == 1)),
        _ => Some(None),
    };
    let text = |name: &str| option(call, name).as_str().map(str::to_owned);
    match &mut entry.form {
        SourceFormat::Line(line) => {
            if let Some(comment) = comment {
                line.comment = comment;
            }
            line.line = wanted.line.clone();
            line.comps = wishes.comps;
            if !keep_architectures {
                line.architectures = wishes.architectures;
            }
            line.disabled = wishes.disabled.unwrap_or(line.disabled);
            line.signedby = wanted.signedby.clone();
            line.trusted = trusted.unwrap_or(line.trusted);
            line.dist = text("dist").unwrap_or(line.dist.clone());
            line.uri = wanted.uri.clone();
        }
        SourceFormat::Section(section) => {
            if let Some(comment) = comment {
                let lines: Vec<&str> = comment.lines().collect();
                let marked = lines.iter().all(|l| l.starts_with('#'));
                let mark = if marked { "" } else { "#" };
                section.header = lines.iter().map(|l| format!("{mark}{l}")).collect();
            }
            section.set("Components", wishes.comps.join(" "));
            if !keep_architectures {
                section.set("Architectures", wishes.architectures.join(" "));
            }
            match wishes.disabled {
                Some(true) => section.set("Enabled", "no"),
                Some(false) => section.remove("Enabled"),
                None => {}
            }
            section.set("Signed-By", wanted.signedby.as_str());
            // The same address with or without a slash at its end: as it was given last.
            let uris = section.get("URIs").unwrap_or_default();
            let same = |uri: &str| uri.trim_end_matches('/') == wanted.uri.trim_end_matches('/');
            let uris = uris.split_whitespace();
            let uris = uris.map(|uri| if same(uri) { wanted.uri.as_str() } else { uri });
            let uris = uris.collect::<Vec<_>>().join(" ");
            section.set("URIs", uris);
            match trusted {
                Some(Some(yes)) => section.set("Trusted", if yes { "yes" } else { "no" }),
                Some(None) => section.remove("Trusted"),
                None => {}
            }
            for (name, key) in [("dist", "Suites"), ("uri", "URIs")] {
                if let Some(value) = text(name) {
                    section.set(key, value);
                }
            }
            for (name, key) in [("suites", "Suites"), ("uris", "URIs"), ("types", "Types")] {
                if let Value::Array(list) = option(call, name) {
                    section.set(
                        key,
                        list.iter().map(python::str).collect::<Vec<_>>().join(" "),
                    );
                }
            }
        }
    }
    Ok(())
}
