//! `match`: whether a target matches this minion.

use super::declare::{Function, Module, Result, args};
use super::{Call, CallError, Context, python, python_modules};
use halite_render::filter_by;
use halite_render::merge::MergeError;
use halite_target::{IpTest, Subject, Target};
use halite_wire::{Map, Value};

/// Key under which `match.ifelse` looks up its last argument.
const DEFAULT_KEY: &str = "SALT_IFELSE_FUNCTION_DEFAULT";

pub(super) const MODULE: Module = Module {
    name: "match",
    functions: &[
        Function::new("compound", |c| match_with_id(c, "compound"), "Whether a compound target matches this minion.")
            .args(args![tgt, minion_id = None]),
        Function::new("glob", |c| match_with_id(c, "glob"), "Whether a glob matches the minion's id.")
            .args(args![tgt, minion_id = None]),
        Function::new("pcre", |c| match_with_id(c, "pcre"), "Whether a regular expression matches the minion's id.")
            .args(args![tgt, minion_id = None]),
        Function::new("list", |c| match_with_id(c, "list_"), "Whether the minion's id is in a list.")
            .inner("list_")
            .args(args![tgt, minion_id = None]),
        Function::new("ipcidr", |c| match_by(c, "ipcidr", c.arg("tgt"), None), "Whether the minion has an address, or an address in a network.")
            .args(args![tgt]),
        Function::new("data", |c| match_by(c, "data", c.arg("tgt"), None), "Whether the data store matches; always false, as in stock.")
            .args(args![tgt]),
        Function::new("grain", |c| match_with_delimiter(c, "grain"), "Whether a glob matches a grain.")
            .args(args![tgt, delimiter = ":"]),
        Function::new("grain_pcre", |c| match_with_delimiter(c, "grain_pcre"), "Whether a regular expression matches a grain.")
            .args(args![tgt, delimiter = ":"]),
        Function::new("pillar", |c| match_with_delimiter(c, "pillar"), "Whether a glob matches a pillar value.")
            .args(args![tgt, delimiter = ":"]),
        Function::new("pillar_pcre", |c| match_with_delimiter(c, "pillar_pcre"), "Whether a regular expression matches a pillar value.")
            .args(args![tgt, delimiter = ":"]),
        Function::new("filter_by", filter_by, "The value of the first map key that matches this minion, or of the default.")
            .args(args![
                lookup, tgt_type = "compound", minion_id = None, merge = None, merge_lists = False,
                default = "default"
            ]),
        Function::new("search_by", search_by, "The map keys whose lists contain a target that matches this minion.")
            .args(args![lookup, tgt_type = "compound", minion_id = None]),
        Function::new("ifelse", ifelse, "The value of the first matching target among pairs of target and value, else the last argument.")
            .args(args![tgt_type = "compound", minion_id = None, merge = None, merge_lists = False])
            .varargs()
            .keyword_only(),
    ],
};

struct MinionData<'a> {
    id: &'a str,
    ctx: &'a Context,
}

impl Subject for MinionData<'_> {
    fn id(&self) -> &str {
        self.id
    }

    fn grains(&self) -> &Map {
        &self.ctx.grains
    }

    fn pillar(&self) -> &Map {
        &self.ctx.pillar
    }

    fn nodegroups(&self) -> Option<&Map> {
        self.ctx.opts.get("nodegroups").and_then(Value::as_map)
    }
}

fn match_with_id(call: &mut Call<'_>, kind: &str) -> Result {
    match_by(call, kind, call.arg("tgt"), Some(call.arg("minion_id")))
}

fn match_with_delimiter(call: &mut Call<'_>, kind: &str) -> Result {
    match_by(call, kind, call.arg("tgt"), Some(call.arg("delimiter")))
}

/// Whether a target matches this minion, as a matcher in a Python file of users (`_matchers`, `NAME_match.py`) tells; `None` if
/// there is none of that name.
///
/// # Errors
/// What the matcher raises.
pub fn by_python(
    ctx: &Context,
    kind: &str,
    is_ours: bool,
    tgt: &Value,
    more: Map,
) -> Result<Option<bool>> {
    let function = format!("{}_match.match", kind.trim_end_matches('_'));
    if !python_modules::has(ctx, "matchers", &function, is_ours) {
        return Ok(None);
    }
    let args = vec![tgt.clone()];
    let matched = python_modules::use_function(ctx, "matchers", &function, args, more)?;
    Ok(Some(matched.truthy()))
}

/// Matches by a function's name inside stock's module. Some take a second argument: an id, or a delimiter for grains
/// and pillar.
///
/// # Errors
/// The function does not exist or takes no second argument. An invalid target matches nothing.
fn match_by(call: &Call<'_>, name: &str, tgt: &Value, second: Option<&Value>) -> Result {
    let second = second.filter(|v| !v.is_nil());
    let text = second.map(python::str);
    let (kind, id, delimiter) = match name {
        "compound" | "glob" | "pcre" => (name, text.filter(|t| !t.is_empty()), None),
        "list_" => ("list", text.filter(|t| !t.is_empty()), None),
        "grain" | "grain_pcre" | "pillar" | "pillar_pcre" => (name, None, text),
        "ipcidr" | "data" if second.is_some() => {
            let text = format!("{name}() takes 1 positional argument but 2 were given");
            return Err(CallError::Type(text));
        }
        // Stock's matcher uses a function that no longer exists.
        "data" => return Ok(false.into()),
        "ipcidr" => match tgt.as_str().and_then(IpTest::parse) {
            Some(_) => (name, None, None),
            None => return Ok(Value::Array(Vec::new())),
        },
        other => return Err(CallError::raised("KeyError", python::repr(&other.into()))),
    };
    let more = [("minion_id", &id), ("delimiter", &delimiter)];
    let more = more
        .into_iter()
        .filter_map(|(key, value)| Some((key, Value::from(value.as_deref()?))));
    if let Some(matched) = by_python(call.ctx, kind, true, tgt, more.collect())? {
        return Ok(matched.into());
    }
    let about = MinionData {
        id: id.as_deref().unwrap_or(&call.ctx.id),
        ctx: call.ctx,
    };
    let meant = Target::parse(tgt, kind, delimiter.as_deref())
        .and_then(|target| target.try_matches(&about))
        .inspect_err(|e| log::error!("{e}"));
    Ok(meant.unwrap_or(false).into())
}

impl From<MergeError> for CallError {
    fn from(e: MergeError) -> CallError {
        CallError::Type(e.to_string())
    }
}

fn lookup(call: &Call<'_>) -> Result<Map> {
    match call.arg("lookup") {
        Value::Map(map) => Ok(map.clone()),
        other => Err(CallError::raised(
            "AttributeError",
            format!(
                "'{}' object has no attribute 'get'",
                python::type_name(other)
            ),
        )),
    }
}

/// Whether a table key matches the minion, according to the arguments `tgt_type` and `minion_id`.
fn target_matches(call: &Call<'_>, tgt: &Value) -> Result<bool> {
    let kind = python::str(call.arg("tgt_type"));
    let id = Some(call.arg("minion_id")).filter(|id| id.truthy());
    match_by(call, &kind, tgt, id).map(|v| v.truthy())
}

fn filter_by_match(call: &Call<'_>, lookup: &Map, default: &Value) -> Result {
    let over = call.arg("merge");
    let over = match over {
        Value::Map(map) if !map.is_empty() => Some((map, call.flag("merge_lists"))),
        _ => None,
    };
    let found = filter_by::filter_by(lookup, default, over, |key| {
        let matches = target_matches(call, key)?;
        if matches && over.is_none() && call.flag("merge") {
            Err(CallError::raised(
                "salt.exceptions.SaltException",
                "filter_by merge argument must be a dictionary.",
            ))
        } else {
            Ok(matches)
        }
    })?;
    Ok(found.unwrap_or_default())
}

fn filter_by(call: &mut Call<'_>) -> Result {
    filter_by_match(call, &lookup(call)?, call.arg("default"))
}

fn search_by(call: &mut Call<'_>) -> Result {
    filter_by::search_by(&lookup(call)?, |tgt| target_matches(call, tgt))
}

fn ifelse(call: &mut Call<'_>) -> Result {
    let args = &call.bound.varargs;
    let (Some(last), 1) = (args.last(), args.len() % 2) else {
        return Err(CallError::raised(
            "salt.exceptions.SaltException",
            "The ifelse function must have an odd number of arguments!",
        ));
    };
    if args.len() == 1 {
        return Ok(last.clone());
    }
    let mut table = Map::new();
    for pair in args.chunks_exact(2) {
        let key = match &pair[0] {
            Value::Bool(true) => "*".into(),
            Value::Bool(false) => "SALT_IFELSE_MATCH_NOTHING".into(),
            other => other.clone(),
        };
        match table.0.iter_mut().find(|(k, _)| *k == key) {
            Some(slot) => slot.1 = pair[1].clone(),
            None => table.0.push((key, pair[1].clone())),
        }
    }
    table.set(DEFAULT_KEY, last.clone());
    filter_by_match(call, &table, &DEFAULT_KEY.into())
}
