//! Parses a `cmd` into a function and its arguments.
//!
//! The description leaves the payload of a command open. Here it is a line as for `halite-call` (`test.echo 'two
//! words' key=value`), or JSON (`{"fun": ..., "arg": [...], "kwarg": {...}}`). In the later dialect the line is the
//! `uri` of the payload, and the context its keyword arguments. No shell is involved, and only functions that the
//! option `sysinspect_functions` allows are run.

use crate::wire::payload_value;
use halite_target::fnmatch;
use halite_wire::yaml::{parse_input, yamlify_arg};
use halite_wire::{Map, Value, shlex};

/// Longest line in bytes.
const MAX_LINE: usize = 64 * 1024;

/// A function to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    /// Its name, `module.function`.
    pub fun: String,
    /// Its arguments; keyword arguments are in a map at the end, as in a publication.
    pub args: Vec<Value>,
}

impl Command {
    /// Parses a payload, with the context (`cq`) sent with it.
    ///
    /// # Errors
    /// A text for the master: the payload is no function, or not an allowed one.
    pub fn read(payload: &Value, context: &str, allowed: &[String]) -> Result<Command, String> {
        let command = match payload_value(payload) {
            Value::Map(map) if map.contains("fun") => Command::of_map(&map)?,
            Value::Map(map) => Command::of_line(map.str("uri").unwrap_or_default(), context)?,
            _ => Command::of_line(payload.as_str().unwrap_or_default(), context)?,
        };
        let fun = &command.fun;
        let Some((module, name)) = fun.split_once('.') else {
            return Err(unknown(fun));
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if module.is_empty()
            || name.is_empty()
            || !module.chars().all(plain)
            || !name.chars().all(plain)
        {
            return Err(unknown(fun));
        }
        if !allowed.iter().any(|glob| fnmatch(fun, glob)) {
            return Err(format!(
                "{fun} is not among the functions that sysinspect_functions allows on this minion"
            ));
        }
        Ok(command)
    }

    fn of_line(line: &str, context: &str) -> Result<Command, String> {
        if line.len() > MAX_LINE {
            return Err(format!("a command has at most {MAX_LINE} bytes"));
        }
        let mut words = shlex::split(line).map_err(|_| "a quote is not closed".to_owned())?;
        if words.is_empty() {
            return Err("the command is empty: name a function, such as test.ping".to_owned());
        }
        let fun = words.remove(0);
        let (mut args, mut keywords) = parse_input(&words, &[]);
        for pair in context.split(',').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once(':').unwrap_or((pair, ""));
            keywords.set(key.trim(), yamlify_arg(value));
        }
        add_keywords(&mut args, keywords);
        Ok(Command { fun, args })
    }

    fn of_map(map: &Map) -> Result<Command, String> {
        let fun = map.str("fun").ok_or("fun is not a string")?.to_owned();
        let mut args = match map.get("arg") {
            None => Vec::new(),
            Some(Value::Array(args)) => args.clone(),
            Some(_) => return Err("arg is not a list".to_owned()),
        };
        match map.get("kwarg") {
            None => {}
            Some(Value::Map(keywords)) => add_keywords(&mut args, keywords.clone()),
            Some(_) => return Err("kwarg is not an object".to_owned()),
        }
        Ok(Command { fun, args })
    }
}

fn unknown(fun: &str) -> String {
    let shown: String = fun.chars().take(100).collect();
    format!(
        "{shown:?} is not a function (module.function); this minion runs no models and no shell commands"
    )
}

fn add_keywords(args: &mut Vec<Value>, mut keywords: Map) {
    if !keywords.is_empty() {
        keywords.set("__kwarg__", true);
        args.push(keywords.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::map;

    fn read(payload: impl Into<Value>, context: &str) -> Result<Command, String> {
        let allowed = ["test.*".to_owned(), "grains.get".to_owned()];
        Command::read(&payload.into(), context, &allowed)
    }

    #[test]
    fn lines_and_objects() {
        let echo = |args: Vec<Value>| Command {
            fun: "test.echo".to_owned(),
            args,
        };
        let with = |n: i64| Value::from(map! {"n" => n, "__kwarg__" => true});
        for (payload, context, expected) in [
            ("test.echo", "", vec![]),
            ("test.echo 'a b' 5", "", vec!["a b".into(), 5.into()]),
            ("test.echo n=5", "", vec![with(5)]),
            ("test.echo", "n:5", vec![with(5)]),
            (
                r#"{"fun":"test.echo","arg":["a"],"kwarg":{"n":1}}"#,
                "",
                vec!["a".into(), with(1)],
            ),
            (r#"{"files":{},"uri":"test.echo x"}"#, "", vec!["x".into()]),
        ] {
            assert_eq!(read(payload, context), Ok(echo(expected)), "{payload}");
        }
        let object = map! {"files" => Map::new(), "uri" => "test.echo x"};
        assert_eq!(read(object, ""), Ok(echo(vec!["x".into()])));
    }

    #[test]
    fn what_is_not_run() {
        for (payload, why) in [
            ("", "empty"),
            ("cmd.run id", "sysinspect_functions"),
            ("grains.getx os", "sysinspect_functions"),
            ("router/addresses/interfaces", "not a function"),
            ("cmd://cluster/minion/remove", "not a function"),
            ("test.echo;id", "not a function"),
            ("test.", "not a function"),
            ("test.echo 'a", "not closed"),
            (r#"{"fun":1}"#, "not a string"),
            (r#"{"fun":"test.echo","arg":1}"#, "not a list"),
            (r#"{"fun":"test.echo","kwarg":1}"#, "not an object"),
        ] {
            let said = read(payload, "").unwrap_err();
            assert!(said.contains(why), "{payload}: {said}");
        }
        assert!(read(Value::Bytes(vec![0xff]), "").is_err());
        let long = format!("test.echo {}", "x".repeat(MAX_LINE));
        assert!(read(long, "").unwrap_err().contains("at most"));
    }
}
