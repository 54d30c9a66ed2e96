//! Certificates that are signed here.

use super::cert::{self, Cert};
use super::der;
use super::describe::{self, Parties};
use super::extension::{self, Extension, field as extensions_field};
use super::keys::{self, PublicKey};
use super::names::Name;
use super::pem;
use super::request::Csr;
use super::tables::{CERT_EXTENSIONS, CSR_FORBIDDEN};
use super::values::{in_days, now, serial_number, subject, time_under};
use crate::context::CallError;
use crate::execution::declare::Result;
use crate::execution::python;
use halite_wire::{Map, Value};
use openssl::pkey::{PKey, Private};
use std::path::Path;

/// A certificate that is not signed yet.
pub struct Draft {
    /// Its number.
    pub serial: Vec<u8>,
    /// Whom it is for.
    pub subject: Name,
    /// Who signs it.
    pub issuer: Name,
    /// From when on it is valid.
    pub not_before: i64,
    /// Until when.
    pub not_after: i64,
    /// The key that it is for.
    pub key: PublicKey,
    /// Its extensions.
    pub extensions: Vec<Extension>,
    /// The key that signs it.
    pub signing_key: Option<PKey<Private>>,
    /// The private key that it is for, if that is known.
    pub private_key: Option<PKey<Private>>,
    /// The certificate of who signs it.
    pub signer: Option<Cert>,
}

/// Makes a draft from arguments (`build_crt`). Without `signs` it is only for a comparison with what another minion signs.
///
/// # Errors
/// Arguments are wrong or missing.
pub fn draft(args: &Map, signs: bool) -> Result<Draft> {
    let given = |key: &str| args.get(key).filter(|v| v.truthy());
    let pass = |key: &str| args.get(key).filter(|v| !v.is_nil()).map(python::str);
    let private = |key: &str, passphrase: &str| {
        let from = args.get(key).unwrap_or(&Value::Nil);
        keys::load(from, pass(passphrase).as_deref()).map(|loaded| loaded.key)
    };
    let signing_key = if signs {
        Some(private(
            "signing_private_key",
            "signing_private_key_passphrase",
        )?)
    } else {
        None
    };
    let serial = serial_number(args.get("serial_number"))?;
    let csr = given("csr")
        .map(|from| Csr::load(from))
        .transpose()?
        .map(|(csr, _)| csr);
    let signer = given("signing_cert")
        .map(|from| cert::load(from, None))
        .transpose()?
        .map(|l| l.cert);
    let mut private_key = None;
    let key = match (&signer, &signing_key) {
        (None, Some(own)) => {
            private_key = Some(own.clone());
            PublicKey::of(own)?
        }
        (None, None) => {
            let text = "'NoneType' object has no attribute 'public_key'";
            return Err(CallError::raised("AttributeError", text));
        }
        (Some(_), _) => {
            if given("private_key").is_some() {
                let key = private("private_key", "private_key_passphrase")?;
                let public = PublicKey::of(&key)?;
                private_key = Some(key);
                public
            } else if let Some(from) = given("public_key") {
                keys::load_public(from)?
            } else if let Some(csr) = &csr {
                csr.key.clone()
            } else {
                return Err(CallError::Invocation(
                    "This certificate is not self-signed (signing_cert is set) and thus needs public_key, private_key \
                     or csr to derive public key to sign"
                        .to_owned(),
                ));
            }
        }
    };
    if let (Some(signer), Some(signing)) = (&signer, &signing_key)
        && !signer.key.is_of(signing)
    {
        return Err(CallError::Invocation(cert::KEY_MISMATCH.to_owned()));
    }
    let subject = subject(args)?;
    let not_before = time_under(args, "not_before")?.unwrap_or_else(now);
    let not_after = match time_under(args, "not_after")? {
        Some(when) => when,
        None => in_days(args.get("days_valid").unwrap_or(&Value::Int(30)))?,
    };
    if not_after < not_before {
        let text = "The not valid after date must be after the not valid before date.";
        return Err(CallError::raised("ValueError", text));
    }
    let parties = Parties {
        subject: Some(&key),
        signer: signer.as_ref(),
        own: signer.is_none().then_some(&key),
    };
    let mut extensions = Vec::new();
    for name in CERT_EXTENSIONS {
        // A signing policy may take an extension away.
        if let Some(given) = args.get(name).filter(|v| !v.is_nil()) {
            extensions.push(describe::create(name, given, &parties)?);
        }
    }
    let requested = csr.iter().flat_map(|csr| {
        let allowed = CERT_EXTENSIONS
            .iter()
            .filter(|name| !CSR_FORBIDDEN.contains(name));
        allowed.filter_map(|name| extension::find(&csr.extensions, name))
    });
    for one in requested {
        if !extensions.iter().any(|e| e.oid == one.oid) {
            extensions.push(one.clone());
        }
    }
    Ok(Draft {
        serial,
        issuer: signer
            .as_ref()
            .map_or_else(|| subject.clone(), |s| s.subject.clone()),
        subject,
        not_before,
        not_after,
        key,
        extensions,
        signing_key,
        private_key,
        signer,
    })
}

impl Draft {
    /// The certificate.
    ///
    /// # Errors
    /// The digest cannot be used.
    pub fn sign(&self, digest: &str) -> Result<Cert> {
        let key = self
            .signing_key
            .as_ref()
            .ok_or_else(|| CallError::Type("Need private key to sign certificate".to_owned()))?;
        let content = der::seq([
            der::tlv(der::PARTS, &der::int(2)),
            der::tlv(der::INTEGER, &der::magnitude(&self.serial)),
            keys::algorithm(key, digest)?,
            self.issuer.der.clone(),
            der::seq([der::time(self.not_before), der::time(self.not_after)]),
            self.subject.der.clone(),
            self.key.spki.clone(),
            extensions_field(der::PARTS | 3, &self.extensions),
        ]);
        let der = keys::signed(key, digest, content)?;
        Cert::read(&der).ok_or_else(|| CallError::raised("ValueError", "error parsing asn1 value"))
    }
}

/// Signs a certificate here (`_create_certificate_local`); with the private key that it is for, if that is known.
///
/// # Errors
/// Arguments are wrong or missing.
pub fn local(args: &Map) -> Result<(Cert, Option<PKey<Private>>)> {
    let draft = draft(args, true)?;
    let digest = args.get("digest").map_or("sha256".to_owned(), python::str);
    let cert = draft.sign(&digest)?;
    copy(&cert, args)?;
    Ok((cert, draft.private_key))
}

/// Writes a certificate into the directory `copypath` as well, if there is one.
///
/// # Errors
/// The file cannot be written.
pub fn copy(cert: &Cert, args: &Map) -> Result<()> {
    if let Some(dir) = args.get("copypath").filter(|v| v.truthy()) {
        let named = args.get("prepend_cn").is_some_and(Value::truthy);
        let name = cert.subject.get("CN").filter(|_| named);
        // A name may not lead out of the directory.
        let prefix = name
            .map(|n| format!("{}-", n.replace('/', "_")))
            .unwrap_or_default();
        let serial = super::hex(&cert.serial);
        let serial = serial.trim_start_matches('0');
        let path = Path::new(&python::str(dir)).join(format!("{prefix}{serial}.crt"));
        let path = path.to_string_lossy();
        pem::write(&cert.pem().into(), &path, true, Some("CERTIFICATE"))?;
    }
    Ok(())
}
