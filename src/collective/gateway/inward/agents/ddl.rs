//! Inputs and outputs of the agents. Requests are checked against these tables, and the files that clients need
//! (`packaging/collective/halite.ddl`, `halite.json`) are generated from them.

use crate::ruby::Datum;
use regex::Regex;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::Write;

/// An agent.
#[derive(Debug)]
pub struct Ddl {
    /// Its name.
    pub name: &'static str,
    /// One-line description.
    pub description: &'static str,
    /// How long clients wait for an action, in seconds.
    pub timeout: u32,
    /// Its actions.
    pub actions: &'static [Action],
}

/// An action of an agent.
#[derive(Debug)]
pub struct Action {
    /// Its name.
    pub name: &'static str,
    /// One-line description.
    pub description: &'static str,
    /// Its inputs.
    pub inputs: &'static [Input],
    /// Its outputs.
    pub outputs: &'static [Output],
}

/// An input of an action.
#[derive(Debug)]
pub struct Input {
    /// Its name.
    pub name: &'static str,
    /// Its label in forms.
    pub prompt: &'static str,
    /// One-line description.
    pub description: &'static str,
    /// Its type.
    pub kind: InputType,
    /// Whether it may be omitted.
    pub optional: bool,
}

/// The type of an input.
#[derive(Debug)]
pub enum InputType {
    /// Text of at most that many characters that matches a regular expression.
    Text(usize, &'static str),
    /// A whole number.
    Integer,
}

/// An output of an action.
#[derive(Debug)]
pub struct Output {
    /// Its name.
    pub name: &'static str,
    /// One-line description.
    pub description: &'static str,
    /// Its heading.
    pub display_as: &'static str,
}

/// An output, for tables.
pub(super) const fn out(
    name: &'static str,
    description: &'static str,
    display_as: &'static str,
) -> Output {
    Output {
        name,
        description,
        display_as,
    }
}

/// An error of a request: statuscode and statusmsg (reference, section 11).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RpcError(pub u8, pub String);

impl Ddl {
    /// The action with that name.
    pub fn action(&self, name: &str) -> Option<&'static Action> {
        self.actions.iter().find(|action| action.name == name)
    }

    /// Checks a request: 2 for an unknown action, 3 for a missing input, 4 for an invalid one.
    pub(crate) fn check(&self, action: &str, data: &Datum) -> Result<&'static Action, RpcError> {
        let Some(found) = self.action(action) else {
            let shown: String = action.chars().take(80).collect();
            let text = format!("Unknown action '{shown}' for agent '{}'", self.name);
            return Err(RpcError(2, text));
        };
        for input in found.inputs {
            match data.get(input.name) {
                None | Some(Datum::Nil) if input.optional => {}
                None => {
                    let text = format!("Action {action} needs a {} argument", input.name);
                    return Err(RpcError(3, text));
                }
                Some(given) => input.check(given).map_err(|why| {
                    RpcError(4, format!("Cannot validate input {}: {why}", input.name))
                })?,
            }
        }
        Ok(found)
    }
}

impl Input {
    /// Checks a value for this input; the error says why it is invalid.
    pub(crate) fn check(&self, given: &Datum) -> Result<(), String> {
        match self.kind {
            InputType::Text(longest, pattern) => {
                let text = given.as_str().ok_or("value should be a string")?;
                if text.chars().count() > longest {
                    return Err(format!(
                        "Input string is longer than {longest} character(s)"
                    ));
                }
                if matches(pattern, text) {
                    Ok(())
                } else {
                    Err(format!("value should match {pattern}"))
                }
            }
            InputType::Integer => match given {
                Datum::Int(_) => Ok(()),
                _ => Err("value should be a integer".to_owned()),
            },
        }
    }
}

/// Whether a text matches a pattern of these tables; each is compiled once.
fn matches(pattern: &'static str, text: &str) -> bool {
    thread_local! {
        static COMPILED: RefCell<HashMap<&'static str, Option<Regex>>> = RefCell::default();
    }
    COMPILED.with_borrow_mut(|compiled| {
        let regex = compiled.entry(pattern);
        let regex = regex.or_insert_with(|| Regex::new(pattern).ok());
        regex.as_ref().is_some_and(|regex| regex.is_match(text))
    })
}

/// A text in Ruby's double quotes; nothing in these tables needs more escapes.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

impl Ddl {
    /// The file for clients of MCollective: `mcollective/agent/<name>.ddl` in their `libdir`.
    pub fn to_ruby(&self) -> String {
        let mut out = String::new();
        let mut put = |line: &str| {
            out.push_str(line);
            out.push('\n');
        };
        put(&format!("metadata :name        => {},", quoted(self.name)));
        put(&format!(
            "         :description => {},",
            quoted(self.description)
        ));
        put(&format!(
            "         :author      => {},",
            quoted(super::AUTHOR)
        ));
        put(&format!(
            "         :license     => {},",
            quoted(super::LICENSE)
        ));
        put(&format!(
            "         :version     => {},",
            quoted(super::VERSION)
        ));
        put(&format!("         :url         => {},", quoted(super::URL)));
        put(&format!("         :timeout     => {}", self.timeout));
        for action in self.actions {
            let (name, about) = (quoted(action.name), quoted(action.description));
            put(&format!("\naction {name}, :description => {about} do"));
            put("    display :always");
            for input in action.inputs {
                put(&format!("\n    input :{},", input.name));
                put(&format!(
                    "          :prompt      => {},",
                    quoted(input.prompt)
                ));
                put(&format!(
                    "          :description => {},",
                    quoted(input.description)
                ));
                match input.kind {
                    InputType::Text(longest, pattern) => {
                        put("          :type        => :string,");
                        put(&format!("          :validation  => '{pattern}',"));
                        put(&format!("          :maxlength   => {longest},"));
                    }
                    InputType::Integer => put("          :type        => :integer,"),
                }
                put(&format!("          :optional    => {}", input.optional));
            }
            for output in action.outputs {
                put(&format!("\n    output :{},", output.name));
                put(&format!(
                    "           :description => {},",
                    quoted(output.description)
                ));
                put(&format!(
                    "           :display_as  => {}",
                    quoted(output.display_as)
                ));
            }
            put("end");
        }
        out
    }

    /// The file for clients of Choria: `<name>.json` beside it.
    pub fn to_json(&self) -> String {
        use serde_json::json;
        let actions = self.actions.iter().map(|action| {
            let mut inputs = serde_json::Map::new();
            for input in action.inputs {
                let (kind, rest) = match input.kind {
                    InputType::Text(longest, pattern) => ("string", Some((longest, pattern))),
                    InputType::Integer => ("integer", None),
                };
                let mut one = json!({
                    "prompt": input.prompt, "description": input.description,
                    "type": kind, "optional": input.optional,
                });
                if let (Some((longest, pattern)), Some(one)) = (rest, one.as_object_mut()) {
                    one.insert("validation".into(), json!(pattern));
                    one.insert("maxlength".into(), json!(longest));
                }
                inputs.insert(input.name.into(), one);
            }
            let outputs: serde_json::Map<_, _> = action
                .outputs
                .iter()
                .map(|output| {
                    let about =
                        json!({"description": output.description, "display_as": output.display_as});
                    (output.name.to_owned(), about)
                })
                .collect();
            json!({
                "action": action.name, "description": action.description, "display": "always",
                "input": inputs, "output": outputs,
            })
        });
        let all = json!({
            "$schema": "https://choria.io/schemas/mcorpc/ddl/v1/agent.json",
            "metadata": {
                "name": self.name, "description": self.description, "author": super::AUTHOR,
                "license": super::LICENSE, "version": super::VERSION, "url": super::URL,
                "timeout": self.timeout,
            },
            "actions": actions.collect::<Vec<_>>(),
        });
        let mut out = String::new();
        if let Ok(text) = serde_json::to_string_pretty(&all) {
            let _ = writeln!(out, "{text}");
        }
        out
    }
}
