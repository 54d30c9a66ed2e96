//! `key.*`: the keys of the minions and of the master (`salt/wheel/key.py`).

use super::{Function, WheelContext};
use crate::call::{Args, RunError, as_text};
use crate::keys::{
    FingerForm, KeyTexts, Keys, Selection, SignatureOptions, generate_pair, make_signature,
};
use halite_config::{MasterConfig, SaltSeries};
use halite_crypto::{HashType, IdentityKey, KeyType, finger};
use halite_store::Stores;
use halite_store::keys::{KeyState, universal_newlines};
use halite_wire::ids::MinionId;
use halite_wire::{Map, Value};
use std::io;
use std::path::{Path, PathBuf};

/// Allowed sizes of a new key pair in bits: each doubling takes eight times as long.
const KEYSIZE: std::ops::RangeInclusive<i64> = 2048..=8192;

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "key.list",
        args: &["match"],
        doc: "Ids of one state: acc, pre or un, rej, den, or all.",
        run: list,
    },
    Function {
        name: "key.list_all",
        args: &[],
        doc: "Ids of all states and the master's own key files.",
        run: |context, _| Ok(Value::Map(all(context.config)?)),
    },
    Function {
        name: "key.name_match",
        args: &["match"],
        doc: "Ids that match a glob or a comma list of globs, by state.",
        run: name_match,
    },
    Function {
        name: "key.glob_match",
        args: &["match"],
        doc: "As key.name_match.",
        run: name_match,
    },
    Function {
        name: "key.accept",
        args: &["match", "?include_rejected", "?include_denied"],
        doc: "Accepts the keys that match.",
        run: |context, args| change(context, args, KeyChange::Accept, MatchForm::Glob),
    },
    Function {
        name: "key.accept_dict",
        args: &["match", "?include_rejected", "?include_denied"],
        doc: "Accepts the keys of a map of state and ids.",
        run: |context, args| change(context, args, KeyChange::Accept, MatchForm::Map),
    },
    Function {
        name: "key.reject",
        args: &["match", "?include_accepted", "?include_denied"],
        doc: "Rejects the keys that match.",
        run: |context, args| change(context, args, KeyChange::Reject, MatchForm::Glob),
    },
    Function {
        name: "key.reject_dict",
        args: &["match", "?include_accepted", "?include_denied"],
        doc: "Rejects the keys of a map of state and ids.",
        run: |context, args| change(context, args, KeyChange::Reject, MatchForm::Map),
    },
    Function {
        name: "key.delete",
        args: &["match"],
        doc: "Deletes the keys that match, in every state.",
        run: |context, args| change(context, args, KeyChange::Delete, MatchForm::Glob),
    },
    Function {
        name: "key.delete_dict",
        args: &["match"],
        doc: "Deletes the keys of a map of state and ids.",
        run: |context, args| change(context, args, KeyChange::Delete, MatchForm::Map),
    },
    Function {
        name: "key.print",
        args: &["match"],
        doc: "The texts of the keys that match.",
        run: |context, args| {
            let keys = Keys::new(context.config);
            Ok(texts(keys.texts(&keys.select(&globs(args)?)?)?))
        },
    },
    Function {
        name: "key.finger",
        args: &["match", "?hash_type"],
        doc: "The fingerprints of the keys that match, the master's own among them.",
        run: fingers,
    },
    Function {
        name: "key.finger_master",
        args: &["?hash_type"],
        doc: "The fingerprint of the master's public key: what minions take as master_finger.",
        run: finger_master,
    },
    Function {
        name: "key.master_key_str",
        args: &[],
        doc: "The text of the master's public key.",
        run: |context, _| {
            let config = context.config;
            Ok(local(
                &shown_name("master.pub", config),
                master_pub(config)?,
            ))
        },
    },
    Function {
        name: "key.gen",
        args: &["?id_", "?keysize", "?key_type"],
        doc: "A new key pair, which is not stored.",
        run: |_, args| {
            Ok(Value::Map(pair(
                key_type(args, 2)?,
                args.int(1, "keysize"),
            )?))
        },
    },
    Function {
        name: "key.gen_accept",
        args: &["id_", "?keysize", "?force", "?key_type"],
        doc: "A new key pair whose public key is accepted under that id; nothing if the id has a key, unless force.",
        run: gen_accept,
    },
    Function {
        name: "key.gen_keys",
        args: &["?keydir", "?keyname", "?keysize", "?user", "?key_type"],
        doc: "Makes a key pair below pki_dir and gives its fingerprint.",
        run: gen_keys,
    },
    Function {
        name: "key.gen_signature",
        args: &["priv", "pub", "signature_path", "?auto_create", "?keysize"],
        doc: "Signs the master's public key; the paths lie below pki_dir.",
        run: gen_signature,
    },
];

fn invalid(why: impl Into<String>) -> RunError {
    RunError::Raised("SaltInvocationError".into(), why.into())
}

/// `match`: a glob, a comma-separated list of globs, or a list.
fn globs(args: &Args) -> Result<String, RunError> {
    match args.get(0, "match") {
        Some(Value::Array(items)) => {
            let all: Vec<String> = items.iter().filter_map(as_text).collect();
            Ok(all.join(","))
        }
        Some(other) => as_text(other).ok_or_else(|| invalid("match must be a string or a list")),
        None => Err(invalid("match must be a string or a list")),
    }
}

fn ids(selection: &Selection) -> Map {
    selection
        .iter()
        .map(|(state, ids)| {
            let ids: Vec<Value> = ids.iter().map(Value::from).collect();
            (state.dir(), Value::from(ids))
        })
        .collect()
}

fn all(config: &MasterConfig) -> Result<Map, RunError> {
    let keys = Keys::new(config);
    let mut out = ids(&keys.list_all()?);
    let names = keys.local_names()?;
    let names: Vec<String> = names.iter().map(|n| shown_name(n, config)).collect();
    out.set("local", names);
    Ok(out)
}

/// The name that clients of the series expect for a key file of the master: 3008 names its own pair after the
/// master (`salt/crypt.py MasterKeys`).
fn shown_name(name: &str, config: &MasterConfig) -> String {
    match name.strip_prefix("master.") {
        Some(kind @ ("pem" | "pub")) if config.salt_series == SaltSeries::S3008 => {
            let id = config.id.strip_suffix("_master").unwrap_or(&config.id);
            format!("{id}.{kind}")
        }
        _ => name.to_owned(),
    }
}

fn list(context: &WheelContext, args: &Args) -> Result<Value, RunError> {
    let keys = Keys::new(context.config);
    let word = globs(args)?;
    let starts = |prefix: &str| word.starts_with(prefix);
    let state = match () {
        () if starts("acc") => KeyState::Accepted,
        () if starts("pre") || starts("un") => KeyState::Pending,
        () if starts("rej") => KeyState::Rejected,
        () if starts("den") => KeyState::Denied,
        () if starts("all") => return Ok(Value::Map(all(context.config)?)),
        () => return Ok(Value::Map(Map::new())),
    };
    Ok(Value::Map(ids(&vec![(state, keys.list(state)?)])))
}

fn name_match(context: &WheelContext, args: &Args) -> Result<Value, RunError> {
    let keys = Keys::new(context.config);
    Ok(Value::Map(ids(&keys.select(&globs(args)?)?)))
}

#[derive(Clone, Copy, PartialEq)]
enum KeyChange {
    Accept,
    Reject,
    Delete,
}

/// The form of `match`.
#[derive(Clone, Copy, PartialEq)]
enum MatchForm {
    Glob,
    Map,
}

fn change(
    context: &WheelContext,
    args: &Args,
    change: KeyChange,
    named: MatchForm,
) -> Result<Value, RunError> {
    let mut keys = Keys::new(context.config);
    let chosen = match named {
        MatchForm::Glob => keys.select(&globs(args)?)?,
        MatchForm::Map => from_map(args)?,
    };
    let (second, third) = (args.get(1, ""), args.get(2, "include_denied"));
    let also = |name: &str| args.keyword.get(name).or(second).is_some_and(Value::truthy);
    let takes = |state: KeyState| match (change, state) {
        (KeyChange::Delete, _) => true,
        (_, KeyState::Pending) => true,
        (KeyChange::Accept, KeyState::Rejected) => also("include_rejected"),
        (KeyChange::Reject, KeyState::Accepted) => also("include_accepted"),
        (_, KeyState::Denied) => third.is_some_and(Value::truthy),
        _ => false,
    };
    let selection: Selection = chosen
        .iter()
        .filter(|(state, _)| takes(*state))
        .cloned()
        .collect();
    let changed = match change {
        KeyChange::Accept => keys.accept(&selection)?,
        KeyChange::Reject => keys.reject(&selection)?,
        KeyChange::Delete => keys.delete(&selection)?,
    };
    for (id, why) in &changed.invalid {
        log::error!("Unable to accept invalid key for {id}: {why}");
    }
    if let Some((id, e)) = changed.failed.into_iter().next() {
        return Err(RunError::Raised("OSError".into(), format!("{id}: {e}")));
    }
    if change != KeyChange::Accept {
        keys.forget_vanished(
            &crate::keys::KeyChanges {
                done: changed.done,
                ..Default::default()
            },
            &[],
        )?;
        if context.config.rotate_aes_key {
            keys.request_rotation()?;
        }
    }
    match named {
        MatchForm::Glob => Ok(Value::Map(ids(&keys.select(&globs(args)?)?))),
        MatchForm::Map => Ok(Value::Map(dict_match(&keys, &chosen)?)),
    }
}

/// The current states of the ids in a map (`salt/key.py Key.dict_match`).
fn dict_match(keys: &Keys, chosen: &Selection) -> Result<Map, RunError> {
    let now = keys.list_all()?;
    let mut out: Selection = Vec::new();
    for id in chosen.iter().flat_map(|(_, ids)| ids) {
        for state in [
            KeyState::Accepted,
            KeyState::Pending,
            KeyState::Rejected,
            KeyState::Denied,
        ] {
            if !now.iter().any(|(s, ids)| *s == state && ids.contains(id)) {
                continue;
            }
            match out.iter_mut().find(|(s, _)| *s == state) {
                Some((_, ids)) => ids.push(id.clone()),
                None => out.push((state, vec![id.clone()])),
            }
        }
    }
    Ok(ids(&out))
}

fn from_map(args: &Args) -> Result<Selection, RunError> {
    let Some(Value::Map(map)) = args.get(0, "match") else {
        return Err(invalid(
            "match must be a map of states and ids, such as {minions_pre: [web1]}",
        ));
    };
    let mut out = Selection::new();
    for (state, listed) in map.iter() {
        let state = KeyState::ALL.into_iter().find(|s| state.is_str(s.dir()));
        let state = state.ok_or_else(|| {
            invalid("a state must be one of minions, minions_pre, minions_rejected, minions_denied")
        })?;
        let ids: Result<Vec<MinionId>, _> = listed.str_list().iter().map(|id| id.parse()).collect();
        out.push((state, ids.map_err(|e| invalid(e.to_string()))?));
    }
    Ok(out)
}

fn texts(groups: KeyTexts) -> Value {
    let out: Map = groups
        .into_iter()
        .map(|(group, keys)| {
            let keys: Map = keys.into_iter().collect();
            (group, Value::Map(keys))
        })
        .collect();
    Value::Map(out)
}

fn local(name: &str, text: String) -> Value {
    Value::Map(halite_wire::map! {"local" => halite_wire::map! {name => text}})
}

fn hash(config: &MasterConfig, args: &Args, at: usize) -> Result<HashType, RunError> {
    let name = args.text(at, "hash_type");
    let name = name.as_deref().unwrap_or(&config.hash_type);
    name.parse()
        .map_err(|_| invalid(format!("{name:?} is not a digest: use sha256 or sha512")))
}

fn fingers(context: &WheelContext, args: &Args) -> Result<Value, RunError> {
    let mut config = context.config.clone();
    config.hash_type = hash(context.config, args, 1)?.name().to_owned();
    let mut groups = Keys::new(&config).fingers(&globs(args)?, FingerForm::Body)?;
    for (group, keys) in &mut groups {
        if *group == "local" {
            for (name, _) in keys {
                *name = shown_name(name, &config);
            }
        }
    }
    Ok(texts(groups))
}

fn master_pub(config: &MasterConfig) -> Result<String, RunError> {
    Ok(universal_newlines(&std::fs::read(config.master_pub())?))
}

fn finger_master(context: &WheelContext, args: &Args) -> Result<Value, RunError> {
    let hash = hash(context.config, args, 0)?;
    Ok(local(
        "master.pub",
        finger(&master_pub(context.config)?, hash),
    ))
}

fn bits(wanted: Option<i64>) -> Result<u32, RunError> {
    let wanted = wanted.unwrap_or(2048).max(*KEYSIZE.start());
    u32::try_from(wanted)
        .ok()
        .filter(|_| KEYSIZE.contains(&wanted))
        .ok_or_else(|| invalid(format!("keysize must be at most {}", KEYSIZE.end())))
}

fn key_type(args: &Args, at: usize) -> Result<KeyType, RunError> {
    let kind = match args.get(at, "key_type") {
        None | Some(Value::Nil) => Some(KeyType::Rsa),
        Some(name) => name.as_str().and_then(KeyType::of_name),
    };
    kind.ok_or_else(|| invalid("key_type is not rsa or ed25519"))
}

fn pair(kind: KeyType, keysize: Option<i64>) -> Result<Map, RunError> {
    let key = IdentityKey::generate(kind, bits(keysize)? as usize)
        .map_err(|e| RunError::Unknown(e.to_string()))?;
    Ok(halite_wire::map! {"priv" => key.to_pem().as_str(), "pub" => key.public().to_pem()})
}

fn gen_accept(context: &WheelContext, args: &Args) -> Result<Value, RunError> {
    let id: MinionId = args
        .text(0, "id_")
        .unwrap_or_default()
        .parse()
        .map_err(|e| invalid(format!("{e}")))?;
    let stores = Stores::open(context.config);
    let store = &stores.keys;
    let force = args.flag(2, "force");
    let exists = || Ok::<_, io::Error>(!force && store.get(KeyState::Accepted, &id)?.is_some());
    if exists()? {
        return Ok(Value::Map(Map::new()));
    }
    // Takes a while; others may change the key meanwhile.
    let pair = pair(key_type(args, 3)?, args.int(1, "keysize"))?;
    let _lock = store.lock(&id)?;
    if exists()? {
        return Ok(Value::Map(Map::new()));
    }
    store.put(KeyState::Accepted, &id, pair.str("pub").unwrap_or_default())?;
    // Whoever has the key that it had before, has its session.
    stores.sessions.remove(&id)?;
    Ok(Value::Map(pair))
}

/// The result of a function as events and the job cache have it: a new private key is for its caller alone.
pub(super) fn without_private_key(fun: &str, mut value: Value) -> Value {
    if let (true, Value::Map(pair)) = (fun.starts_with("key.gen"), &mut value)
        && pair.contains("priv")
    {
        pair.set("priv", "***");
    }
    value
}

/// A path from the network: below `pki_dir`, without a symlink that leads out, and not among the keys of minions, where a file
/// is a key.
fn below_pki(config: &MasterConfig, text: &str) -> Result<PathBuf, RunError> {
    let pki = &config.pki_dir;
    let path = pki.join(text);
    let inside = path.strip_prefix(pki).is_ok_and(|rest| {
        rest.components()
            .all(|c| matches!(c, std::path::Component::Normal(_)))
    });
    let parent = path.ancestors().find(|a| a.exists());
    let real = |p: &std::path::Path| p.canonicalize().ok();
    let is_apart = |at: &Path| {
        let dirs = KeyState::ALL.map(|state| config.minion_keys(state.dir()));
        let mut dirs = dirs.iter().flat_map(|dir| [Some(dir.clone()), real(dir)]);
        !dirs.any(|dir| dir.is_some_and(|dir| at.starts_with(dir)))
    };
    let stays = match (parent.and_then(real), real(pki)) {
        (Some(parent), Some(pki)) => parent.starts_with(pki) && is_apart(&parent),
        _ => false,
    };
    if inside && stays && is_apart(&path) {
        Ok(path)
    } else {
        Err(invalid(format!(
            "{text:?} is not below pki_dir, or among the keys of minions; use halite-key on the master's host for other directories"
        )))
    }
}

fn gen_keys(context: &WheelContext, args: &Args) -> Result<Value, RunError> {
    let config = context.config;
    let dir = match args.text(0, "keydir") {
        Some(dir) => below_pki(config, &dir)?,
        None => config.pki_dir.clone(),
    };
    let name = args.text(1, "keyname").unwrap_or_else(|| "minion".into());
    let size = args.int(2, "keysize").unwrap_or(config.keysize.into());
    generate_pair(config, &dir, &name, key_type(args, 4)?, bits(Some(size))?)
        .map(Value::from)
        .map_err(|e| RunError::Unknown(e.to_string()))
}

fn gen_signature(context: &WheelContext, args: &Args) -> Result<Value, RunError> {
    let config = context.config;
    let path = |at, name| match args.text(at, name).filter(|t| !t.is_empty()) {
        None => Ok(String::new()),
        Some(text) => below_pki(config, &text).map(|p| p.to_string_lossy().into_owned()),
    };
    // Else whoever may call this could have another key signed, or by another key.
    let own = |at, name, own: PathBuf| match path(at, name)? {
        path if path.is_empty() || Path::new(&path) == own => Ok(path),
        path => Err(invalid(format!(
            "{name}: {path} is not {}; use halite-key on the master's host for other keys",
            own.display()
        ))),
    };
    let size = args.int(4, "keysize").unwrap_or(config.keysize.into());
    let options = SignatureOptions {
        private: own(0, "priv", config.sign_key())?,
        public: own(1, "pub", config.master_pub())?,
        directory: path(2, "signature_path")?,
        create: args.flag(3, "auto_create"),
        bits: bits(Some(size))?,
    };
    match make_signature(config, &options) {
        Ok(made) => Ok(made.into()),
        Err(crate::keys::KeyPairError::Missing(text)) => Ok(text.into()),
        Err(e) => Err(RunError::Unknown(e.to_string())),
    }
}
