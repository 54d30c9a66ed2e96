//! Methods of bytes.

use super::super::cx::Cx;
use super::super::error::{Error, ErrorKind};
use super::super::value::{Args, Obj};
use super::{Table, positional};

pub(super) const TABLE: Table = &[
    ("decode", decode),
    ("endswith", |_, v, a| {
        edge("endswith", v, a, |own, part| own.ends_with(part))
    }),
    ("hex", hex),
    ("lower", |_, v, a| {
        changed("bytes.lower", v, a, |own| own.to_ascii_lowercase())
    }),
    ("startswith", |_, v, a| {
        edge("startswith", v, a, |own, part| own.starts_with(part))
    }),
    ("strip", |_, v, a| {
        changed("bytes.strip", v, a, |own| own.trim_ascii().to_vec())
    }),
    ("upper", |_, v, a| {
        changed("bytes.upper", v, a, |own| own.to_ascii_uppercase())
    }),
];

fn receiver(value: &Obj) -> &[u8] {
    match value {
        Obj::Bytes(bytes) => bytes,
        _ => &[],
    }
}

fn changed(
    name: &str,
    value: &Obj,
    args: &Args,
    change: fn(&[u8]) -> Vec<u8>,
) -> Result<Obj, Error> {
    positional(name, args, 0, 0)?;
    Ok(Obj::Bytes(change(receiver(value)).into()))
}

fn edge(name: &str, value: &Obj, args: &Args, at: fn(&[u8], &[u8]) -> bool) -> Result<Obj, Error> {
    let args = positional(name, args, 1, 1)?;
    match &args[0] {
        Obj::Bytes(part) => Ok(Obj::Bool(at(receiver(value), part))),
        other => Err(Error::type_error(format!(
            "{name} first arg must be bytes or a tuple of bytes, not {}",
            other.type_name()
        ))),
    }
}

fn hex(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    positional("hex", args, 0, 0)?;
    let digits: Vec<String> = receiver(value).iter().map(|b| format!("{b:02x}")).collect();
    Ok(digits.concat().into())
}

fn decode(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let bound = args.bind("decode", &["encoding", "errors"])?;
    let encoding = bound[0].as_ref().and_then(Obj::as_str).unwrap_or("utf-8");
    let errors = bound[1].as_ref().and_then(Obj::as_str).unwrap_or("strict");
    let bytes = receiver(value);
    let name = encoding.to_lowercase().replace('_', "-");
    match name.as_str() {
        "latin-1" | "latin1" | "iso-8859-1" => {
            let text: String = bytes.iter().map(|b| *b as char).collect();
            Ok(text.into())
        }
        "utf-8" | "utf8" | "ascii" | "us-ascii" => {
            if name.contains("ascii") && errors == "strict" && !bytes.is_ascii() {
                let at = bytes.iter().position(|b| !b.is_ascii()).unwrap_or(0);
                return Err(Error::value_error(format!(
                    "'ascii' codec can't decode byte 0x{:02x} in position {at}: ordinal not in range(128)",
                    bytes[at]
                )));
            }
            utf8(bytes, errors)
        }
        _ => Err(Error::new(
            ErrorKind::Other,
            format!("unknown encoding: {encoding}"),
        )),
    }
}

fn utf8(bytes: &[u8], errors: &str) -> Result<Obj, Error> {
    match (std::str::from_utf8(bytes), errors) {
        (Ok(text), _) => Ok(text.into()),
        (Err(_), "replace") => Ok(String::from_utf8_lossy(bytes).into_owned().into()),
        (Err(_), "ignore") => {
            let text: String = bytes.utf8_chunks().map(|chunk| chunk.valid()).collect();
            Ok(text.into())
        }
        (Err(error), _) => {
            let at = error.valid_up_to();
            let why = match (error.error_len(), bytes[at]) {
                (None, _) => "unexpected end of data",
                (_, 0x80..=0xc1 | 0xf5..=0xff) => "invalid start byte",
                _ => "invalid continuation byte",
            };
            Err(Error::value_error(format!(
                "'utf-8' codec can't decode byte 0x{:02x} in position {at}: {why}",
                bytes[at]
            )))
        }
    }
}
