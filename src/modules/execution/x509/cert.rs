//! Certificates: reading, making and encoding them.

use super::der::{self, Reader};
use super::extension::{self, Extension, Parties};
use super::keys::{self, Contents, PublicKey};
use super::names::{self, Name};
use super::request::Csr;
use super::source::{self, LoadError, Loaded};
use super::tables::{CERT_EXTENSIONS, CSR_FORBIDDEN};
use crate::context::CallError;
use crate::execution::declare::Result;
use crate::execution::python;
use halite_wire::{Map, Value};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use openssl::pkey::{PKey, Private};
use openssl::x509::X509;

const DAY: f64 = 86400.0;
const FORMAT: &str = "%Y-%m-%d %H:%M:%S";
/// The last second of the year 9999.
const LAST: f64 = 253_402_300_799.0;

/// A certificate.
#[derive(Clone)]
pub struct Cert {
    /// Its encoding.
    pub der: Vec<u8>,
    /// 3, nearly always.
    pub version: u8,
    /// Its number, without a sign.
    pub serial: Vec<u8>,
    /// The algorithm of its signature.
    pub signature: String,
    /// Who has signed it.
    pub issuer: Name,
    /// Whom it is for.
    pub subject: Name,
    /// From when on it is valid, in seconds.
    pub not_before: i64,
    /// Until when.
    pub not_after: i64,
    /// The key that it is for.
    pub key: PublicKey,
    /// Its extensions.
    pub extensions: Vec<Extension>,
}

/// A certificate as it was loaded.
pub struct LoadedCert {
    /// The certificate.
    pub cert: Cert,
    /// The encoding it had; none if it was given as such.
    pub encoding: &'static str,
    /// What came with it.
    pub chain: Vec<Cert>,
    /// Its name in PKCS#12.
    pub friendly_name: Option<Vec<u8>>,
}

impl Cert {
    /// From its encoding.
    pub fn read(der: &[u8]) -> Option<Cert> {
        let mut outer = Reader(der::only(der, der::SEQUENCE)?);
        let mut tbs = outer.inside(der::SEQUENCE)?;
        let signature = outer.inside(der::SEQUENCE)?.oid()?;
        outer.take(der::BITS)?;
        let version = match tbs.inside(der::PARTS) {
            Some(mut explicit) => explicit.take(der::INTEGER)?.last()? + 1,
            None => 1,
        };
        let serial = unsigned(tbs.take(der::INTEGER)?);
        tbs.take(der::SEQUENCE)?;
        let issuer = Name::read(tbs.item()?.whole)?;
        let mut validity = tbs.inside(der::SEQUENCE)?;
        let (not_before, not_after) = (validity.time()?, validity.time()?);
        let subject = Name::read(tbs.item()?.whole)?;
        let key = PublicKey::read(tbs.item()?.whole)?;
        // Unique identifiers, which nobody uses.
        tbs.take(der::FIELD | 1);
        tbs.take(der::FIELD | 2);
        let extensions = match tbs.inside(der::PARTS | 3) {
            Some(explicit) => read_extensions(explicit.0)?,
            None => Vec::new(),
        };
        Some(Cert {
            der: der.to_vec(),
            version,
            serial,
            signature,
            issuer,
            subject,
            not_before,
            not_after,
            key,
            extensions,
        })
    }

    /// The identifier of its key, which it names itself or which is made from the key.
    pub fn key_identifier(&self) -> Vec<u8> {
        let own = extension::find(&self.extensions, "subjectKeyIdentifier");
        let own = own.and_then(|e| der::only(&e.value, der::OCTETS));
        own.map_or_else(|| self.key.identifier(), <[u8]>::to_vec)
    }

    /// Whether a key has signed it.
    pub fn is_signed_by(&self, key: &PublicKey) -> bool {
        X509::from_der(&self.der).is_ok_and(|cert| cert.verify(&key.key).unwrap_or(false))
    }

    /// Its PEM.
    pub fn pem(&self) -> String {
        source::to_pem("CERTIFICATE", &self.der)
    }
}

/// The content of a number, which is not negative.
pub fn unsigned(body: &[u8]) -> Vec<u8> {
    let zeros = body.iter().take_while(|b| **b == 0).count();
    body[zeros..].to_vec()
}

/// Extensions from their list.
pub fn read_extensions(der: &[u8]) -> Option<Vec<Extension>> {
    let items = Reader(der::only(der, der::SEQUENCE)?).all()?;
    items
        .iter()
        .map(|item| Extension::read(item.body))
        .collect()
}

/// A list of extensions under a field's tag; nothing if there is none.
pub fn extensions_field(tag: u8, all: &[Extension]) -> Vec<u8> {
    if all.is_empty() {
        return Vec::new();
    }
    der::tlv(tag, &der::seq(all.iter().map(Extension::der)))
}

/// Seconds of a time as arguments have it.
///
/// # Errors
/// It has another form.
pub fn parse_time(text: &str) -> Result<i64> {
    let when = DateTime::strptime(FORMAT, text).map_err(|_| {
        let shown = python::repr(&text.into());
        CallError::raised(
            "ValueError",
            format!("time data {shown} does not match format '{FORMAT}'"),
        )
    })?;
    let when = when.to_zoned(TimeZone::UTC).map_err(|_| out_of_range())?;
    Ok(when.timestamp().as_second())
}

fn out_of_range() -> CallError {
    CallError::raised("OverflowError", "date value out of range")
}

/// Now, in seconds.
pub fn now() -> i64 {
    Timestamp::now().as_second()
}

/// Seconds in a number of days from now.
///
/// # Errors
/// It is no number, or too large.
pub fn in_days(days: &Value) -> Result<i64> {
    let days = match days {
        Value::Int(days) => *days as f64,
        Value::Float(days) => *days,
        Value::Bool(one) => f64::from(u8::from(*one)),
        other => {
            return Err(CallError::Type(format!(
                "unsupported type for timedelta days component: {}",
                python::type_name(other)
            )));
        }
    };
    let when = now() as f64 + days * DAY;
    if (-LAST..=LAST).contains(&when) {
        Ok(when as i64)
    } else {
        Err(out_of_range())
    }
}

/// A time under a key, if there is one.
///
/// # Errors
/// It is none.
pub fn time_under(map: &Map, key: &str) -> Result<Option<i64>> {
    match map.get(key).filter(|v| v.truthy()) {
        None => Ok(None),
        Some(Value::Str(text)) => parse_time(text).map(Some),
        Some(other) => Err(CallError::Type(format!(
            "strptime() argument 1 must be str, not {}",
            python::type_name(other)
        ))),
    }
}

/// A serial number (`_get_serial_number`); a random one if none is given.
///
/// # Errors
/// It is none.
pub fn serial_number(given: Option<&Value>) -> Result<Vec<u8>> {
    let bytes = match given {
        None | Some(Value::Nil) => {
            let mut bytes: [u8; 20] = rand::random();
            // 159 bits are the most that fit.
            bytes[0] &= 0x7f;
            return Ok(unsigned(&bytes));
        }
        Some(Value::Int(number)) if *number >= 0 => Some(number.to_be_bytes().to_vec()),
        Some(Value::UInt(number)) => Some(number.to_be_bytes().to_vec()),
        Some(Value::Str(text)) => super::unhex(&text.replace(':', "")),
        Some(Value::Bytes(bytes)) => Some(bytes.clone()),
        Some(_) => None,
    };
    match bytes {
        Some(bytes) => Ok(unsigned(&bytes)),
        None => Err(CallError::Command(format!(
            "Could not parse serial number {}",
            given.map(python::str).unwrap_or_default()
        ))),
    }
}

/// Loads a certificate (`load_cert`).
///
/// # Errors
/// It is none.
pub fn load(from: &Value, passphrase: Option<&str>) -> Loaded<LoadedCert> {
    let bytes = source::bytes(from)?;
    let made = |mut certs: Vec<Cert>, encoding| {
        let cert = if certs.is_empty() {
            None
        } else {
            Some(certs.remove(0))
        };
        cert.map(|cert| LoadedCert {
            cert,
            encoding,
            chain: certs,
            friendly_name: None,
        })
    };
    if source::is_pem(&bytes) {
        const NOT_PEM: LoadError = LoadError::Format("Could not load PEM-encoded certificate.");
        let pems = source::pems(&bytes);
        let first = pems.first().ok_or(NOT_PEM)?;
        if first.label.starts_with("PKCS7") {
            const NOT_PKCS7: LoadError =
                LoadError::Format("Could not load PEM-encoded PKCS#7 blob");
            let certs = first.der.as_deref().and_then(read_pkcs7).ok_or(NOT_PKCS7)?;
            return made(certs, "pkcs7_pem").ok_or(NOT_PKCS7);
        }
        let mut certs = pems.iter().map(|pem| {
            let is = pem.label == "CERTIFICATE" || pem.label == "X509 CERTIFICATE";
            pem.der.as_deref().filter(|_| is).and_then(Cert::read)
        });
        let mut all = vec![certs.next().flatten().ok_or(NOT_PEM)?];
        // Whatever else is in the file does not matter.
        all.extend(certs.flatten());
        return made(all, "pem").ok_or(NOT_PEM);
    }
    const NEITHER: LoadError =
        LoadError::Format("Could not deserialize binary data, neither as DER nor PKCS#7, PKCS#12.");
    if let Some(cert) = Cert::read(&bytes) {
        return made(vec![cert], "der").ok_or(NEITHER);
    }
    if let Some(archive) = keys::archive(&bytes, passphrase)? {
        let cert = archive.cert.ok_or(NEITHER)?;
        let read = |cert: &openssl::x509::X509Ref| cert.to_der().ok().and_then(|d| Cert::read(&d));
        let mut certs = vec![read(&cert).ok_or(NEITHER)?];
        certs.extend(archive.ca.iter().flatten().filter_map(read));
        let mut loaded = made(certs, "pkcs12").ok_or(NEITHER)?;
        loaded.friendly_name = cert.alias().map(<[u8]>::to_vec);
        return Ok(loaded);
    }
    let certs = read_pkcs7(&bytes).ok_or(NEITHER)?;
    made(certs, "pkcs7_der").ok_or(NEITHER)
}

const SIGNED_DATA: &str = "1.2.840.113549.1.7.2";
const DATA: &str = "1.2.840.113549.1.7.1";

fn read_pkcs7(der: &[u8]) -> Option<Vec<Cert>> {
    let mut info = Reader(der::only(der, der::SEQUENCE)?);
    if info.oid()? != SIGNED_DATA {
        return None;
    }
    let mut signed = info.inside(der::PARTS)?.inside(der::SEQUENCE)?;
    signed.take(der::INTEGER)?;
    signed.take(der::SET)?;
    signed.take(der::SEQUENCE)?;
    let certs = signed.inside(der::PARTS)?.all()?;
    certs.iter().map(|item| Cert::read(item.whole)).collect()
}

fn to_pkcs7(certs: &[&Cert]) -> Vec<u8> {
    let all = certs.iter().map(|c| c.der.clone()).collect();
    let signed = der::seq([
        der::int(1),
        der::tlv(der::SET, &[]),
        der::seq([der::oid(DATA)]),
        der::set_of(der::PARTS, all),
        der::tlv(der::SET, &[]),
    ]);
    der::seq([der::oid(SIGNED_DATA), der::tlv(der::PARTS, &signed)])
}

/// How a certificate is to be encoded.
pub struct Encoding<'a> {
    /// Its name.
    pub name: &'a str,
    /// What comes with it.
    pub chain: &'a [Cert],
    /// Its key, for PKCS#12.
    pub key: Option<&'a PKey<Private>>,
    /// The passphrase of PKCS#12.
    pub passphrase: Option<String>,
    /// Whether PKCS#12 is for older programs.
    pub compatible: bool,
    /// Its name in PKCS#12.
    pub friendly_name: Option<String>,
}

/// Encodes a certificate.
///
/// # Errors
/// PKCS#12 cannot be made.
pub fn encode(cert: &Cert, how: &Encoding<'_>) -> Result<Vec<u8>> {
    let all: Vec<&Cert> = std::iter::once(cert).chain(how.chain).collect();
    match how.name {
        "der" => Ok(cert.der.clone()),
        "pem" => {
            let pems: Vec<String> = all.iter().map(|c| c.pem()).collect();
            Ok(pems.join("\n").into_bytes())
        }
        "pkcs7_der" => Ok(to_pkcs7(&all)),
        "pkcs7_pem" => Ok(source::to_pem("PKCS7", &to_pkcs7(&all)).into_bytes()),
        _ => {
            let key = how
                .key
                .ok_or_else(|| CallError::Invocation(NO_KEY.to_owned()))?;
            Contents {
                key,
                certificate: Some(&cert.der),
                others: how.chain.iter().map(|c| c.der.as_slice()).collect(),
                name: how.friendly_name.clone(),
            }
            .encode(how.passphrase.as_deref(), how.compatible)
        }
    }
}

/// What PKCS#12 without a key ends with.
pub const NO_KEY: &str =
    "Creating a PKCS12-encoded certificate without embedded private key is unsupported";

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

/// What a draft ends with whose keys do not fit.
pub const KEY_MISMATCH: &str = "Signing private key does not match the certificate's public key";

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
        .map(|from| load(from, None))
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
        return Err(CallError::Invocation(KEY_MISMATCH.to_owned()));
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
            extensions.push(extension::create(name, given, &parties)?);
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

/// The subject that arguments give: as `subject`, or by the names of attributes.
///
/// # Errors
/// It is no name.
pub fn subject(args: &Map) -> Result<Name> {
    match args.get("subject").filter(|v| v.truthy()) {
        Some(subject) => names::parse(subject),
        None => names::parse(&args.clone().into()),
    }
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
