//! `asymmetric`: signatures by keys of RSA, ECDSA, Ed25519 and Ed448.

use super::declare::{Function, Lit, Module, Result, args, opt, req};
use super::file::urlparse;
use super::{Call, CallError, python};
use crate::files::MAX_CONTENT;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use halite_sys::safe_open::read_finite;
use halite_wire::{Map, Value, map};
use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::pkey::{HasPublic, Id, PKey, PKeyRef, Private, Public};
use openssl::rsa::Padding;
use openssl::sign::{RsaPssSaltlen, Signer, Verifier};
use std::path::Path;

pub(super) const MODULE: Module = Module {
    name: "asymmetric",
    functions: &[
        Function::new("sign", sign, "Signs a text or a file with a private key.").args(&[
            req("privkey"),
            opt("passphrase", Lit::Nil),
            opt("text", Lit::Nil),
            opt("filename", Lit::Nil),
            opt("digest", Lit::Nil),
            opt("raw", Lit::Nil),
            opt("path", Lit::Nil),
        ]),
        Function::new(
            "verify",
            verify,
            "Checks signatures of a text or a file with public keys.",
        )
        .args(args![
            text = None,
            filename = None,
            pubkey = None,
            signature = None,
            digest = None,
            signed_by_any = None,
            signed_by_all = None
        ])
        .keywords(),
    ],
};

const BEGIN: &[u8] = b"-----BEGIN";

fn invocation<T>(text: &str) -> Result<T> {
    Err(CallError::Invocation(text.to_owned()))
}

fn content(path: &str) -> Result<Vec<u8>> {
    read_finite(path.as_ref(), MAX_CONTENT).map_err(|e| python::os_error(&e, path))
}

fn is_file(text: &str) -> bool {
    !text.contains('\0') && Path::new(text).is_file()
}

fn from_base64(text: &[u8]) -> Option<Vec<u8>> {
    let text: Vec<u8> = text.iter().copied().filter(|b| *b != b'\n').collect();
    STANDARD.decode(text).ok()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let text: String = text.split_whitespace().collect();
    let pairs = (0..text.len()).step_by(2);
    pairs
        .map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok())
        .collect()
}

/// The bytes of a key: of a file, or of a text in PEM, hexadecimal digits or base64.
fn key_bytes(key: &Value) -> Result<Vec<u8>> {
    let text = match key {
        Value::Bytes(bytes) => return Ok(bytes.clone()),
        Value::Str(text) => text,
        _ => "",
    };
    if is_file(text) {
        return content(text);
    }
    let coded = match text.strip_prefix("b64:") {
        Some(rest) => from_base64(rest.as_bytes()),
        None if text.contains("-----BEGIN") => Some(text.as_bytes().to_vec()),
        None => from_hex(text).or_else(|| from_base64(text.as_bytes())),
    };
    match coded.filter(|bytes| !bytes.is_empty()) {
        Some(bytes) => Ok(bytes),
        None => invocation(
            "Could not load provided source. You need to pass an existing file, (PEM|hex|base64)-encoded string or raw \
             bytes.",
        ),
    }
}

fn is_pem(bytes: &[u8]) -> bool {
    bytes.windows(BEGIN.len()).any(|part| part == BEGIN)
}

fn public_key(key: &Value) -> Result<PKey<Public>> {
    let bytes = key_bytes(key)?;
    if is_pem(&bytes) {
        let loaded = PKey::public_key_from_pem(&bytes);
        loaded.or_else(|_| invocation("Could not load PEM-encoded public key."))
    } else {
        let loaded = PKey::public_key_from_der(&bytes);
        loaded.or_else(|_| invocation("Could not load DER-encoded public key."))
    }
}

fn private_key(key: &Value, passphrase: Option<&str>) -> Result<PKey<Private>> {
    let bytes = key_bytes(key)?;
    // Without a passphrase OpenSSL would ask the terminal for one.
    let phrase = passphrase.unwrap_or_default().as_bytes();
    let loaded = if is_pem(&bytes) {
        PKey::private_key_from_pem_passphrase(&bytes, phrase)
    } else if passphrase.is_some() {
        PKey::private_key_from_pkcs8_passphrase(&bytes, phrase)
    } else {
        PKey::private_key_from_der(&bytes)
    };
    loaded.or_else(|_| {
        invocation(match is_pem(&bytes) {
            true => "Could not load PEM-encoded private key",
            false => "Could not deserialize binary data, neither as DER nor PKCS#12.",
        })
    })
}

/// The digest of a key's signatures; keys of Edwards curves have their own.
fn digest_for<T: HasPublic>(key: &PKeyRef<T>, name: Option<&str>) -> Result<Option<MessageDigest>> {
    if !matches!(key.id(), Id::RSA | Id::EC) {
        return Ok(None);
    }
    let digest = MessageDigest::from_name(name.unwrap_or("sha256"));
    digest.map(Some).ok_or_else(|| {
        CallError::Command(
            "The selected hashing algorithm does not exist in the cryptography python library"
                .to_owned(),
        )
    })
}

fn fault(error: &ErrorStack) -> CallError {
    CallError::Command(error.to_string())
}

fn sign_data(key: &PKey<Private>, digest: Option<MessageDigest>, data: &[u8]) -> Result<Vec<u8>> {
    let signed = || {
        let Some(digest) = digest else {
            return Signer::new_without_digest(key)?.sign_oneshot_to_vec(data);
        };
        let mut signer = Signer::new(digest, key)?;
        if key.id() == Id::RSA {
            signer.set_rsa_padding(Padding::PKCS1_PSS)?;
            signer.set_rsa_mgf1_md(digest)?;
            signer.set_rsa_pss_saltlen(RsaPssSaltlen::MAXIMUM_LENGTH)?;
        }
        signer.sign_oneshot_to_vec(data)
    };
    signed().map_err(|e| fault(&e))
}

fn is_signed(
    key: &PKey<Public>,
    digest: Option<MessageDigest>,
    data: &[u8],
    signature: &[u8],
) -> bool {
    let checked = || {
        let Some(digest) = digest else {
            return Verifier::new_without_digest(key)?.verify_oneshot(signature, data);
        };
        let mut verifier = Verifier::new(digest, key)?;
        if key.id() == Id::RSA {
            verifier.set_rsa_padding(Padding::PKCS1_PSS)?;
            verifier.set_rsa_mgf1_md(digest)?;
            // Any length of salt.
            verifier.set_rsa_pss_saltlen(RsaPssSaltlen::custom(-2))?;
        }
        verifier.verify_oneshot(signature, data)
    };
    // A signature that cannot be parsed is an error to OpenSSL.
    matches!(checked(), Ok::<bool, ErrorStack>(true))
}

fn sign(call: &mut Call<'_>) -> Result {
    let data = if !call.arg("text").is_nil() {
        call.text("text").unwrap_or_default().into_bytes()
    } else if call.flag("filename") {
        content(&call.text("filename").unwrap_or_default())?
    } else {
        return invocation("Either `text` or `filename` is required");
    };
    let path = call.text("path").filter(|path| !path.is_empty());
    let raw = match call.arg("raw") {
        Value::Nil => path.is_some(),
        given => given.truthy(),
    };
    let key = private_key(call.arg("privkey"), call.text("passphrase").as_deref())?;
    let digest = digest_for(&key, call.text("digest").as_deref())?;
    let signature = sign_data(&key, digest, &data)?;
    let signature = match raw {
        true => signature,
        false => STANDARD.encode(signature).into_bytes(),
    };
    if let Some(path) = path {
        std::fs::write(&path, signature).map_err(|e| python::os_error(&e, &path))?;
        return Ok(format!("Signature written to '{path}'").into());
    }
    Ok(match raw {
        true => Value::Bytes(signature),
        false => String::from_utf8_lossy(&signature).into_owned().into(),
    })
}

/// The local copy of a URL; other texts are returned as they are.
fn fetch(call: &mut Call<'_>, given: &Value) -> Result {
    let Value::Str(text) = given else {
        return Ok(given.clone());
    };
    let url = urlparse(text);
    let file = match url.scheme.as_str() {
        "" => return Ok(given.clone()),
        "file" => url.path.into(),
        _ => call.salt("cp.cache_file", vec![given.clone()], Map::new())?,
    };
    if !file.truthy() || !Path::new(&python::str(&file)).exists() {
        return Err(CallError::Command(format!("Failed fetching '{text}'")));
    }
    Ok(file)
}

/// The bytes of a signature: of a file, which may be in base64, or of a text in base64. Other text is a wrong signature.
fn signature_bytes(given: &Value) -> Result<Vec<u8>> {
    let (bytes, is_text) = match given {
        Value::Bytes(bytes) => (bytes.clone(), false),
        Value::Str(text) if is_file(text) => (content(text)?, false),
        other => (python::str(other).into_bytes(), true),
    };
    match from_base64(&bytes) {
        Some(decoded) => Ok(decoded),
        None if !is_text || bytes.is_ascii() => Ok(bytes),
        None => Err(CallError::Command(format!(
            "Failed loading signature '{}' as file and/or base64 string",
            python::str(given)
        ))),
    }
}

fn list(value: &Value) -> Vec<Value> {
    match value {
        Value::Array(list) => list.clone(),
        one if one.truthy() => vec![one.clone()],
        _ => Vec::new(),
    }
}

/// What signatures are checked for.
struct Check {
    data: Vec<u8>,
    digest: Option<String>,
}

impl Check {
    /// Which of the signatures are by a key.
    ///
    /// # Errors
    /// None is, or something cannot be loaded.
    fn by(&self, call: &mut Call<'_>, key: &Value, signatures: &[Value]) -> Result<Vec<Value>> {
        let key = public_key(&fetch(call, key)?)?;
        let digest = digest_for(&key, self.digest.as_deref())?;
        let mut own = Vec::new();
        for one in signatures {
            if is_signed(&key, digest, &self.data, &signature_bytes(one)?) {
                own.push(one.clone());
            }
        }
        if !own.is_empty() {
            return Ok(own);
        }
        let der = key.public_key_to_der().map_err(|e| fault(&e))?;
        let print = halite_crypto::HashType::Sha256.hex(&der);
        Err(CallError::Command(format!(
            "Invalid signature for key {print}"
        )))
    }
}

fn verify(call: &mut Call<'_>) -> Result {
    if call.flag("text") && call.flag("filename") {
        return invocation("`text` and `filename` arguments are mutually exclusive");
    }
    if !call.flag("signature") {
        return invocation("Missing `signature` parameter");
    }
    let any = list(call.arg("signed_by_any"));
    let mut every = list(call.arg("signed_by_all"));
    let key = call.arg("pubkey").clone();
    let one = key.truthy();
    if !any.is_empty() || !every.is_empty() {
        if one {
            return invocation("Either specify pubkey + signature or signed_by_(any|all)");
        }
    } else if !one {
        return invocation("Missing pubkey(s) to check against");
    } else if !matches!(call.arg("signature"), Value::Str(_) | Value::Bytes(_)) {
        return invocation(
            "`signature` must be a string or bytes when verifying a single signing `pubkey`",
        );
    } else {
        every = vec![key];
    }
    let data = if call.flag("text") {
        call.text("text").unwrap_or_default().into_bytes()
    } else if call.flag("filename") {
        let path = call.text("filename").unwrap_or_default();
        if !Path::new(&path).exists() {
            return Err(CallError::Command(format!("Path '{path}' does not exist")));
        }
        content(&path)?
    } else {
        return invocation("Missing data to verify. Either specify `text` or `filename`");
    };
    let check = Check {
        data,
        digest: call.text("digest").filter(|digest| !digest.is_empty()),
    };
    let answer = |good: bool, text: &str| Ok(map! {"res" => good, "message" => text}.into());
    let mut signatures = Vec::new();
    for signature in list(&call.arg("signature").clone()) {
        match fetch(call, &signature) {
            Ok(found) => signatures.push(found),
            Err(why) if one => return answer(false, why.message()),
            Err(why) => log::error!("{}", why.message()),
        }
    }
    if signatures.is_empty() {
        return Err(CallError::Command(
            "Unable to locate any of the provided signatures".to_owned(),
        ));
    }
    let mut found = any.is_empty();
    for signer in &any {
        match check.by(call, signer, &signatures) {
            Ok(_) => {
                found = true;
                break;
            }
            Err(why) => log::info!("{}", why.message()),
        }
    }
    if !found {
        return answer(
            false,
            "None of the public keys listed in signed_by_any provided a valid signature",
        );
    }
    for signer in &every {
        match check.by(call, signer, &signatures) {
            // A signature counts for one key only.
            Ok(own) => signatures.retain(|one| !own.contains(one)),
            Err(why) => {
                let what = if one {
                    "signature"
                } else {
                    "while checking `signed_by_all`"
                };
                let what = match one {
                    true => format!("Failed checking {what}"),
                    false => format!("Failed {what}"),
                };
                return answer(false, &format!("{what}: {}", why.message()));
            }
        }
    }
    answer(
        true,
        match one {
            true => "The signature is valid",
            false => "All required keys have provided a signature",
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use openssl::ec::{EcGroup, EcKey};
    use openssl::nid::Nid;
    use openssl::rsa::Rsa;

    #[test]
    fn signatures_of_all_kinds_of_keys() {
        let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).unwrap();
        let keys = [
            PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap(),
            PKey::from_ec_key(EcKey::generate(&group).unwrap()).unwrap(),
            PKey::generate_ed25519().unwrap(),
            PKey::generate_ed448().unwrap(),
        ];
        for key in keys {
            let pem = String::from_utf8(key.private_key_to_pem_pkcs8().unwrap()).unwrap();
            let own = private_key(&pem.into(), None).unwrap();
            let digest = digest_for(&own, None).unwrap();
            let signature = sign_data(&own, digest, b"text").unwrap();
            let der = key.public_key_to_der().unwrap();
            let public = public_key(&format!("b64:{}", STANDARD.encode(der)).into()).unwrap();
            assert!(is_signed(&public, digest, b"text", &signature));
            assert!(!is_signed(&public, digest, b"test", &signature));
            assert!(!is_signed(&public, digest, b"text", b"none"));
        }
        assert!(private_key(&"-----BEGIN PRIVATE KEY-----".into(), None).is_err());
        assert_eq!(from_hex("0a FF"), Some(vec![10, 255]));
        assert_eq!(from_hex("0"), None);
    }
}
