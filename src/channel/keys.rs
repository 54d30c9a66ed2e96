//! Keys in the minion's `pki_dir`: its own key pair and the master's key (reference 2.2).

use super::signin::{Accepted, KeptSessions, MasterKey, NoiseIdentity, SeenMasters, SignInConfig};
use halite_config::MinionConfig;
use halite_crypto::noise::StaticKey;
use halite_crypto::{IdentityKey, IdentityPublic, KeyString, clean_key};
use halite_sys::daemon::{make_dir, read_or_make, write_atomic, write_new};
use halite_sys::exit::ExitError;
use halite_wire::{Map, Value};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use zeroize::Zeroizing;

/// Largest key file, in bytes.
const MAX_KEY: u64 = 64 * 1024;

/// The file of the pinned master key.
pub fn master_file(pki_dir: &Path) -> PathBuf {
    halite_config::paths::minion::pinned_master(pki_dir)
}

/// Reads the minion's own key; generates a pair if there is none.
///
/// # Errors
/// The directory cannot be used, or the key cannot be read.
pub fn own_key(config: &MinionConfig) -> Result<IdentityKey, ExitError> {
    let dir = &config.pki_dir;
    make_dir(dir, 0o700).map_err(|e| ExitError::io("pki_dir", dir, &e))?;
    let path = config.minion_key();
    let key = match read(&path)? {
        Some(text) => IdentityKey::from_pem(&text)
            .map_err(|e| ExitError::new(1, format!("{}: {e}", path.display())))?,
        None => generate(config, &path)?,
    };
    let public = config.minion_pub();
    let is_ours = |there: &str| IdentityPublic::from_pem(there).as_ref() == Ok(&key.public());
    // One of another pair would be shown as ours.
    if !read(&public)?.is_some_and(|there| is_ours(&there)) {
        let text = key.public().to_pem();
        write_atomic(&public, text.as_bytes(), 0o644)
            .map_err(|e| ExitError::io("public key", &public, &e))?;
    }
    Ok(key)
}

fn generate(config: &MinionConfig, path: &Path) -> Result<IdentityKey, ExitError> {
    let kind = config.key_type;
    log::info!(
        "generating a key pair ({kind}) in {}",
        config.pki_dir.display()
    );
    let key = IdentityKey::generate(kind, config.keysize as usize).map_err(|e| {
        ExitError::new(
            1,
            format!("a key of {} bits (keysize): {e}", config.keysize),
        )
    })?;
    match write_new(path, key.to_pem().as_bytes(), 0o400) {
        Ok(()) => {}
        // Another process of this minion was faster.
        Err(e) if e.kind() == ErrorKind::AlreadyExists => return own_key(config),
        Err(e) => return Err(ExitError::io("key", path, &e)),
    }
    Ok(key)
}

/// The pinned master key; `None` before first contact.
///
/// # Errors
/// The file cannot be read, or holds no key: to continue would be to trust any master.
pub fn pinned(path: &Path) -> Result<Option<MasterKey>, ExitError> {
    let Some(text) = read(path)? else {
        return Ok(None);
    };
    match MasterKey::parse(&text) {
        Some(key) => Ok(Some(key)),
        None => Err(ExitError::new(
            1,
            format!(
                "{} holds no public key; remove it to trust the master at the next contact",
                path.display()
            ),
        )),
    }
}

/// Stores a master's key. Without `replace`, only if none is stored: of masters that sign us in at the same
/// time, only one can be the first. `false` if another key is already stored.
///
/// # Errors
/// The directory cannot be written.
pub fn pin(path: &Path, master: &MasterKey, replace: bool) -> Result<bool, ExitError> {
    let write = if replace { write_atomic } else { write_new };
    match write(path, master.pem.as_bytes(), 0o644) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(e) => Err(ExitError::io("master's key", path, &e)),
        Ok(()) => {
            log::info!(
                "trusting the master's key from now on; it is stored in {}",
                path.display()
            );
            Ok(true)
        }
    }
}

/// Reads the minion's static key for the handshake with a halite master. A missing or damaged one is made anew; one that cannot
/// be stored is used until the end of the process.
pub fn own_noise_key(config: &MinionConfig) -> StaticKey {
    let path = config.noise_key();
    let parse = |text: &str| StaticKey::from_text(text).ok();
    read_or_make(&path, 0o400, parse, || StaticKey::generate().to_text()).unwrap_or_else(|e| {
        log::warn!("the static key in {} cannot be kept: {e}", path.display());
        StaticKey::generate()
    })
}

/// The static keys of masters that were seen, each with the fingerprint of the key that certified it. They are in a file
/// beside the one of the pinned key.
///
/// # Errors
/// The file cannot be read.
pub fn seen_masters(master_file: &Path) -> Result<SeenMasters, ExitError> {
    Ok(match read(&noise_file(master_file))? {
        Some(text) => SeenMasters::parse(&text),
        None => SeenMasters::default(),
    })
}

/// The session keys of earlier processes; none if they cannot be read.
pub fn kept_sessions(master_file: &Path) -> KeptSessions {
    match read(&session_file(master_file)) {
        Ok(Some(text)) => KeptSessions::parse(&text),
        Ok(None) | Err(_) => KeptSessions::default(),
    }
}

/// Stores what a handshake gave, if it was one: the static key of the master, from which no other handshake is accepted from
/// now on, and the session key, readable by nobody else. The log says if that is not possible.
pub fn keep_seen(master_file: &Path, accepted: &Accepted) {
    let Some(key) = &accepted.noise else {
        return;
    };
    let mut seen = seen_masters(master_file).unwrap_or_default();
    let path = noise_file(master_file);
    if (seen.of(&accepted.master) != Some(key) || seen.is_damaged())
        && let Err(e) = write_atomic(
            &path,
            seen.add(&accepted.master, key).to_text().as_bytes(),
            0o644,
        )
    {
        log::warn!(
            "the master's static key cannot be kept in {}: {e}",
            path.display()
        );
    }
    let mut kept = kept_sessions(master_file);
    let path = session_file(master_file);
    if kept.of(&accepted.master) != Some(&accepted.session)
        && let Err(e) = write_atomic(
            &path,
            kept.add(&accepted.master, &accepted.session)
                .to_text()
                .as_bytes(),
            0o600,
        )
    {
        // Without it, the next process signs in anew.
        log::info!("the session cannot be kept in {}: {e}", path.display());
    }
}

fn noise_file(master_file: &Path) -> PathBuf {
    master_file.with_extension("noise")
}

fn session_file(master_file: &Path) -> PathBuf {
    master_file.with_extension("session")
}

/// What a minion signs in with, as configured; generates its keys if there are none.
///
/// # Errors
/// Keys or options cannot be used.
pub fn sign_in_config(config: &MinionConfig, grains: &Map) -> Result<SignInConfig, ExitError> {
    let key = own_key(config)?;
    if key.rsa().is_none() && config.handshake == "salt" {
        let why = format!(
            "`handshake: salt` needs an RSA key, and {} is Ed25519: leave the option out, or remove the file, and the option key_type, \
             for a new key",
            config.minion_key().display()
        );
        return Err(ExitError::new(1, why));
    }
    let bad = |what: &str, e: &dyn std::fmt::Display| ExitError::new(1, format!("{what}: {e}"));
    let autosign = (!config.autosign_grains.is_empty()).then(|| {
        config
            .autosign_grains
            .iter()
            .map(|name| {
                (
                    name.as_str(),
                    grains.get(name).cloned().unwrap_or(Value::Nil),
                )
            })
            .collect()
    });
    Ok(SignInConfig {
        id: config.id.clone(),
        public: clean_key(&key.public().to_pem()),
        key,
        encryption: config
            .encryption_algorithm
            .parse()
            .map_err(|e| bad("encryption_algorithm", &e))?,
        signing: config
            .signing_algorithm
            .parse()
            .map_err(|e| bad("signing_algorithm", &e))?,
        autosign_grains: autosign,
        verify_master_sign: config.verify_master_pubkey_sign,
        always_verify: config.always_verify_signature,
        signer: match config.verify_master_pubkey_sign {
            true => signer(config)?,
            false => None,
        },
        master_finger: config.master_finger.clone(),
        hash: config.hash_type.parse().map_err(|e| bad("hash_type", &e))?,
        token: KeyString::generate(),
        tok: OnceLock::new(),
        noise: match config.handshake.as_str() {
            "salt" => None,
            _ => Some(NoiseIdentity::new(own_noise_key(config))),
        },
        noise_only: config.handshake == "noise",
    })
}

/// The key that verifies masters' keys (`master_sign_key_name`), if its file exists.
///
/// # Errors
/// The file cannot be read or holds no key.
pub fn signer(config: &MinionConfig) -> Result<Option<IdentityPublic>, ExitError> {
    let path = config.sign_pub();
    let Some(text) = read(&path)? else {
        return Ok(None);
    };
    IdentityPublic::from_pem(&text)
        .map(Some)
        .map_err(|e| ExitError::new(1, format!("{}: {e}", path.display())))
}

fn read(path: &Path) -> Result<Option<Zeroizing<String>>, ExitError> {
    match std::fs::metadata(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(ExitError::io("key", path, &e)),
        Ok(meta) if !meta.is_file() || meta.len() > MAX_KEY => {
            return Err(ExitError::new(
                1,
                format!("{} is not a key file", path.display()),
            ));
        }
        Ok(_) => {}
    }
    std::fs::read_to_string(path)
        .map(|text| Some(Zeroizing::new(text)))
        .map_err(|e| ExitError::io("key", path, &e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_crypto::KeyType;
    use std::os::unix::fs::PermissionsExt;

    fn config(dir: &Path) -> MinionConfig {
        let options = halite_wire::map! {
            "id" => "m1", "keysize" => 2048,
            "pki_dir" => dir.join("pki").to_string_lossy().as_ref(),
        };
        MinionConfig::from_map(options, dir).unwrap()
    }

    #[test]
    fn one_of_several_masters_is_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let path = master_file(dir.path());
        let [one, other] = [0, 1].map(|_| {
            let key = IdentityKey::generate(KeyType::Rsa, 2048).unwrap();
            MasterKey::parse(&key.public().to_pem()).unwrap()
        });
        assert!(pin(&path, &one, false).unwrap());
        assert!(!pin(&path, &other, false).unwrap());
        assert_eq!(pinned(&path).unwrap().unwrap().pem, one.pem);
        assert!(pin(&path, &other, true).unwrap());
        assert_eq!(pinned(&path).unwrap().unwrap().pem, other.pem);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_pair_is_made_once() {
        let dir = tempfile::tempdir().unwrap();
        let config = config(dir.path());
        let key = own_key(&config).unwrap();
        let again = own_key(&config).unwrap();
        assert_eq!(key.public(), again.public());
        assert_eq!(mode(&config.minion_key()), 0o400);
        let public = config.minion_pub();
        assert_eq!(
            IdentityPublic::from_pem(&std::fs::read_to_string(&public).unwrap()).unwrap(),
            key.public()
        );
        std::fs::remove_file(&public).unwrap();
        own_key(&config).unwrap();
        assert!(public.exists());
        // The public key of another pair is not shown as ours.
        let other = IdentityKey::generate(KeyType::Ed25519, 0).unwrap();
        std::fs::remove_file(config.minion_key()).unwrap();
        std::fs::write(config.minion_key(), other.to_pem().as_bytes()).unwrap();
        assert_eq!(own_key(&config).unwrap().kind(), KeyType::Ed25519);
        let text = std::fs::read_to_string(&public).unwrap();
        assert_eq!(text, other.public().to_pem());
    }

    #[test]
    fn a_pinned_file_that_is_no_key_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(pinned(&master_file(dir.path())).unwrap(), None);
        std::fs::write(master_file(dir.path()), "").unwrap();
        assert!(pinned(&master_file(dir.path())).is_err());
    }
}
