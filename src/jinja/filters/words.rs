//! Salt's text filters.

use super::super::cx::Cx;
use super::super::error::{Error, ErrorKind};
use super::super::methods::capitalize;
use super::super::value::{Args, Obj};
use super::{FilterFn, flag, text_of};

pub(super) const TABLE: &[(&str, FilterFn)] = &[
    ("method_call", method_call),
    ("quote", quote),
    ("sequence", sequence),
    ("skip", skip),
    ("to_bytes", to_bytes),
    ("to_camelcase", to_camelcase),
    ("to_snake_case", to_snake_case),
];

/// `shlex.quote`.
fn quote(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    args.bind("quote", &[])?;
    if let Obj::Undefined(missing) = value {
        return Err(missing.error());
    }
    if !value.truthy()? {
        return Ok("''".into());
    }
    Ok(halite_wire::shlex::quote(text_of(value)?).into())
}

fn sequence(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    args.bind("ensure_sequence_filter", &[])?;
    Ok(match value {
        Obj::List(_) | Obj::Tuple(_) | Obj::Set(_) | Obj::Dict(_) => value.clone(),
        other => Obj::list(vec![other.clone()]),
    })
}

fn skip(_: &mut Cx, _: &Obj, args: &Args) -> Result<Obj, Error> {
    args.bind("skip_filter", &[])?;
    Ok("".into())
}

fn to_bytes(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let bound = args.bind("to_bytes", &["encoding", "errors"])?;
    let bytes = match (&bound[0], value.as_str()) {
        (Some(encoding), Some(text)) if !encoding.is_none() => {
            let errors = super::text_or(&bound[1], "strict")?;
            super::super::methods::encoded(text, text_of(encoding)?, errors)?
        }
        _ => super::bytes_of(value)?,
    };
    Ok(Obj::Bytes(bytes.into()))
}

fn to_snake_case(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    args.bind("camel_to_snake_case", &[])?;
    let chars: Vec<char> = text_of(value)?.chars().collect();
    let Some(first) = chars.first() else {
        return Err(Error::new(ErrorKind::Index, "string index out of range"));
    };
    let mut out: String = first.to_lowercase().collect();
    for (n, c) in chars.iter().enumerate().skip(1) {
        let after_lower = chars[n - 1].is_lowercase();
        let before_lower = chars.get(n + 1).is_some_and(|next| next.is_lowercase());
        if c.is_uppercase() && (after_lower || before_lower) {
            out.push('_');
        }
        out.extend(c.to_lowercase());
    }
    Ok(out.into())
}

fn to_camelcase(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let bound = args.bind("snake_to_camel_case", &["uppercamel"])?;
    let upper = flag(&bound[0], false)?;
    let words = text_of(value)?.split('_').enumerate();
    let words = words.map(|(n, word)| {
        if n == 0 && !upper {
            word.to_owned()
        } else {
            capitalize(word)
        }
    });
    Ok(words.collect::<String>().into())
}

/// Calls a method by name; `None` if there is no such method (`salt/utils/jinja.py method_call`).
fn method_call(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let Some(name) = args.positional.first() else {
        return Err(Error::type_error(
            "method_call() missing 1 required positional argument: 'f_name'",
        ));
    };
    let rest = Args {
        positional: args.positional[1..].to_vec(),
        keyword: args.keyword.clone(),
    };
    let name = text_of(name)?;
    if let Obj::Native(_) = value {
        return cx.call_method(value, name, &rest);
    }
    if super::super::methods::has(value, name) {
        super::super::methods::call(cx, value, name, &rest)
    } else {
        Ok(Obj::None)
    }
}
