//! Salt's Jinja filters that look at the host: files, programs, accounts, the network. A master refuses them; a minion
//! renders its own host's templates.

use super::{Context, invoke, python};
use halite_jinja::{Args, Error, ErrorKind, Obj};
use halite_sys::safe_open::read_finite;
use halite_wire::{Map, Value};
use std::collections::BTreeSet;
use std::path::Path;

/// Bytes that tell a text from other data (`salt/utils/files.py is_text`).
const SAMPLE: u64 = 512;
/// Largest file that is looked at.
const MAX_FILE: u64 = 1 << 30;

/// Applies one of these filters.
///
/// # Errors
/// What the filter raises.
pub fn apply(name: &str, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let text = python::str(&value.to_value()?);
    let path = Path::new(&text);
    let regular = || path.is_file();
    Ok(match name {
        "is_empty" => {
            Obj::Bool(std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.len() == 0))
        }
        "is_text_file" => Obj::Bool(regular() && is_text(path)),
        "is_bin_file" => Obj::Bool(regular() && !is_text(path)),
        "list_files" => {
            let mut found = BTreeSet::from([text.clone()]);
            list(path, &mut found);
            Obj::from(Value::from(found.into_iter().collect::<Vec<_>>()))
        }
        "file_hashsum" => {
            let form = arg(args, 0, "form")?
                .map_or_else(|| "sha256".to_owned(), |form| python::str(&form));
            run(
                "file.get_hash",
                vec![text.as_str().into(), form.into()],
                Map::new(),
            )?
        }
        "which" => match crate::programs::which(&text) {
            Some(found) => Obj::str_from(found),
            None => Obj::from(Value::Nil),
        },
        "get_uid" => run("file.user_to_uid", vec![text.as_str().into()], Map::new())?,
        "http_query" => call("http.query", value, args)?,
        "dns_check" => call("network.dns_check", value, args)?,
        other => {
            return Err(Error::new(
                ErrorKind::Function,
                format!("the filter '{other}' is not offered here"),
            ));
        }
    })
}

fn arg(args: &Args, at: usize, name: &str) -> Result<Option<Value>, Error> {
    let named = args.keyword.iter().find(|(key, _)| &**key == name);
    let found = named.map(|(_, value)| value).or(args.positional.get(at));
    found.map(Obj::to_value).transpose()
}

/// A filter that is an execution function.
fn call(fun: &str, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let mut positional = vec![value.to_value()?];
    for arg in &args.positional {
        positional.push(arg.to_value()?);
    }
    let mut kwargs = Map::new();
    for (name, value) in &args.keyword {
        kwargs.set(name.as_ref(), value.to_value()?);
    }
    run(fun, positional, kwargs)
}

fn run(fun: &str, args: Vec<Value>, kwargs: Map) -> Result<Obj, Error> {
    invoke(&Context::default(), fun, args, kwargs)
        .map(Obj::from)
        .map_err(|e| Error::new(ErrorKind::Function, e.message()))
}

/// Whether the start of a file is text: no zero byte, and less than a third of other unusual bytes.
fn is_text(path: &Path) -> bool {
    let Ok(bytes) = read_finite(path, MAX_FILE) else {
        return false;
    };
    let sample = &bytes[..bytes.len().min(SAMPLE as usize)];
    if sample.contains(&0) {
        return false;
    }
    if std::str::from_utf8(sample).is_ok() {
        return true;
    }
    let usual = |b: &&u8| matches!(**b, 32..=126 | 8..=10 | 12 | 13);
    let unusual = sample.len() - sample.iter().filter(usual).count();
    unusual * 10 <= sample.len() * 3
}

fn list(dir: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        found.insert(path.to_string_lossy().into_owned());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            list(&path, found);
        }
    }
}
