//! States: compiling SLS files to an ordered list of calls, and running them (`salt/state.py`,
//! `salt/utils/requisite.py`).
//!
//! [`highstate`] renders SLS files and their includes into *high data* (ids with declarations). [`compile`]
//! merges `extend`, the `*_in` requisites and `exclude`, and checks the form. The result is *low data*, one
//! map per call, in the order of the [`graph`] of requisites. [`run`] makes the calls, as far as requisites
//! permit. There is no IO: files come from a [`highstate::SlsSource`], calls go to [`run::StateModules`].

mod beacons;
mod call;
pub mod compile;
mod declare;
mod extend;
pub mod graph;
pub mod highstate;
mod listen;
pub mod reaction;
mod requisite_in;
pub mod result;
pub mod run;
mod verdict;
mod verify;

#[cfg(test)]
mod tests;

use halite_wire::{Map, Value, pytext};

/// The requisites of a declaration, by weight (`salt/utils/requisite.py RequisiteType`): of two reasons to
/// run early, the later one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum Requisite {
    Onfail,
    OnfailAny,
    OnfailAll,
    Require,
    RequireAny,
    Onchanges,
    OnchangesAny,
    Watch,
    WatchAny,
    Prereq,
    Prerequired,
    Listen,
}

impl Requisite {
    /// All of them, by weight.
    pub const ALL: [Requisite; 12] = [
        Requisite::Onfail,
        Requisite::OnfailAny,
        Requisite::OnfailAll,
        Requisite::Require,
        Requisite::RequireAny,
        Requisite::Onchanges,
        Requisite::OnchangesAny,
        Requisite::Watch,
        Requisite::WatchAny,
        Requisite::Prereq,
        Requisite::Prerequired,
        Requisite::Listen,
    ];

    /// The key in a declaration.
    pub fn name(self) -> &'static str {
        match self {
            Requisite::Onfail => "onfail",
            Requisite::OnfailAny => "onfail_any",
            Requisite::OnfailAll => "onfail_all",
            Requisite::Require => "require",
            Requisite::RequireAny => "require_any",
            Requisite::Onchanges => "onchanges",
            Requisite::OnchangesAny => "onchanges_any",
            Requisite::Watch => "watch",
            Requisite::WatchAny => "watch_any",
            Requisite::Prereq => "prereq",
            Requisite::Prerequired => "prerequired",
            Requisite::Listen => "listen",
        }
    }
}

/// Whether a key of a declaration holds requisites (`STATE_REQUISITE_KEYWORDS`).
fn is_requisite(key: &str) -> bool {
    key == "onfail_stop" || Requisite::ALL.iter().any(|r| r.name() == key)
}

/// The key of a call in results: `state_|-id_|-name_|-function` (`salt/state.py _gen_tag`).
pub fn tag(low: &Map) -> String {
    // Made several times for each call.
    let mut tag = String::with_capacity(64);
    for key in ["state", "__id__", "name", "fun"] {
        if key != "state" {
            tag.push_str("_|-");
        }
        match low.get(key) {
            Some(Value::Str(text)) => tag.push_str(text),
            Some(other) => tag.push_str(&pytext::str(other)),
            None => {}
        }
    }
    tag
}

/// The first key of a map that is text.
fn first_key(map: &Map) -> Option<&str> {
    map.iter().next().and_then(|(k, _)| k.as_str())
}

/// The one-entry map of a requisite, `{state: id}`. Text means `{id: text}`.
fn reference(item: &Value) -> Option<(String, Value)> {
    match item {
        Value::Str(id) => Some(("id".to_owned(), id.as_str().into())),
        Value::Map(map) => {
            let (key, value) = map.iter().next()?;
            Some((key.as_str()?.to_owned(), value.clone()))
        }
        _ => None,
    }
}

/// Whether a key is internal to the compiler (`__sls__`, `__env__`, ...).
fn internal(key: &Value) -> bool {
    key.as_str().is_none_or(|k| k.starts_with("__"))
}
