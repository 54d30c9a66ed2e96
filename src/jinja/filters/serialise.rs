//! Filters that serialise values as JSON, YAML, XML and Python, and parse them (`salt/utils/jinja.py
//! SerializerExtension`).

use super::super::cx::Cx;
use super::super::error::{Error, ErrorKind};
use super::super::value::{Args, Dict, Obj};
use super::json::{JsonStyle, dumps, loads};
use super::{FilterFn, flag, pprint, xml};
use halite_wire::{Map, Value, yaml};

pub(super) const TABLE: &[(&str, FilterFn)] = &[
    ("dict_to_sls_yaml_params", dict_to_sls_yaml_params),
    ("json", json),
    ("load_json", load_json),
    ("load_text", load_text),
    ("load_yaml", load_yaml),
    ("pprint", pprint_),
    ("python", python),
    ("tojson", tojson),
    ("xml", xml_),
    ("yaml", yaml_),
];

/// All strict undefined values inside a value, combined into one (`_handle_strict_undefined`).
///
/// # Errors
/// Endless nesting.
pub(super) fn undefined_within(cx: &mut Cx, value: &Obj) -> Result<Option<Obj>, Error> {
    let mut messages = Vec::new();
    collect(cx, value, &mut messages, 0)?;
    if messages.is_empty() {
        Ok(None)
    } else {
        Ok(Some(cx.undefined(messages.join("\n"))))
    }
}

fn collect(cx: &mut Cx, value: &Obj, out: &mut Vec<String>, depth: usize) -> Result<(), Error> {
    cx.charge(1)?;
    if depth > 100 {
        return Err(Error::limit("containers are nested too deeply"));
    }
    match value {
        Obj::Undefined(missing) if missing.strict => out.push(missing.message()),
        Obj::List(list) => {
            for item in list.borrow().iter() {
                collect(cx, item, out, depth + 1)?;
            }
        }
        Obj::Tuple(items) => {
            for item in items.iter() {
                collect(cx, item, out, depth + 1)?;
            }
        }
        Obj::Dict(dict) => {
            for item in dict.borrow().values() {
                collect(cx, item, out, depth + 1)?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// `indent` of `json.dumps`: a number of spaces, or the text itself.
fn indent(argument: &Option<Obj>) -> Result<Option<String>, Error> {
    match argument {
        None | Some(Obj::None) => Ok(None),
        Some(obj) => match obj.as_str() {
            Some(text) => Ok(Some(text.to_owned())),
            None => {
                let blanks = super::integer(argument, 0)?;
                Ok(Some(
                    " ".repeat(usize::try_from(blanks).unwrap_or(0).min(1000)),
                ))
            }
        },
    }
}

fn tojson(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    if let Some(undefined) = undefined_within(cx, value)? {
        return Ok(undefined);
    }
    let names = ["indent", "sort_keys", "ensure_ascii", "separators"];
    let bound = args.bind("tojson", &names)?;
    let separators = match &bound[3] {
        None | Some(Obj::None) => None,
        Some(pair) => match cx.iterate(pair)?.as_slice() {
            [item, key] => Some((item.to_str()?, key.to_str()?)),
            _ => return Err(Error::value_error("separators must be a pair")),
        },
    };
    let style = JsonStyle {
        indent: indent(&bound[0])?,
        sort_keys: flag(&bound[1], false)?,
        ascii: flag(&bound[2], true)?,
        separators,
    };
    let text = dumps(cx, value, &style)?;
    let text = text
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\'', "\\u0027");
    Ok(text.into())
}

fn json(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    if let Some(undefined) = undefined_within(cx, value)? {
        return Ok(undefined);
    }
    let bound = args.bind("format_json", &["sort_keys", "indent"])?;
    let style = JsonStyle {
        indent: indent(&bound[1])?,
        sort_keys: flag(&bound[0], true)?,
        ascii: false,
        separators: None,
    };
    Ok(Obj::Markup(dumps(cx, value, &style)?.trim().into()))
}

/// `salt.utils.yaml.safe_dump`, trimmed as the filters do.
fn yaml_text(value: &Obj, flow: bool) -> Result<Obj, Error> {
    let value = value.to_value()?;
    let text = if flow {
        yaml::emit_flow_lines(&value)
    } else {
        yaml::emit(&value, true)
    };
    let text = text.trim_matches(halite_wire::pytext::is_space);
    Ok(Obj::Markup(
        text.strip_suffix("\n...").unwrap_or(text).into(),
    ))
}

fn yaml_(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    if let Some(undefined) = undefined_within(cx, value)? {
        return Ok(undefined);
    }
    let bound = args.bind("format_yaml", &["flow_style"])?;
    yaml_text(value, flag(&bound[0], true)?)
}

fn dict_to_sls_yaml_params(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    if let Some(undefined) = undefined_within(cx, value)? {
        return Ok(undefined);
    }
    let bound = args.bind("dict_to_sls_yaml_params", &["flow_style"])?;
    let Obj::Dict(dict) = value else {
        return Err(super::no_attribute(value, "items"));
    };
    let mut entries = Vec::new();
    for (key, item) in dict.borrow().iter() {
        let mut one = Dict::new();
        one.insert(key.clone(), item.clone())?;
        entries.push(one.into());
    }
    yaml_text(&Obj::list(entries), flag(&bound[0], false)?)
}

fn python(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    if let Some(undefined) = undefined_within(cx, value)? {
        return Ok(undefined);
    }
    args.bind("format_python", &[])?;
    let text = pprint::pformat(cx, value)?;
    Ok(Obj::Markup(
        text.trim_matches(halite_wire::pytext::is_space).into(),
    ))
}

fn pprint_(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    args.bind("do_pprint", &[])?;
    Ok(pprint::pformat(cx, value)?.into())
}

fn xml_(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    if let Some(undefined) = undefined_within(cx, value)? {
        return Ok(undefined);
    }
    args.bind("format_xml", &[])?;
    Ok(Obj::Markup(xml::document(cx, value)?.into()))
}

/// Text to be parsed; for an imported module, the text it rendered to.
fn source(value: &Obj) -> Result<Option<String>, Error> {
    match value {
        Obj::Undefined(missing) => Err(missing.error()),
        Obj::Native(_) => value.to_str().map(Some),
        Obj::Bytes(bytes) => Ok(String::from_utf8(bytes.to_vec()).ok()),
        other => Ok(other.as_str().map(str::to_owned)),
    }
}

fn load_yaml(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    if let Some(undefined) = undefined_within(cx, value)? {
        return Ok(undefined);
    }
    args.bind("load_yaml", &[])?;
    let Some(text) = source(value)? else {
        return Err(Error::type_error("a string or stream input is required"));
    };
    cx.charge(text.len() / 10)?;
    match yaml::parse(&text) {
        Ok(value) => Ok(Obj::from(&decoded(value))),
        Err(error) => Err(Error::runtime(format!(
            "Encountered error loading yaml: {}\n  in \"<unicode string>\", line {}, column {}",
            error.message, error.line, error.column
        ))),
    }
}

/// Bytes that are UTF-8 become text (`salt/utils/data.py decode`).
fn decoded(value: Value) -> Value {
    match value {
        Value::Bytes(bytes) => match String::from_utf8(bytes) {
            Ok(text) => text.into(),
            Err(error) => Value::Bytes(error.into_bytes()),
        },
        Value::Array(items) => Value::Array(items.into_iter().map(decoded).collect()),
        Value::Map(map) => {
            let entries = map.0.into_iter();
            Value::Map(Map(entries
                .map(|(k, v)| (decoded(k), decoded(v)))
                .collect()))
        }
        other => other,
    }
}

fn load_json(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    if let Some(undefined) = undefined_within(cx, value)? {
        return Ok(undefined);
    }
    args.bind("load_json", &[])?;
    let text = source(value)?;
    cx.charge(text.as_deref().unwrap_or_default().len() / 10)?;
    let loaded = text.as_deref().and_then(loads);
    loaded.ok_or_else(|| {
        let shown = text.or_else(|| value.to_str().ok()).unwrap_or_default();
        Error::new(
            ErrorKind::Runtime,
            format!("Unable to load json from {shown}"),
        )
    })
}

fn load_text(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    if let Some(undefined) = undefined_within(cx, value)? {
        return Ok(undefined);
    }
    args.bind("load_text", &[])?;
    match value {
        Obj::Native(_) => Ok(value.to_str()?.into()),
        other => Ok(other.clone()),
    }
}
