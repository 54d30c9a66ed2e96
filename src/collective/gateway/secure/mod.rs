//! The configured security plugin, with its keys from files; and counters of refused messages.

use crate::security::{
    Aes, Authority, Chain, Choria, ChoriaSettings, Clock, Names, PlainSettings, Psk, Security, Ssl,
};
use crate::wire::{CallerId, Collective, Form, Refused};
use halite_config::{CollectiveGateway, Plugin};
use halite_crypto::{HashType, PrivateKey, PublicKey, finger};
use halite_gateway::key_files::{File, KeyFileError};
use std::path::Path;
use std::sync::Arc;

/// A shared secret shorter than this, in bytes, causes a warning.
const SHORT_SECRET: usize = 16;

/// An RSA key of fewer bits causes a warning, too.
const WEAK: usize = 2048;

/// A security plugin with a description.
pub struct Secure {
    /// The plugin.
    pub security: Box<dyn Security>,
    /// The key that the network is trusted by, for the log: the CA's with Choria, the servers' with SSL and AES.
    pub trusts: String,
}

impl Secure {
    fn new(security: impl Security + 'static, whose: &str, key: Option<&PublicKey>) -> Secure {
        let print = key.map(|key| finger(&key.to_pem(), HashType::Sha256));
        Secure {
            security: Box::new(security),
            trusts: match print {
                Some(print) => format!("{whose}, {print}"),
                None => whose.to_owned(),
            },
        }
    }
}

/// Creates the plugin from the files in the settings.
///
/// # Errors
/// A file cannot be read, has too wide permissions, or has invalid contents.
pub fn build(config: &CollectiveGateway) -> Result<Secure, KeyFileError> {
    match config.plugin {
        Plugin::Psk => psk(config),
        Plugin::Ssl | Plugin::Aes => plain(config),
        Plugin::Choria => choria(config, Form::CHORIA),
        Plugin::ChoriaYaml => choria(config, Form::CHORIA_YAML),
    }
}

/// The clock to check certificates against.
fn clock() -> Clock {
    Arc::new(now)
}

/// Seconds since 1970.
fn now() -> i64 {
    super::act::Clock::now().unix
}

fn psk(config: &CollectiveGateway) -> Result<Secure, KeyFileError> {
    let file = file("psk_file", &config.psk_file);
    let text = file.secret()?;
    let secret = text.trim();
    if secret.is_empty() {
        return Err(file.bad("it is empty; put the value of the servers' `plugin.psk` into it"));
    }
    if secret.len() < SHORT_SECRET {
        let path = config.psk_file.display();
        log::warn!(
            "{path}: a shared secret of {} bytes can be guessed",
            secret.len()
        );
    }
    let home = home(config)?;
    let caller = config.caller.parse::<CallerId>();
    let caller = caller.map_err(|bad| {
        KeyFileError::new(
            super::NAME,
            "caller",
            format!("{bad}; it looks like user=halite"),
        )
    })?;
    let psk = Psk::new(secret.as_bytes(), caller, home);
    Ok(Secure::new(psk, "anyone who knows the shared secret", None))
}

fn plain(config: &CollectiveGateway) -> Result<Secure, KeyFileError> {
    let aes = config.plugin == Plugin::Aes;
    let client = private_key(&file("client_private", &config.client_private))?;
    let public = file("client_public", &config.client_public);
    let (client_public, name) = public_key(&public, aes)?;
    if client.public() != client_public {
        return Err(public.bad("it is not the public half of client_private"));
    }
    let caller = format!("cert={name}").parse::<CallerId>();
    let caller = caller.map_err(|_| {
        let why = "its name is that of the caller and may have letters, digits, '_', '-' and '.' only; rename it, also at the servers";
        public.bad(why)
    })?;
    let servers = file("server_public", &config.server_public);
    let (server_public, _) = public_key(&servers, aes)?;
    let server_private = if config.server_private.as_os_str().is_empty() {
        None
    } else {
        Some(private_key(&file(
            "server_private",
            &config.server_private,
        ))?)
    };
    if server_private
        .as_ref()
        .is_some_and(|key| key.public() != server_public)
    {
        return Err(servers.bad("it is not the public half of server_private"));
    }
    let directory = config.client_certs.clone();
    file("client_certs", &directory).directory()?;
    let keys = PlainSettings {
        client,
        caller,
        server_public: server_public.clone(),
        server_private,
        callers: Box::new(move |name| caller_key(&directory, name)),
        enforce_ttl: config.enforce_ttl,
        serializer: config.serializer,
        home: home(config)?,
    };
    let whose = "the key that all servers share";
    if !aes {
        return Ok(Secure::new(Ssl::new(keys), whose, Some(&server_public)));
    }
    let authority = if config.ca.as_os_str().is_empty() {
        None
    } else {
        Some((
            authority(&file("ca", &config.ca))?,
            names("callers", &config.callers)?,
        ))
    };
    let aes = Aes::new(keys, authority, clock());
    Ok(Secure::new(aes, whose, Some(&server_public)))
}

fn choria(config: &CollectiveGateway, form: Form) -> Result<Secure, KeyFileError> {
    let ca = file("ca", &config.ca);
    let authority = authority(&ca)?;
    let network = authority.key().map_err(|why| ca.bad(&why))?;
    let own = file("certificate", &config.certificate);
    let certificate = own.public()?;
    let chain = Chain::from_pem(&certificate).map_err(|why| own.bad(&why.to_string()))?;
    let private = file("key", &config.key);
    let key = private_key(&private)?;
    if chain.key().map_err(|why| own.bad(&why))? != key.public() {
        return Err(private.bad("it is not the key of `certificate`"));
    }
    let callers = names("callers", &config.callers)?;
    let privileged = names("privileged", &config.privileged)?;
    // An invalid certificate of our own is only a warning; clocks and lists differ between machines.
    match chain.verify(&authority, now()) {
        Err(why) => log::warn!("{}: {why}", config.certificate.display()),
        Ok(own) if !own.names.iter().any(|name| callers.has(name)) => log::warn!(
            "{}: none of its names ({}) is in `callers`; servers that have the same list will not listen",
            config.certificate.display(),
            own.names.join(", "),
        ),
        Ok(_) => {}
    }
    let settings = ChoriaSettings {
        form,
        authority,
        certificate: certificate.to_string(),
        key,
        callers,
        privileged,
        clock: clock(),
    };
    let choria = Choria::new(settings).map_err(|why| own.bad(&why))?;
    Ok(Secure::new(choria, "the CA's key", Some(&network)))
}

/// The main collective.
fn home(config: &CollectiveGateway) -> Result<Collective, KeyFileError> {
    let main = config.collectives.first().map(String::as_str);
    main.unwrap_or_default()
        .parse::<Collective>()
        .map_err(|bad| KeyFileError::new(super::NAME, "collectives", bad.to_string()))
}

fn names(setting: &'static str, list: &[String]) -> Result<Names, KeyFileError> {
    Names::new(list).map_err(|why| {
        KeyFileError::new(
            super::NAME,
            setting,
            format!("{why}; write names, or /regular expressions/ between slashes"),
        )
    })
}

/// The public key or certificate of a caller by name, read from `client_certs`.
fn caller_key(directory: &Path, name: &str) -> Option<String> {
    let path = directory.join(format!("{name}.pem"));
    // Modes may have changed since the start.
    let trusted = file("client_certs", directory).directory();
    match trusted.and_then(|()| file("client_certs", &path).public()) {
        Ok(text) => Some(text.to_string()),
        Err(_) if !path.exists() => None,
        Err(bad) => {
            log::warn!("{bad}");
            None
        }
    }
}

/// The file of a setting.
fn file<'a>(setting: &'static str, path: &'a Path) -> File<'a> {
    File::new(super::NAME, setting, path)
}

fn private_key(file: &File) -> Result<PrivateKey, KeyFileError> {
    let text = file.secret()?;
    let key = PrivateKey::from_pem(&text).map_err(|why| file.bad(&why.to_string()))?;
    let (path, bits) = (file.path.display(), key.public().bits());
    if bits < WEAK {
        log::warn!("{path}: an RSA key of {bits} bits is weak; make one of {WEAK} or more");
    }
    Ok(key)
}

fn authority(file: &File) -> Result<Authority, KeyFileError> {
    let text = file.public()?;
    Authority::from_pem(&text).map_err(|why| file.bad(&why))
}

/// A public key, or that of a certificate, with the name of its owner: that of the file, or with `common`
/// the common name of the certificate.
fn public_key(file: &File, common: bool) -> Result<(PublicKey, String), KeyFileError> {
    let text = file.public()?;
    let name = file.path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(".pem").unwrap_or(&name).to_owned();
    if !text.contains("BEGIN CERTIFICATE") {
        let key = PublicKey::from_pem(&text);
        return Ok((key.map_err(|why| file.bad(&why.to_string()))?, name));
    }
    let chain = Chain::from_pem(&text).map_err(|why| file.bad(&why.to_string()))?;
    let key = chain.key().map_err(|why| file.bad(&why))?;
    let name = chain.common_name().filter(|_| common).unwrap_or(name);
    Ok((key, name))
}

/// Numbers of refused messages, by reason.
#[derive(Debug, Default)]
pub struct RefusedCounters([u64; Refused::REASONS.len()]);

impl RefusedCounters {
    /// Counts a refused message.
    pub fn count(&mut self, refused: &Refused) {
        if let Some(counter) = self.0.get_mut(refused.index()) {
            *counter += 1;
        }
    }

    /// Reasons that occurred, with their counts, in the order of [`Refused::REASONS`].
    pub fn seen(&self) -> Vec<(&'static str, u64)> {
        let all = Refused::REASONS.into_iter().zip(self.0);
        all.filter(|(_, number)| *number > 0).collect()
    }
}

#[cfg(test)]
mod tests;
