//! `_auth`: sign-in of minions, in Salt's order of decisions
//! (reference `salt-protocol.md` 3; `salt/master.py AuthFuncs._auth_impl_sync`).

use super::context::Context;
use crate::config::MasterConfig;
use crate::crypto::{Encryption, PrivateKey, PublicKey, Signing, clean_key};
use crate::master::roles::RoleError;
use crate::store::keys::KeyState;
use crate::target::{PyRegex, fnmatch};
use crate::wire::ids::MinionId;
use crate::wire::msgpack::{self, Profile};
use crate::wire::{Map, Value};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A minion's public key is 450 octets at 2048 bits; nothing sensible comes near this.
const MAX_PUB: usize = 16 * 1024;

/// Where the decision about a key ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// `ret: true`: wait for the operator.
    Pending { store: bool },
    /// `ret: false`, the operator or a list says no.
    Rejected { store: bool, act: bool },
    /// `ret: false`, the key differs from the stored one and is kept beside it.
    Denied,
    /// Signed in; the key is stored if new.
    Accepted,
}

/// What is known when the decision is made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    /// Stored state, and whether the stored key equals the one presented.
    pub stored: Option<(KeyState, bool)>,
    /// A list, stub or option accepts the id.
    pub autosign: bool,
    /// A list refuses the id.
    pub autoreject: bool,
    /// `open_mode`.
    pub open: bool,
}

/// The order of checks 3 to 8 of the reference's table.
pub(super) fn decide(known: Known) -> Verdict {
    if known.open {
        return Verdict::Accepted;
    }
    match known.stored {
        Some((KeyState::Rejected, _)) => Verdict::Rejected {
            store: false,
            act: true,
        },
        Some((KeyState::Accepted, true)) => Verdict::Accepted,
        Some((KeyState::Accepted, false)) => Verdict::Denied,
        None if known.autoreject => Verdict::Rejected {
            store: true,
            act: true,
        },
        None if known.autosign => Verdict::Accepted,
        None => Verdict::Pending { store: true },
        Some(_) if known.autoreject => Verdict::Rejected {
            store: true,
            act: true,
        },
        Some((_, false)) => Verdict::Denied,
        Some((_, true)) if known.autosign => Verdict::Accepted,
        Some((_, true)) => Verdict::Pending { store: false },
    }
}

/// Handles one sign-in request.
pub(super) fn request(worker: &mut Context, load: &Map, peer: &str) -> Result<Value, RoleError> {
    let bad = |what: &str| Ok(clear_reply(what));
    let Some(nonce) = load.str("nonce") else {
        return Err(RoleError::new(1, "the request has no nonce"));
    };
    let Ok(sig_algo) = load
        .str("sig_algo")
        .unwrap_or("PKCS1v15-SHA1")
        .parse::<Signing>()
    else {
        return bad("bad sig algo");
    };
    let answer = |worker: &Context, ret: Value| {
        signed(
            worker,
            &crate::map! {"ret" => ret, "nonce" => nonce},
            sig_algo,
        )
    };
    let text = load.str("id").unwrap_or_default();
    let Ok(id) = text.parse::<MinionId>() else {
        log::warn!("{peer} tried to sign in with an id that cannot be used: {text:.64?}");
        return Ok(answer(worker, false.into()));
    };
    let Some(presented) = load
        .str("pub")
        .filter(|p| p.len() <= MAX_PUB)
        .map(clean_key)
    else {
        return Ok(answer(worker, false.into()));
    };
    let Ok(key) = PublicKey::from_pem(&presented) else {
        log::warn!("{peer} tried to sign in as {id} with something that is no RSA public key");
        return Ok(answer(worker, false.into()));
    };
    let auth = Auth {
        id: &id,
        presented: &presented,
        load,
    };
    if is_full(worker, &id) {
        log::warn!(
            "{id} may not sign in: max_minions ({}) are connected",
            worker.config.max_minions
        );
        auth.event(worker, false, Some("full"));
        return Ok(answer(worker, "full".into()));
    }
    match auth.verdict(worker)? {
        Verdict::Pending { store } => {
            if store {
                log::info!("new key of {id} from {peer}, waiting for `halite-key -a {id}`");
                worker.keys.put(KeyState::Pending, &id, &presented)?;
            }
            auth.event(worker, true, Some("pend"));
            Ok(answer(worker, true.into()))
        }
        Verdict::Rejected { store, act } => {
            if store {
                worker.keys.put(KeyState::Rejected, &id, &presented)?;
                worker.keys.delete(KeyState::Pending, &id)?;
            }
            log::info!("{id} from {peer} is rejected");
            auth.event(worker, false, act.then_some("reject"));
            Ok(answer(worker, false.into()))
        }
        Verdict::Denied => {
            log::error!(
                "{peer} presented another key for {id} than the stored one; if the minion was reinstalled, \
                 `halite-key -d {id}` and accept the new key"
            );
            worker.keys.put(KeyState::Denied, &id, &presented)?;
            auth.event(worker, false, Some("denied"));
            Ok(answer(worker, false.into()))
        }
        Verdict::Accepted => {
            let stored = worker.keys.get(KeyState::Accepted, &id)?;
            if stored.as_deref() != Some(presented.as_str()) {
                worker.keys.put(KeyState::Accepted, &id, &presented)?;
                worker.keys.delete(KeyState::Pending, &id)?;
            }
            let reply = accepted(worker, &auth, &key, sig_algo, nonce);
            if reply.is_ok() {
                auth.event(worker, true, Some("accept"));
            }
            reply
        }
    }
}

/// One sign-in under way.
struct Auth<'a> {
    id: &'a MinionId,
    presented: &'a str,
    load: &'a Map,
}

impl Auth<'_> {
    fn verdict(&self, worker: &Context) -> Result<Verdict, RoleError> {
        let stored = worker
            .keys
            .state(self.id)?
            .map(|(state, key)| (state, key == self.presented));
        let decided = matches!(stored, Some((KeyState::Accepted | KeyState::Rejected, _)));
        // Asking consumes a one-shot stub, so ask only where the answer counts.
        let ask = !decided && !worker.config.open_mode;
        let autoreject = ask && listed(&worker.config.autoreject_file, self.id, &worker.config);
        Ok(decide(Known {
            stored,
            autoreject,
            autosign: ask && !autoreject && self.autosigned(worker)?,
            open: worker.config.open_mode,
        }))
    }

    /// `salt/daemons/masterapi.py AutoKey.check_autosign`: first match wins.
    fn autosigned(&self, worker: &Context) -> Result<bool, RoleError> {
        let config = &worker.config;
        if config.auto_accept || listed(&config.autosign_file, self.id, config) {
            return Ok(true);
        }
        let age = Duration::from_secs(config.autosign_timeout * 60);
        if worker.keys.take_autosign_stub(self.id, age)? {
            return Ok(true);
        }
        let grains = self.load.get("autosign_grains").and_then(Value::as_map);
        Ok(grains.is_some_and(|g| grain_listed(&config.autosign_grains_dir, g, config)))
    }

    fn event(&self, worker: &mut Context, result: bool, act: Option<&str>) {
        if !worker.config.auth_events {
            return;
        }
        let mut data = crate::map! {"result" => result};
        if let Some(act) = act {
            data.set("act", act);
        }
        data.set("id", self.id.as_str());
        data.set("pub", self.presented);
        worker.bus.fire("salt/auth", data);
    }
}

fn accepted(
    worker: &mut Context,
    auth: &Auth,
    key: &PublicKey,
    sig_algo: Signing,
    nonce: &str,
) -> Result<Value, RoleError> {
    let Ok(enc_algo) = auth
        .load
        .str("enc_algo")
        .unwrap_or("OAEP-SHA1")
        .parse::<Encryption>()
    else {
        return Ok(clear_reply("bad enc algo"));
    };
    let crypto = |e: crate::crypto::CryptoError| RoleError::new(1, e.to_string());
    let mut reply = crate::map! {
        "enc" => "pub",
        "pub_key" => worker.master_pub.as_str(),
        "publish_port" => worker.config.publish_port,
    };
    if let Some(signing) = &worker.signing {
        reply.set(
            "pub_sig",
            signing.for_algorithm(sig_algo, &worker.master_pub),
        );
    }
    if let Some(token) = auth.load.bytes("token") {
        // A token that does not decrypt is left out; a minion that has pinned our key
        // then refuses the reply, which is what it should do.
        if let Ok(token) = worker.master.decrypt(enc_algo, token) {
            reply.set("token", key.encrypt(enc_algo, &token).map_err(crypto)?);
        }
    }
    let aes = worker.aes_key()?;
    let session = worker.sessions.get_or_create(auth.id)?;
    reply.set(
        "aes",
        key.encrypt(enc_algo, aes.text.as_bytes()).map_err(crypto)?,
    );
    reply.set(
        "session",
        key.encrypt(enc_algo, session.as_bytes()).map_err(crypto)?,
    );
    reply.set("sig", aes.digest_signature);
    reply.set("nonce", nonce);
    Ok(signed(worker, &reply, sig_algo))
}

fn clear_reply(ret: &str) -> Value {
    Value::Map(crate::map! {"enc" => "clear", "load" => crate::map! {"ret" => ret}})
}

/// The signed wrapper of every answer (`_clear_signed`).
fn signed(worker: &Context, inner: &Map, algorithm: Signing) -> Value {
    let load = msgpack::encode_map(inner, Profile::Wire);
    let sig = worker.master.sign(algorithm, &load);
    Value::Map(crate::map! {"enc" => "clear", "load" => load, "sig" => sig})
}

/// Whether `max_minions` is reached without this one. A minion holds one connection to
/// the publish port, so established connections there count minions.
fn is_full(worker: &Context, id: &MinionId) -> bool {
    let max = worker.config.max_minions as usize;
    if max == 0 {
        return false;
    }
    let connected = crate::sys::net::established(worker.config.publish_port);
    connected >= max && !matches!(worker.sessions.get(id), Ok(Some(_)))
}

/// Whether a line of `file` matches `id` (`AutoKey.check_signing_file`).
fn listed(file: &Option<PathBuf>, id: &MinionId, config: &MasterConfig) -> bool {
    let Some(file) = file else { return false };
    read_lines(file, config)
        .iter()
        .any(|line| names(line, id.as_str()))
}

/// Whether a line is the id, a glob that matches it, or a regular expression that matches
/// all of it (`salt/utils/stringutils.py expr_match`).
fn names(line: &str, id: &str) -> bool {
    let whole = || PyRegex::new(&format!(r"\A(?:{line})\Z"));
    line == id || fnmatch(id, line) || whole().is_ok_and(|r| r.matches(id))
}

fn grain_listed(dir: &Option<PathBuf>, grains: &Map, config: &MasterConfig) -> bool {
    let Some(dir) = dir else { return false };
    grains.iter().any(|(name, value)| {
        // A grain's name becomes a file name: the rules of ids keep it in its directory.
        let Some(name) = name.as_str().and_then(|n| n.parse::<MinionId>().ok()) else {
            return false;
        };
        let value = match value {
            Value::Str(s) => s.clone(),
            Value::Int(n) => n.to_string(),
            Value::Bool(b) => if *b { "True" } else { "False" }.into(),
            _ => return false,
        };
        read_lines(&dir.join(name.as_str()), config).contains(&value)
    })
}

/// Lines of a signing file without comments; none if others may write it.
fn read_lines(path: &Path, config: &MasterConfig) -> Vec<String> {
    use std::os::unix::fs::PermissionsExt;
    let Ok(meta) = std::fs::metadata(path) else {
        return Vec::new();
    };
    let mode = meta.permissions().mode();
    let forbidden = if config.permissive_pki_access {
        0o002
    } else {
        0o022
    };
    if mode & forbidden != 0 {
        log::warn!(
            "{} is writable by others and is ignored; chmod go-w it",
            path.display()
        );
        return Vec::new();
    }
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .map(str::trim)
        .filter(|l| !l.is_empty() && !l.starts_with('#'))
        .map(str::to_owned)
        .collect()
}

/// How the master's public key is signed for minions that verify it (`master_sign_pubkey`).
pub(crate) enum PubkeySignature {
    /// A file made beforehand, sent as it is.
    Ready(String),
    /// The signing key itself.
    Key(PrivateKey),
}

impl PubkeySignature {
    /// Loads what the options name; `None` if the option is off.
    pub fn load(config: &MasterConfig) -> Result<Option<PubkeySignature>, RoleError> {
        if !config.master_sign_pubkey {
            return Ok(None);
        }
        if config.master_use_pubkey_signature {
            let path = config.pki_dir.join(config.signature_name());
            let text = std::fs::read_to_string(&path).map_err(|e| {
                RoleError::new(
                    1,
                    format!(
                        "{}: {e}; make it with `halite-key --gen-signature`",
                        path.display()
                    ),
                )
            })?;
            return Ok(Some(PubkeySignature::Ready(text)));
        }
        let path = config
            .pki_dir
            .join(format!("{}.pem", config.master_sign_key_name));
        let key = crate::master::load_or_create_key(&path, config.keysize as usize)?;
        Ok(Some(PubkeySignature::Key(key)))
    }

    fn for_algorithm(&self, algorithm: Signing, master_pub: &str) -> String {
        match self {
            PubkeySignature::Ready(text) => text.clone(),
            PubkeySignature::Key(key) => base64_line(&key.sign(algorithm, master_pub.as_bytes())),
        }
    }
}

/// Base64 in one line with its end, as Python's `binascii.b2a_base64` gives it.
fn base64_line(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes) + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(stored: Option<(KeyState, bool)>) -> Known {
        Known {
            stored,
            autosign: false,
            autoreject: false,
            open: false,
        }
    }

    #[test]
    fn the_table_of_the_reference() {
        use KeyState::*;
        let reject = |store| Verdict::Rejected { store, act: true };
        let pending = |store| Verdict::Pending { store };
        let sign = |k: Known| Known {
            autosign: true,
            ..k
        };
        let refuse = |k: Known| Known {
            autoreject: true,
            ..k
        };
        let cases = [
            ("4", known(Some((Rejected, true))), reject(false)),
            (
                "4, list cannot help",
                sign(known(Some((Rejected, true)))),
                reject(false),
            ),
            ("5", known(Some((Accepted, false))), Verdict::Denied),
            (
                "5, list cannot help",
                sign(known(Some((Accepted, false)))),
                Verdict::Denied,
            ),
            ("8", known(Some((Accepted, true))), Verdict::Accepted),
            ("6a", refuse(known(None)), reject(true)),
            ("6b", known(None), pending(true)),
            ("6c", sign(known(None)), Verdict::Accepted),
            ("7a", refuse(known(Some((Pending, true)))), reject(true)),
            ("7b", known(Some((Pending, false))), Verdict::Denied),
            ("7c", known(Some((Pending, true))), pending(false)),
            ("7d", sign(known(Some((Pending, false)))), Verdict::Denied),
            ("7e", sign(known(Some((Pending, true)))), Verdict::Accepted),
            (
                "3",
                Known {
                    open: true,
                    ..known(Some((Rejected, false)))
                },
                Verdict::Accepted,
            ),
        ];
        for (row, input, verdict) in cases {
            assert_eq!(decide(input), verdict, "row {row}");
        }
    }
    /// As stock's `expr_match` answers; the id never acts as a pattern.
    #[test]
    fn lines_of_autosign_files_name_whole_ids() {
        for (line, id, expected) in [
            ("web1", "web1", true),
            ("web1", "web10", false),
            ("web1", "a.web1", false),
            ("web*", "web10", true),
            ("*.example.org", "a.example.org", true),
            ("a.example.org", "*.example.org", false),
            (r"web\d+", "web10", true),
            (r"web\d+", "web10x", false),
            ("web(", "web1", false),
        ] {
            assert_eq!(names(line, id), expected, "{line:?} {id:?}");
        }
    }
}
