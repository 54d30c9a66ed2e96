//! `path_join` (`salt/utils/path.py join`); it only handles names and does not access files.

use super::super::cx::Cx;
use super::super::error::Error;
use super::super::value::{Args, Obj};
use super::{FilterFn, bytes_of};

pub(super) const TABLE: &[(&str, FilterFn)] = &[("path_join", path_join)];

/// `posixpath.normpath`.
pub fn normal(path: &str) -> String {
    let slashes = match path.len() - path.trim_start_matches('/').len() {
        0 => "",
        2 => "//",
        _ => "/",
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if slashes.is_empty() && parts.last().is_none_or(|last| *last == "..") => {
                parts.push("..");
            }
            ".." => {
                parts.pop();
            }
            other => parts.push(other),
        }
    }
    match (slashes, parts.is_empty()) {
        ("", true) => ".".to_owned(),
        _ => format!("{slashes}{}", parts.join("/")),
    }
}

fn path_join(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let (args, _) = args.without("use_posixpath");
    if let Some((name, _)) = args.keyword.first() {
        return Err(Error::type_error(format!(
            "'{name}' is an invalid keyword argument for this function"
        )));
    }
    let mut joined: Option<String> = None;
    for part in std::iter::once(value).chain(&args.positional) {
        let part = String::from_utf8_lossy(&bytes_of(part)?).into_owned();
        let part = normal(&part);
        joined = Some(match joined {
            None => part,
            Some(before) => {
                let between = if before.ends_with('/') { "" } else { "/" };
                format!("{before}{between}{}", part.trim_start_matches('/'))
            }
        });
    }
    Ok(normal(&joined.unwrap_or_default()).into())
}
