//! `extra_minion_data_in_pillar`: the options that a minion passes on (`pass_to_ext_pillars`), in its own pillar.

use super::super::Compilation;
use super::{ExtArgs, ExtResult};
use halite_wire::{Map, Value};

/// All of them, in stock's two words for it.
const ALL: [&str; 2] = ["*", "<all>"];

pub(super) fn run(compile: &Compilation, _: &Map, args: &ExtArgs) -> ExtResult {
    let data = &compile.request.extra_minion_data;
    let wanted = match args.0.get("include") {
        Some(Value::Str(word)) if ALL.contains(&word.as_str()) => {
            return Ok(Value::Map(data.clone()));
        }
        Some(Value::Str(one)) => vec![one.clone()],
        Some(Value::Array(list)) if list.iter().all(|one| one.as_str().is_some()) => {
            args.list("include")
        }
        _ => return Err("the argument 'include' must be * or a list of names".to_owned()),
    };
    let mut found = Map::new();
    for path in wanted {
        take(data, &path, &mut found);
    }
    Ok(Value::Map(found))
}

/// Copies what is at `path`, whose levels are separated by colons; nothing if there is nothing.
fn take(from: &Map, path: &str, to: &mut Map) {
    let (key, rest) = match path.split_once(':') {
        Some((key, rest)) => (key, Some(rest)),
        None => (path, None),
    };
    match (from.get(key), rest) {
        (Some(value), None) => to.set(key, value.clone()),
        (Some(Value::Map(inner)), Some(rest)) => {
            let mut part = match to.remove(key) {
                Some(Value::Map(part)) => part,
                _ => Map::new(),
            };
            take(inner, rest, &mut part);
            if !part.is_empty() {
                to.set(key, part);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::map;

    /// The answers of stock 3008.3.
    #[test]
    fn parts_are_taken_by_their_paths() {
        let data = map! {"a" => map! {"b" => map! {"c" => 1}, "x" => 2}, "s" => "t"};
        let taken = |paths: &[&str]| {
            let mut found = Map::new();
            paths.iter().for_each(|path| take(&data, path, &mut found));
            found
        };
        assert_eq!(
            taken(&["a"]),
            map! {"a" => map! {"b" => map! {"c" => 1}, "x" => 2}}
        );
        let inner = map! {"a" => map! {"b" => map! {"c" => 1}}, "s" => "t"};
        assert_eq!(taken(&["a:b:c", "s"]), inner);
        assert_eq!(taken(&["a:b", "a:x"]).get("a"), data.get("a"));
        assert_eq!(taken(&["zz", "a:zz", "s:t", "*"]), Map::new());
    }
}
