//! Salt's filters that change dicts in place (`salt/utils/dictupdate.py`).

use super::super::cx::Cx;
use super::super::error::{Error, ErrorKind};
use super::super::methods;
use super::super::value::{Args, Dict, Obj, PyDict};
use super::{FilterFn, flag, required, text_of};

pub(super) const TABLE: &[(&str, FilterFn)] = &[
    ("append_dict_key_value", append),
    ("extend_dict_key_value", extend),
    ("set_dict_key_value", set),
    ("update_dict_key_value", update),
];

/// The dict and key that a path of keys leads to; missing dicts on the path are created.
struct DictEntry {
    dict: PyDict,
    key: String,
    ordered: bool,
    value: Obj,
}

impl DictEntry {
    fn of(value: &Obj, args: &Args, name: &str) -> Result<DictEntry, Error> {
        let names = ["keys", "value", "delimiter", "ordered_dict"];
        let bound = args.bind_required(name, &names, 2)?;
        let delimiter = super::text_or(&bound[2], ":")?;
        let ordered = flag(&bound[3], false)?;
        let Obj::Dict(dict) = value else {
            if let Obj::Undefined(missing) = value {
                return Err(missing.error());
            }
            return Err(Error::type_error(format!(
                "'{}' object does not support item assignment",
                value.type_name()
            )));
        };
        let keys = required(&bound[0]);
        let mut keys: Vec<&str> = match (text_of(&keys)?, delimiter) {
            (_, "") => return Err(Error::value_error("empty separator")),
            (text, delimiter) => text.split(delimiter).collect(),
        };
        let key = keys.pop().unwrap_or_default().to_owned();
        let mut dict = dict.clone();
        for key in keys {
            let inner = match dict.borrow().get_str(key) {
                Some(Obj::Dict(inner)) => Some(inner.clone()),
                _ => None,
            };
            dict = match inner {
                Some(inner) => inner,
                None => {
                    let fresh = Obj::dict(empty(ordered));
                    dict.borrow_mut().set_str(key, fresh.clone());
                    match fresh {
                        Obj::Dict(fresh) => fresh,
                        _ => dict,
                    }
                }
            };
        }
        Ok(DictEntry {
            dict,
            key,
            ordered,
            value: required(&bound[1]),
        })
    }

    /// The value at the key; `fresh` if there is none.
    fn current(&self, fresh: impl FnOnce() -> Obj) -> Obj {
        let found = self.dict.borrow().get_str(&self.key).cloned();
        match found {
            Some(found) if !found.is_none() => found,
            _ => {
                let fresh = fresh();
                self.dict.borrow_mut().set_str(&self.key, fresh.clone());
                fresh
            }
        }
    }
}

fn empty(ordered: bool) -> Dict {
    if ordered {
        Dict::ordered()
    } else {
        Dict::new()
    }
}

fn class(value: &Obj) -> String {
    let module = if value.type_name() == "OrderedDict" {
        "collections."
    } else {
        ""
    };
    format!("<class '{module}{}'>", value.type_name())
}

fn wrong_kind(value: &Obj, verb: &str) -> Error {
    Error::new(
        ErrorKind::Function,
        format!(
            "The last key contains a {}, which cannot {verb}.",
            class(value)
        ),
    )
}

fn set(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let entry = DictEntry::of(value, args, "set_dict_key_value")?;
    entry
        .dict
        .borrow_mut()
        .set_str(&entry.key, entry.value.clone());
    Ok(value.clone())
}

fn update(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let entry = DictEntry::of(value, args, "update_dict_key_value")?;
    let current = entry.current(|| Obj::dict(empty(entry.ordered)));
    if !methods::has(&current, "update") {
        return Err(wrong_kind(&current, "update"));
    }
    let args = Args::positional([entry.value.clone()]);
    methods::call(cx, &current, "update", &args).map_err(|_| {
        Error::new(
            ErrorKind::Function,
            format!(
                "Cannot update {} with a {}.",
                class(&current),
                class(&entry.value)
            ),
        )
    })?;
    Ok(value.clone())
}

fn append(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let entry = DictEntry::of(value, args, "append_dict_key_value")?;
    let current = entry.current(|| Obj::list(Vec::new()));
    if !methods::has(&current, "append") {
        return Err(wrong_kind(&current, "append"));
    }
    let args = Args::positional([entry.value.clone()]);
    methods::call(cx, &current, "append", &args)?;
    Ok(value.clone())
}

fn extend(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let entry = DictEntry::of(value, args, "extend_dict_key_value")?;
    let current = entry.current(|| Obj::list(Vec::new()));
    if !methods::has(&current, "extend") {
        return Err(wrong_kind(&current, "extend"));
    }
    let args = Args::positional([entry.value.clone()]);
    methods::call(cx, &current, "extend", &args).map_err(|_| {
        Error::new(
            ErrorKind::Function,
            format!(
                "Cannot extend {} with a {}.",
                class(&current),
                class(&entry.value)
            ),
        )
    })?;
    Ok(value.clone())
}
