//! `yaml_dquote`, `yaml_squote`, `yaml_encode`: single scalars (`salt/utils/yamlencoding.py`).

use super::super::cx::Cx;
use super::super::error::Error;
use super::super::value::{Args, Obj};
use super::FilterFn;
use halite_wire::yaml;

pub(super) const TABLE: &[(&str, FilterFn)] = &[
    ("yaml_dquote", yaml_dquote),
    ("yaml_encode", yaml_encode),
    ("yaml_squote", yaml_squote),
];

/// Characters that PyYAML's emitter without `allow_unicode` writes unescaped.
fn plain(c: char) -> bool {
    (' '..='~').contains(&c) && c != '"' && c != '\\'
}

fn double_quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        if plain(c) {
            out.push(c)
        } else {
            out.push_str(&yaml::escape(c))
        }
    }
    out.push('"');
    out
}

fn yaml_dquote(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    args.bind("yaml_dquote", &[])?;
    Ok(double_quoted(&value.to_str()?).into())
}

/// Line breaks are doubled, and a run of them gets one more in front.
fn yaml_squote(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    args.bind("yaml_squote", &[])?;
    let text = value.to_str()?;
    let is_break = |c: char| matches!(c, '\n' | '\u{85}' | '\u{2028}' | '\u{2029}');
    let mut out = String::from("'");
    let mut in_breaks = false;
    for c in text.chars() {
        if is_break(c) && !in_breaks && c == '\n' {
            out.push('\n');
        }
        in_breaks = is_break(c);
        match c {
            '\'' => out.push_str("''"),
            c if is_break(c) && c != '\n' => out.push(c),
            c => out.push(c),
        }
    }
    out.push('\'');
    Ok(out.into())
}

fn yaml_encode(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    args.bind("yaml_encode", &[])?;
    if let Obj::Undefined(missing) = value {
        return Err(missing.error());
    }
    match value {
        Obj::Str(text) | Obj::Markup(text) => Ok(double_quoted(text).into()),
        Obj::None | Obj::Bool(_) | Obj::Int(_) | Obj::Big(_) | Obj::Float(_) => {
            Ok(yaml::emit_scalar(&value.to_value()?).into())
        }
        other => Err(Error::type_error(format!(
            "yaml_encode() only works with YAML scalar data; failed for <class '{}'>",
            other.type_name()
        ))),
    }
}
