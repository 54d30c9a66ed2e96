//! `match`: whether this minion is meant by a target.

use super::declare::{Function, Module, Result, args};
use super::{Call, Context, Fault, python};
use halite_render::filter_by;
use halite_render::merge::MergeError;
use halite_target::{IpTest, Subject, Target};
use halite_wire::{Map, Value};

/// The key under which `match.ifelse` looks for its last argument.
const ELSE: &str = "SALT_IFELSE_FUNCTION_DEFAULT";

pub(super) const MODULE: Module = Module {
    name: "match",
    functions: &[
        Function::new("compound", |c| named(c, "compound"), "Whether a compound target means this minion.")
            .args(args![tgt, minion_id = None]),
        Function::new("glob", |c| named(c, "glob"), "Whether a glob fits the minion's id.")
            .args(args![tgt, minion_id = None]),
        Function::new("pcre", |c| named(c, "pcre"), "Whether a regular expression fits the minion's id.")
            .args(args![tgt, minion_id = None]),
        Function::new("list", |c| named(c, "list_"), "Whether the minion's id is in a list.")
            .inner("list_")
            .args(args![tgt, minion_id = None]),
        Function::new("ipcidr", |c| of_kind(c, "ipcidr", c.arg("tgt"), None), "Whether the minion has an address, or one in a network.")
            .args(args![tgt]),
        Function::new("data", |c| of_kind(c, "data", c.arg("tgt"), None), "Whether the data store fits; nothing does, as in stock.")
            .args(args![tgt]),
        Function::new("grain", |c| delimited(c, "grain"), "Whether a glob fits a grain.")
            .args(args![tgt, delimiter = ":"]),
        Function::new("grain_pcre", |c| delimited(c, "grain_pcre"), "Whether a regular expression fits a grain.")
            .args(args![tgt, delimiter = ":"]),
        Function::new("pillar", |c| delimited(c, "pillar"), "Whether a glob fits a value of the pillar.")
            .args(args![tgt, delimiter = ":"]),
        Function::new("pillar_pcre", |c| delimited(c, "pillar_pcre"), "Whether a regular expression fits a value of the pillar.")
            .args(args![tgt, delimiter = ":"]),
        Function::new("filter_by", filter_by, "The value of the first key of a map that means this minion, or of the default.")
            .args(args![
                lookup, tgt_type = "compound", minion_id = None, merge = None, merge_lists = False,
                default = "default"
            ]),
        Function::new("search_by", search_by, "The keys of a map in whose lists a target means this minion.")
            .args(args![lookup, tgt_type = "compound", minion_id = None]),
        Function::new("ifelse", ifelse, "Of pairs of target and value the first value whose target means this minion, else the last argument.")
            .args(args![tgt_type = "compound", minion_id = None, merge = None, merge_lists = False])
            .varargs()
            .keyword_only(),
    ],
};

struct About<'a> {
    id: &'a str,
    ctx: &'a Context,
}

impl Subject for About<'_> {
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

fn named(call: &mut Call<'_>, kind: &str) -> Result {
    of_kind(call, kind, call.arg("tgt"), Some(call.arg("minion_id")))
}

fn delimited(call: &mut Call<'_>, kind: &str) -> Result {
    of_kind(call, kind, call.arg("tgt"), Some(call.arg("delimiter")))
}

/// One of the functions by the name that it has inside of stock's module, with the second argument
/// that it may take: an id, or a delimiter for grains and pillar.
///
/// # Errors
/// There is no such function, or it takes no second argument. A target that cannot be read means
/// nobody.
fn of_kind(call: &Call<'_>, name: &str, tgt: &Value, second: Option<&Value>) -> Result {
    let second = second.filter(|v| !v.is_nil());
    let text = second.map(python::str);
    let (kind, id, delimiter) = match name {
        "compound" | "glob" | "pcre" => (name, text.filter(|t| !t.is_empty()), None),
        "list_" => ("list", text.filter(|t| !t.is_empty()), None),
        "grain" | "grain_pcre" | "pillar" | "pillar_pcre" => (name, None, text),
        "ipcidr" | "data" if second.is_some() => {
            let text = format!("{name}() takes 1 positional argument but 2 were given");
            return Err(Fault::Type(text));
        }
        // Stock's matcher is about a function that is no more.
        "data" => return Ok(false.into()),
        "ipcidr" => match tgt.as_str().and_then(IpTest::parse) {
            Some(_) => (name, None, None),
            None => return Ok(Value::Array(Vec::new())),
        },
        other => return Err(Fault::raised("KeyError", python::repr(&other.into()))),
    };
    let about = About {
        id: id.as_deref().unwrap_or(&call.ctx.id),
        ctx: call.ctx,
    };
    let meant = Target::parse(tgt, kind, delimiter.as_deref())
        .and_then(|target| target.try_matches(&about))
        .inspect_err(|e| log::error!("{e}"));
    Ok(meant.unwrap_or(false).into())
}

impl From<MergeError> for Fault {
    fn from(e: MergeError) -> Fault {
        Fault::Type(e.to_string())
    }
}

fn lookup(call: &Call<'_>) -> std::result::Result<Map, Fault> {
    match call.arg("lookup") {
        Value::Map(map) => Ok(map.clone()),
        other => Err(Fault::raised(
            "AttributeError",
            format!(
                "'{}' object has no attribute 'get'",
                python::short_class(other)
            ),
        )),
    }
}

/// Whether a key of a table means the minion, by the arguments `tgt_type` and `minion_id`.
fn meant(call: &Call<'_>, tgt: &Value) -> std::result::Result<bool, Fault> {
    let kind = python::str(call.arg("tgt_type"));
    let id = Some(call.arg("minion_id")).filter(|id| id.truthy());
    of_kind(call, &kind, tgt, id).map(|v| v.truthy())
}

fn choose(call: &Call<'_>, lookup: &Map, default: &Value) -> Result {
    let over = call.arg("merge");
    let over = match over {
        Value::Map(map) if !map.is_empty() => Some((map, call.flag("merge_lists"))),
        _ => None,
    };
    let found = filter_by::filter_by(lookup, default, over, |key| {
        let meant = meant(call, key)?;
        if meant && over.is_none() && call.flag("merge") {
            Err(Fault::raised(
                "salt.exceptions.SaltException",
                "filter_by merge argument must be a dictionary.",
            ))
        } else {
            Ok(meant)
        }
    })?;
    Ok(found.unwrap_or_default())
}

fn filter_by(call: &mut Call<'_>) -> Result {
    choose(call, &lookup(call)?, call.arg("default"))
}

fn search_by(call: &mut Call<'_>) -> Result {
    filter_by::search_by(&lookup(call)?, |tgt| meant(call, tgt))
}

fn ifelse(call: &mut Call<'_>) -> Result {
    let args = &call.bound.varargs;
    let (Some(last), 1) = (args.last(), args.len() % 2) else {
        return Err(Fault::raised(
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
    table.set(ELSE, last.clone());
    choose(call, &table, &ELSE.into())
}
