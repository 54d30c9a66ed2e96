//! What a source file needs from its renderer, found without rendering it.

use super::pipeline::{Pipeline, Stages};
use super::{error::RenderError, pipeline::render_json, pipeline::render_yaml};
use halite_jinja::usage::{self, UsedName};

/// Names used by a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlsUsage {
    /// Renderers that do not exist here, such as `py`.
    pub absent_renderers: Vec<String>,
    /// Filters that do not exist here.
    pub absent_filters: Vec<UsedName>,
    /// Execution functions that its templates, `module.run`, conditions and slots call by name.
    pub functions: Vec<UsedName>,
    /// State functions, as far as lines show them: `file.managed`.
    pub states: Vec<UsedName>,
    /// The first error, with its line (0 if unknown).
    pub fault: Option<UsedName>,
}

/// Scans a file of `file_roots` or `pillar_roots`.
pub fn scan(text: &str, name: &str, pipeline: &Pipeline) -> SlsUsage {
    let Stages { here, absent } = pipeline.stages(text);
    let mut out = SlsUsage {
        absent_renderers: absent,
        ..SlsUsage::default()
    };
    if !out.absent_renderers.is_empty() {
        return out;
    }
    let templated = here.contains(&"jinja") && text.contains(['{', '#']);
    if templated {
        match usage::scan(text, name) {
            Ok(uses) => {
                out.absent_filters = uses.absent_filters;
                out.functions = uses.functions;
            }
            Err(e) => {
                let line = e.place().map_or(0, |p| p.line);
                out.fault = Some((e.message().to_owned(), line));
                return out;
            }
        }
    }
    let has_tags = ["{{", "{%", "{#"].iter().any(|tag| text.contains(tag));
    // The output of gpg and of templates is only known after rendering.
    let known_later = (templated && has_tags) || here.contains(&"gpg");
    if !known_later {
        let read = match here.last() {
            Some(&"yaml") => render_yaml(text).map(drop),
            Some(&"json") => render_json(text).map(drop),
            _ => Ok(()),
        };
        out.fault = read.err().map(|e| fault(&e));
    }
    let (states, called) = states(text);
    out.states = states;
    out.functions.extend(called);
    out
}

fn fault(e: &RenderError) -> UsedName {
    let text = e.to_string();
    let first = text.lines().next().unwrap_or_default().to_owned();
    (first, e.line())
}

/// Top-level keys of SLS files that declare no states.
const NO_STATES: [&str; 3] = ["include", "exclude", "extend"];

/// State functions, and the execution functions that `module.run`, conditions (`fun:`) and slots call, guessed from lines:
/// the keys below a name without indentation, or after that name on its line, and the list below them.
fn states(text: &str) -> (Vec<UsedName>, Vec<UsedName>) {
    let (mut found, mut called) = (Vec::new(), Vec::new());
    // The indentation of the keys of this declaration, and the last of these keys.
    let (mut level, mut key) = (None, "");
    for (at, line) in text.lines().enumerate() {
        let body = line.trim_start();
        if body.is_empty() || body.starts_with(['#', '{']) {
            continue;
        }
        for name in called_in(body) {
            called.push((name.to_owned(), at + 1));
        }
        let indent = line.len() - body.len();
        if indent == 0 {
            let id = body.split(':').next().unwrap_or_default();
            level = (!NO_STATES.contains(&id)).then_some(0);
            key = body.split_once(": ").map_or("", |(_, short)| short.trim());
        } else if level == Some(0) || level == Some(indent) && !body.starts_with('-') {
            level = Some(indent);
            key = body;
        } else {
            let Some(entry) = body.strip_prefix("- ").filter(|_| level.is_some()) else {
                continue;
            };
            let bare = key.strip_suffix(':').filter(|module| is_word(module));
            if let Some(module) = bare.filter(|_| is_word(entry)) {
                found.push((format!("{module}.{entry}"), at + 1));
            } else if matches!(function_name(key), Some("module.run" | "module.wait")) {
                let name = entry.strip_prefix("name:").map_or(entry, str::trim);
                let named = name.len() < entry.len() || entry.ends_with(':');
                let name = function_name(name).filter(|_| named);
                called.extend(name.map(|name| (name.to_owned(), at + 1)));
            }
            continue;
        }
        found.extend(declared(key).map(|name| (name, at + 1)));
    }
    (found, called)
}

/// The state function of a key, or of a map or list in brackets after it: `pkg.latest:`, `{pkg.latest: []}`,
/// `pkg: [latest, ...]`.
fn declared(key: &str) -> Option<String> {
    let key = key.trim_start_matches(['{', ' ', '"', '\'']);
    if let Some(name) = function_name(key) {
        return Some(name.to_owned());
    }
    let (module, list) = key.split_once(": [")?;
    let function = list.split([',', ']']).next()?.trim();
    (is_word(module) && is_word(function)).then(|| format!("{module}.{function}"))
}

/// Execution functions that conditions and slots of a line call.
fn called_in(line: &str) -> impl Iterator<Item = &str> {
    let is_key = |before: &str| {
        matches!(before, "" | "- ") || before.ends_with('{') || before.ends_with(", ")
    };
    let fun = line.split_once("fun: ").filter(|found| is_key(found.0));
    let slots = line.split("__slot__:salt:").skip(1);
    fun.map(|(_, name)| name)
        .into_iter()
        .chain(slots)
        .filter_map(|rest| {
            let end = rest.find([',', '}', '(', ' ']).unwrap_or(rest.len());
            function_name(rest[..end].trim_matches(['"', '\'']))
        })
}

fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

/// `module.function`, with or without a colon and more after it.
fn function_name(text: &str) -> Option<&str> {
    let name = text.split(':').next().unwrap_or_default();
    let name = name.trim_end_matches([' ', '"', '\'']);
    let (module, function) = name.split_once('.')?;
    (is_word(module) && is_word(function)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(text: &str) -> SlsUsage {
        let pipeline = Pipeline {
            default: "jinja|yaml".into(),
            blacklist: Vec::new(),
            whitelist: Vec::new(),
        };
        scan(text, "t", &pipeline)
    }

    #[test]
    fn states_are_found_by_line() {
        let text = "{% set x = 1 %}\n/etc/motd:\n  file.managed:\n    - source: salt://motd\n    - watch.in: x\n\
                    {% for n in [1] %}\npkg{{ n }}:\n  pkg:\n    - installed\n{% endfor %}\nvim: pkg.installed\n\
                    git:\n  pkg.latest: []\ninclude:\n  - other.sls\nextend:\n  nginx.conf:\n    a.b: []\n\
                    reload:\n  module.wait:\n    - name: service.reload\n    - m_name: nginx.x\n\
                    refresh:\n  module.run:\n    - mine.update:\n      - x.y: 1\n";
        let found = seen(text);
        assert_eq!(
            found.functions,
            [("service.reload".into(), 21), ("mine.update".into(), 25)]
        );
        assert_eq!(
            found.states,
            [
                ("file.managed".into(), 3),
                ("pkg.installed".into(), 9),
                ("pkg.installed".into(), 11),
                ("pkg.latest".into(), 13),
                ("module.wait".into(), 20),
                ("module.run".into(), 24)
            ]
        );
        assert_eq!(found.fault, None);
    }

    #[test]
    fn states_in_brackets_conditions_and_slots_are_found() {
        let found = seen(
            "a: {pkg.instaled: [{name: x}]}\nb: {'cmd.run': [{name: x, unless: [{fun: file.exists, path: /x}]}]}\n\
             c:\n  pkg: [latest, {name: x}]\n\
             d:\n  cmd.run:\n    - onlyif:\n      - fun: match.grain\n        tgt: x\n\
             e:\n  test.nop:\n    - name: __slot__:salt:a.b(c=__slot__:salt:d.e())\n    - is fun: not.this\n",
        );
        let names = |found: &[UsedName]| {
            let all: Vec<String> = found.iter().map(|(n, l)| format!("{n} {l}")).collect();
            all.join(", ")
        };
        assert_eq!(
            names(&found.states),
            "pkg.instaled 1, cmd.run 2, pkg.latest 4, cmd.run 6, test.nop 11"
        );
        assert_eq!(
            names(&found.functions),
            "file.exists 2, match.grain 8, a.b 12, d.e 12"
        );
    }

    #[test]
    fn errors_are_reported() {
        assert_eq!(seen("#!py\ndef run():\n").absent_renderers, ["py"]);
        assert_eq!(seen("#!jinja|mako|yaml\n").absent_renderers, ["mako"]);
        assert_eq!(seen("#!/bin/sh\na: 1\n").absent_renderers, [""; 0]);
        assert_eq!(seen("a: {{ x | which }}\n").absent_filters.len(), 1);
        assert_eq!(seen("a:\n  b: 1\n   c: 2\n").fault.map(|f| f.1), Some(3));
        assert_eq!(seen("a: 1\n{% endif %}\n").fault.map(|f| f.1), Some(2));
        assert_eq!(seen("#!jinja|gpg|yaml\na: {\n"), SlsUsage::default());
        assert_eq!(seen(""), SlsUsage::default());
    }
}
