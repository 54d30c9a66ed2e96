//! A crontab as data and text (`salt/modules/cron.py list_tab`, `_render_tab`).

use crate::execution::python;
use halite_wire::map;
use halite_wire::{Map, Value};

const MARK: &str = "# Lines below here are managed by Salt, do not edit";
const IDENTIFIER: &str = "SALT_CRON_IDENTIFIER";
const DISABLED: &str = "#DISABLED#";
/// The five time fields of a job.
pub const TIMES: [&str; 5] = ["minute", "hour", "daymonth", "month", "dayweek"];

/// A parsed crontab.
#[derive(Clone, Debug, Default)]
pub struct Tab {
    /// Lines before the marker.
    pub pre: Vec<String>,
    /// Jobs with five time fields.
    pub crons: Vec<Map>,
    /// Jobs with a special time like `@daily`.
    pub special: Vec<Map>,
    /// Variables: `name` and `value`.
    pub env: Vec<Map>,
}

impl Tab {
    /// Reads a crontab.
    pub fn parse(text: &str) -> Tab {
        let mut tab = Tab::default();
        let mut managed = false;
        let mut identifier = Value::Nil;
        let mut comment = Value::Nil;
        for line in text.lines() {
            if line == MARK {
                managed = true;
                continue;
            }
            if !managed {
                tab.pre.push(line.to_owned());
                continue;
            }
            let (line, disabled) = match line.strip_prefix(DISABLED) {
                Some(line) => (line, true),
                None => (line, false),
            };
            let words: Vec<&str> = line.split(' ').collect();
            if line.starts_with('@') {
                let mut words = line.split_whitespace();
                let spec = words.next().unwrap_or_default();
                let cmd: Vec<&str> = words.collect();
                if cmd.is_empty() {
                    continue;
                }
                tab.special.push(map! {
                    "spec" => spec, "cmd" => cmd.join(" "), "identifier" => std::mem::take(&mut identifier),
                    "comment" => std::mem::take(&mut comment), "commented" => disabled,
                });
            } else if line.starts_with('#') {
                add_comment(line, &mut comment, &mut identifier);
            } else if let Some((name, value)) = variable(line) {
                tab.env.push(map! {"name" => name, "value" => value});
            } else if words.len() > 5 {
                let mut job: Map = TIMES.iter().copied().zip(words.iter().copied()).collect();
                job.set("identifier", std::mem::take(&mut identifier));
                job.set("cmd", words[5..].join(" "));
                job.set("comment", std::mem::take(&mut comment));
                job.set("commented", disabled);
                tab.crons.push(job);
            }
        }
        tab
    }

    /// The result of `cron.list_tab`.
    pub fn value(self) -> Value {
        let list = |l: Vec<Map>| Value::Array(l.into_iter().map(Value::Map).collect());
        map! {
            "pre" => self.pre, "crons" => list(self.crons),
            "special" => list(self.special), "env" => list(self.env),
        }
        .into()
    }

    /// The crontab's text.
    pub fn render(&self) -> String {
        let mut out = String::new();
        for line in &self.pre {
            out.push_str(line);
            out.push('\n');
        }
        if self.pre.last().is_none_or(|l| l != MARK) {
            out.push_str(MARK);
            out.push('\n');
        }
        for env in &self.env {
            let value = text(env, "value");
            let value = if value.is_empty() { "\"\"" } else { &value };
            out.push_str(&format!("{}={value}\n", text(env, "name")));
        }
        for job in &self.crons {
            out.push_str(&head(job));
            for time in TIMES {
                out.push_str(&text(job, time));
                out.push(' ');
            }
            out.push_str(&text(job, "cmd"));
            out.push('\n');
        }
        for job in &self.special {
            out.push_str(&head(job));
            out.push_str(&format!("{} {}\n", text(job, "spec"), text(job, "cmd")));
        }
        out
    }
}

/// `NAME=value` without blanks before the equals sign.
fn variable(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once('=')?;
    (!name.is_empty() && !name.contains(' ')).then_some((name, value))
}

fn add_comment(line: &str, comment: &mut Value, identifier: &mut Value) {
    let mut own = line.trim_start_matches(['#', ' ']);
    let mut parts = own.split(IDENTIFIER);
    if let (Some(before), Some(after)) = (parts.next(), parts.next()) {
        own = before.trim_end();
        let mut rest = after.chars();
        rest.next();
        if !rest.as_str().is_empty() {
            *identifier = rest.as_str().into();
        }
    }
    *comment = match comment.as_str() {
        Some(first) => format!("{first}\n{own}").into(),
        None => own.into(),
    };
}

fn text(map: &Map, key: &str) -> String {
    match map.get(key) {
        None | Some(Value::Nil) => String::new(),
        Some(value) => python::str(value),
    }
}

/// Comment lines, and the marker of a disabled job.
fn head(job: &Map) -> String {
    let mut out = String::new();
    let given = |key| job.get(key).is_some_and(|v| !v.is_nil());
    if given("comment") || given("identifier") {
        out.push('#');
        let mut comment = text(job, "comment");
        if job.contains("spec") {
            comment.truncate(comment.trim_end().len());
        }
        if !text(job, "comment").is_empty() {
            out.push_str(&format!(" {}", comment.replace('\n', "\n# ")));
        }
        let identifier = text(job, "identifier");
        if !identifier.is_empty() {
            out.push_str(&format!(" {IDENTIFIER}:{identifier}"));
        }
        out.push('\n');
    }
    if job.get("commented") == Some(&Value::Bool(true)) {
        out.push_str(DISABLED);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_tabs_parse_back() {
        let text = "MAILTO=x\n# Lines below here are managed by Salt, do not edit\nA=\"\"\n\
                    # first\n# second SALT_CRON_IDENTIFIER:id 1\n#DISABLED#1 2 * * 0 echo a  b\n@daily run\n";
        let tab = Tab::parse(text);
        assert_eq!(tab.pre, ["MAILTO=x"]);
        assert_eq!(tab.crons[0].str("identifier"), Some("id 1"));
        assert_eq!(tab.crons[0].str("comment"), Some("first\nsecond"));
        assert_eq!(tab.crons[0].str("cmd"), Some("echo a  b"));
        assert_eq!(tab.special[0].str("spec"), Some("@daily"));
        assert_eq!(tab.render(), text);
    }

    #[test]
    fn an_empty_tab_gets_the_mark() {
        assert_eq!(Tab::parse("").render(), format!("{MARK}\n"));
        assert_eq!(Tab::parse("x\n").render(), format!("x\n{MARK}\n"));
    }
}
