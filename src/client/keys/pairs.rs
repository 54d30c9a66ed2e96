//! New key pairs, and the signature of the master's public key (`salt/crypt.py gen_keys`, `gen_signature`).

use base64::Engine;
use halite_config::{MasterConfig, SaltSeries};
use halite_crypto::{HashType, IdentityKey, IdentityPublic, KeyType, Signing, clean_key, finger};
use halite_sys::daemon::{make_dir, write_atomic};
use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Why a pair or a signature could not be created.
#[derive(Debug)]
pub enum KeyPairError {
    /// A message that `salt-key` prints as its result.
    Missing(String),
    /// The name is not a valid file name.
    BadName(String),
    /// A file cannot be read or written.
    Io(PathBuf, io::Error),
    /// A file holds no usable key, or no key could be generated, with the reason.
    Key(PathBuf, String),
}

impl fmt::Display for KeyPairError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            KeyPairError::Missing(text) => f.write_str(text),
            KeyPairError::BadName(name) => {
                write!(
                    f,
                    "{name:?} cannot name a key pair: give a plain name, and the directory with --gen-keys-dir"
                )
            }
            KeyPairError::Io(path, e) => write!(f, "{}: {e}", path.display()),
            KeyPairError::Key(path, why) => write!(f, "{}: {why}", path.display()),
        }
    }
}

impl std::error::Error for KeyPairError {}

/// Creates `dir/name.pem` (0400) and `dir/name.pub`; returns the fingerprint of the public key. An existing
/// pair is left unchanged. `bits` is the length of an RSA key.
///
/// # Errors
/// See [`KeyPairError`].
pub fn generate_pair(
    config: &MasterConfig,
    dir: &Path,
    name: &str,
    kind: KeyType,
    bits: u32,
) -> Result<String, KeyPairError> {
    let key = pair(config, dir, name, kind, bits)?;
    let hash = config.hash_type.parse::<HashType>().unwrap_or_default();
    Ok(finger(&key.public().to_pem(), hash))
}

fn pair(
    config: &MasterConfig,
    dir: &Path,
    name: &str,
    kind: KeyType,
    bits: u32,
) -> Result<IdentityKey, KeyPairError> {
    if name.is_empty() || name.contains(['/', '\0']) {
        return Err(KeyPairError::BadName(name.to_owned()));
    }
    let (path, public_path) = (
        dir.join(format!("{name}.pem")),
        dir.join(format!("{name}.pub")),
    );
    if path.exists() {
        let key = private_key(&path)?;
        return match key.kind() == kind {
            true => Ok(key),
            false => Err(KeyPairError::Key(
                path,
                format!("it is there, and is {}", key.kind()),
            )),
        };
    }
    let io_error = |path: &Path| {
        let path = path.to_owned();
        move |e| KeyPairError::Io(path, e)
    };
    make_dir(dir, 0o755).map_err(io_error(dir))?;
    log::info!("Generating key-pair for {}", path.display());
    let key = IdentityKey::generate(kind, bits as usize)
        .map_err(|e| KeyPairError::Key(path.clone(), e.to_string()))?;
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o400)
        .open(&path)
        .and_then(|mut f| f.write_all(key.to_pem().as_bytes()))
        .map_err(io_error(&path))?;
    write_atomic(
        &public_path,
        key.public().to_pem().as_bytes(),
        public_mode(config),
    )
    .map_err(io_error(&public_path))?;
    Ok(key)
}

/// 3008 gives the master's public files the same mode as private ones (`salt/cache/localfs_key.py store`).
fn public_mode(config: &MasterConfig) -> u32 {
    match config.salt_series {
        SaltSeries::S3006 | SaltSeries::S3007 => 0o644,
        SaltSeries::S3008 => 0o400,
    }
}

fn private_key(path: &Path) -> Result<IdentityKey, KeyPairError> {
    IdentityKey::from_pem(&read(path)?)
        .map_err(|e| KeyPairError::Key(path.to_owned(), e.to_string()))
}

fn read(path: &Path) -> Result<zeroize::Zeroizing<String>, KeyPairError> {
    std::fs::read_to_string(path)
        .map(zeroize::Zeroizing::new)
        .map_err(|e| KeyPairError::Io(path.to_owned(), e))
}

/// Options of `--gen-signature`; empty paths mean the configured files.
#[derive(Clone, Debug, Default)]
pub struct SignatureOptions {
    /// The private key for signing; by default `<master_sign_key_name>.pem` in `pki_dir`.
    pub private: String,
    /// The public key to sign; by default `master.pub` in `pki_dir`.
    pub public: String,
    /// Directory of the signature file; by default `pki_dir`.
    pub directory: String,
    /// Create the signing pair if there is none.
    pub create: bool,
    /// Key size of that pair in bits.
    pub bits: u32,
}

/// Signs the master's public key for minions with `verify_master_pubkey_sign` (reference `salt-protocol.md` 3.4
/// `pub_sig`). Returns `false` if the file exists already; it is left unchanged.
///
/// # Errors
/// See [`KeyPairError`].
pub fn make_signature(
    config: &MasterConfig,
    options: &SignatureOptions,
) -> Result<bool, KeyPairError> {
    let public = existing_path(&options.public, "Public-key")?;
    let private = existing_path(&options.private, "Private-key")?;
    let own = config.sign_key();
    let private = match private.or_else(|| own.is_file().then_some(own)) {
        Some(path) => private_key(&path)?,
        None if options.create => pair(
            config,
            &config.pki_dir,
            &config.master_sign_key_name,
            KeyType::Rsa,
            options.bits,
        )?,
        None => return Err(KeyPairError::Missing("No usable private-key found".into())),
    };
    let master = config.master_pub();
    let Some(public) = public.or_else(|| master.is_file().then_some(master)) else {
        return Err(KeyPairError::Missing("No usable public-key found".into()));
    };
    let text = read(&public)?;
    IdentityPublic::from_pem(&text).map_err(|e| KeyPairError::Key(public, e.to_string()))?;
    let dir = match options.directory.as_str() {
        "" => config.pki_dir.clone(),
        dir => dir.into(),
    };
    write_signature(config, &dir, &private, &clean_key(&text))
}

fn existing_path(path: &str, what: &str) -> Result<Option<PathBuf>, KeyPairError> {
    if path.is_empty() {
        return Ok(None);
    }
    if !Path::new(path).is_file() {
        return Err(KeyPairError::Missing(format!(
            "{what} {path} does not exist"
        )));
    }
    Ok(Some(path.into()))
}

fn write_signature(
    config: &MasterConfig,
    dir: &Path,
    private: &IdentityKey,
    public: &str,
) -> Result<bool, KeyPairError> {
    let path = dir.join(config.signature_name());
    if path.is_file() {
        log::error!("{} exists already; remove it first", path.display());
        return Ok(false);
    }
    let algorithm: Signing = config.publish_signing_algorithm.parse().unwrap_or_default();
    let text = base64::engine::general_purpose::STANDARD
        .encode(private.sign(algorithm, public.as_bytes()))
        + "\n";
    make_dir(dir, 0o755)
        .and_then(|()| write_atomic(&path, text.as_bytes(), public_mode(config)))
        .map_err(|e| KeyPairError::Io(path, e))?;
    Ok(true)
}
