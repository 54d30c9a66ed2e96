//! `apache_module`, `apache_conf` and `apache_site`: what is enabled in Debian's Apache; and `apache`: its configuration
//! files. Stock 3008 has only the last; the others are those of 3007 (`salt/states/apache_*.py`).

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome, old_new};
use halite_modules::args;
use halite_modules::execution::python;
use halite_wire::{Value, map};

pub(super) const MODULE: StateModule = StateModule {
    name: "apache",
    functions: &[StateFunction::new(
        "configfile",
        configfile,
        "Ensures the content of a configuration file, from maps and lists.",
    )
    .args(args![config])],
};

pub(super) const CONF: StateModule = StateModule {
    name: "apache_conf",
    functions: &[
        StateFunction::new(
            "enabled",
            |s| set(s, &CONFS, true),
            "Ensures that a piece of configuration is enabled.",
        ),
        StateFunction::new(
            "disabled",
            |s| set(s, &CONFS, false),
            "Ensures that a piece of configuration is disabled.",
        ),
    ],
};

pub(super) const MODS: StateModule = StateModule {
    name: "apache_module",
    functions: &[
        StateFunction::new(
            "enabled",
            |s| set(s, &MODULES, true),
            "Ensures that a module is enabled.",
        ),
        StateFunction::new(
            "disabled",
            |s| set(s, &MODULES, false),
            "Ensures that a module is disabled.",
        ),
    ],
};

pub(super) const SITE: StateModule = StateModule {
    name: "apache_site",
    functions: &[
        StateFunction::new(
            "enabled",
            |s| set(s, &SITES, true),
            "Ensures that a site is enabled.",
        ),
        StateFunction::new(
            "disabled",
            |s| set(s, &SITES, false),
            "Ensures that a site is disabled.",
        ),
    ],
};

/// What the three differ in.
struct Kind {
    word: &'static str,
    check: &'static str,
    enable: &'static str,
    disable: &'static str,
}

const CONFS: Kind = Kind {
    word: "conf",
    check: "apache.check_conf_enabled",
    enable: "apache.a2enconf",
    disable: "apache.a2disconf",
};

const MODULES: Kind = Kind {
    word: "module",
    check: "apache.check_mod_enabled",
    enable: "apache.a2enmod",
    disable: "apache.a2dismod",
};

const SITES: Kind = Kind {
    word: "site",
    check: "apache.check_site_enabled",
    enable: "apache.a2ensite",
    disable: "apache.a2dissite",
};

fn set(s: &mut State<'_, '_>, kind: &Kind, wanted: bool) -> Result {
    let name = s.name();
    let (verb, word, fun) = if wanted {
        ("enable", "enabled", kind.enable)
    } else {
        ("disable", "disabled", kind.disable)
    };
    let args: Vec<Value> = vec![name.as_str().into()];
    if s.salt(kind.check, args.clone())?.truthy() == wanted {
        return Ok(StateOutcome::good(format!("{name} already {word}.")));
    }
    let changes = if wanted {
        old_new(Value::Nil, name.as_str())
    } else {
        old_new(name.as_str(), Value::Nil)
    };
    if s.test {
        let text = format!("Apache {} {name} is set to be {word}.", kind.word);
        return Ok(StateOutcome::would(text).changes(changes));
    }
    let done = s.salt(fun, args)?;
    let status = done.as_map().and_then(|done| done.get("Status"));
    Ok(match status {
        Some(Value::Str(text)) if text.contains(word) => StateOutcome::good("").changes(changes),
        status => {
            let more = status.and_then(Value::as_str);
            let more = more.map(|text| format!(" ({text})")).unwrap_or_default();
            StateOutcome::bad(format!(
                "Failed to {verb} {name} Apache {}{more}",
                kind.word
            ))
        }
    })
}

fn configfile(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let kwargs =
        map! {"name" => name.as_str(), "config" => s.arg("config").clone(), "edit" => false};
    let text = s.salt_with("apache.config", Vec::new(), kwargs)?;
    let text = python::str(&text);
    let there = s.salt("file.file_exists", [name.as_str().into()])?.truthy();
    let current = if there {
        let read = s.salt("file.read", [name.as_str().into()])?;
        python::str(&read)
    } else {
        String::new()
    };
    if current.trim() == text.trim() {
        return Ok(StateOutcome::good("Configuration is up to date."));
    }
    let changes = old_new(current, text.as_str());
    if s.test {
        return Ok(StateOutcome::would("Configuration will update.").changes(changes));
    }
    let args: Vec<Value> = vec![name.into(), text.into()];
    Ok(match s.salt("file.write", args) {
        Ok(_) => StateOutcome::good("Successfully created configuration.").changes(changes),
        Err(fault) => {
            log::error!("{fault}");
            StateOutcome::bad("Failed to create apache configuration.")
        }
    })
}
