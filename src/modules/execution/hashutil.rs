//! `hashutil`: hashes, signatures and base64.

use super::declare::{Function, Module, Result, args};
use super::{Call, CallError, python};
use crate::files::MAX_CONTENT;
use halite_crypto::{HashType, constant_time_eq, hmac_hex};
use halite_sys::safe_open::read_finite;
use halite_wire::{Value, base64};
use std::borrow::Cow;
use std::path::Path;

pub(super) const MODULE: Module = Module {
    name: "hashutil",
    functions: &[
        Function::new(
            "digest",
            digest,
            "The hash of a text: md5, sha256 or sha512.",
        )
        .args(args![instr, checksum = "md5"]),
        Function::new(
            "digest_file",
            digest_file,
            "The hash of a file: md5, sha256 or sha512.",
        )
        .args(args![infile, checksum = "md5"]),
        Function::new(
            "base64_b64encode",
            |c| Ok(base64::encode(&bytes(c, "instr")?).into()),
            "Encodes text in base64, on one line.",
        )
        .args(args![instr]),
        Function::new("base64_b64decode", decode, "Decodes base64 text.").args(args![instr]),
        Function::new(
            "base64_encodestring",
            |c| Ok(base64::encode_lines(&bytes(c, "instr")?).into()),
            "Encodes text in base64, in lines of 76 characters.",
        )
        .args(args![instr]),
        Function::new(
            "base64_decodestring",
            decode,
            "Decodes base64 text in lines.",
        )
        .args(args![instr]),
        Function::new(
            "base64_encodefile",
            encode_file,
            "The content of a file in base64, in lines of 76 characters.",
        )
        .args(args![fname]),
        Function::new(
            "base64_decodefile",
            decode_file,
            "Decodes base64 text to a file.",
        )
        .args(args![instr, outfile]),
        Function::new(
            "md5_digest",
            |c| hashed(c, HashType::Md5),
            "The MD5 hash of a text.",
        )
        .args(args![instr]),
        Function::new(
            "sha256_digest",
            |c| hashed(c, HashType::Sha256),
            "The SHA-256 hash of a text.",
        )
        .args(args![instr]),
        Function::new(
            "sha512_digest",
            |c| hashed(c, HashType::Sha512),
            "The SHA-512 hash of a text.",
        )
        .args(args![instr]),
        Function::new(
            "hmac_signature",
            hmac_signature,
            "Whether a text has this base64 HMAC-SHA-256 for a shared secret.",
        )
        .args(args![string, shared_secret, challenge_hmac]),
        Function::new(
            "hmac_compute",
            hmac_compute,
            "The HMAC-SHA-256 of a text for a shared secret, in hexadecimal.",
        )
        .args(args![string, shared_secret]),
        Function::new(
            "github_signature",
            github_signature,
            "Whether a text has this signature, such as sha256=..., as sent by GitHub webhooks.",
        )
        .args(args![string, shared_secret, challenge_hmac]),
    ],
};

/// `salt/utils/stringutils.py to_bytes`.
fn bytes<'a>(call: &'a Call<'_>, name: &str) -> Result<Cow<'a, [u8]>> {
    let value = call.arg(name);
    value.as_bytes().map(Cow::Borrowed).ok_or_else(|| {
        CallError::Type(format!(
            "expected str, bytes, or bytearray not {}",
            python::class(value)
        ))
    })
}

fn hashed(call: &mut Call<'_>, hash: HashType) -> Result {
    Ok(hash.hex(&bytes(call, "instr")?).into())
}

fn kind(call: &Call<'_>) -> Result<HashType> {
    match call.arg("checksum").as_str() {
        Some("md5") => Ok(HashType::Md5),
        Some("sha256") => Ok(HashType::Sha256),
        Some("sha512") => Ok(HashType::Sha512),
        _ => Err(CallError::Command(format!(
            "Hash func '{}' is not supported.",
            python::str(call.arg("checksum"))
        ))),
    }
}

fn digest(call: &mut Call<'_>) -> Result {
    let hash = kind(call)?;
    hashed(call, hash)
}

fn digest_file(call: &mut Call<'_>) -> Result {
    let name = python::str(call.arg("infile"));
    if !Path::new(&python::expand_user(&name)).is_file() {
        return Err(CallError::Command(format!("File path '{name}' not found.")));
    }
    let content = read(&name)?;
    Ok(kind(call)?.hex(&content).into())
}

fn read(path: &str) -> Result<Vec<u8>> {
    read_finite(path.as_ref(), MAX_CONTENT).map_err(|e| python::os_error(&e, path))
}

fn text_or_bytes(bytes: Vec<u8>) -> Value {
    match String::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(e) => e.into_bytes().into(),
    }
}

fn bad_base64(text: String) -> CallError {
    CallError::raised("binascii.Error", text)
}

fn decode(call: &mut Call<'_>) -> Result {
    let bytes = base64::decode(&bytes(call, "instr")?).map_err(bad_base64)?;
    Ok(text_or_bytes(bytes))
}

fn encode_file(call: &mut Call<'_>) -> Result {
    let content = read(&python::str(call.arg("fname")))?;
    Ok(base64::encode_lines(&content).into())
}

/// Decodes line by line, like `base64.decode`.
fn decode_file(call: &mut Call<'_>) -> Result {
    let Some(text) = call.arg("instr").as_str() else {
        return Err(CallError::Type(format!(
            "initial_value must be str or None, not {}",
            python::type_name(call.arg("instr"))
        )));
    };
    let mut content = Vec::new();
    for line in text.split_inclusive('\n') {
        content.extend(base64::decode(line.as_bytes()).map_err(bad_base64)?);
    }
    let path = python::str(call.arg("outfile"));
    std::fs::write(&path, content).map_err(|e| python::os_error(&e, &path))?;
    Ok(true.into())
}

fn hmac_signature(call: &mut Call<'_>) -> Result {
    let mac = HashType::Sha256.hmac(&bytes(call, "shared_secret")?, &bytes(call, "string")?);
    let valid = base64::encode(&mac);
    Ok(constant_time_eq(valid.as_bytes(), &bytes(call, "challenge_hmac")?).into())
}

fn hmac_compute(call: &mut Call<'_>) -> Result {
    Ok(hmac_hex(&bytes(call, "shared_secret")?, &bytes(call, "string")?).into())
}

fn github_signature(call: &mut Call<'_>) -> Result {
    let challenge = python::str(call.arg("challenge_hmac"));
    let parts: Vec<&str> = challenge.split('=').collect();
    let [name, wanted] = parts.as_slice() else {
        let text = match parts.len() {
            1 => "not enough values to unpack (expected 2, got 1)",
            _ => "too many values to unpack (expected 2)",
        };
        return Err(CallError::raised("ValueError", text));
    };
    let hash: HashType = name.parse().map_err(|_| {
        let text = format!("module 'hashlib' has no attribute '{name}'");
        CallError::raised("AttributeError", text)
    })?;
    let mac = hash.hmac(&bytes(call, "shared_secret")?, &bytes(call, "string")?);
    let digits: String = mac.iter().map(|b| format!("{b:02x}")).collect();
    Ok(constant_time_eq(digits.as_bytes(), wanted.as_bytes()).into())
}
