//! Filters of hashes and encodings (`salt/utils/hashutils.py`), and `uuid`.

use super::super::cx::Cx;
use super::super::error::Error;
use super::super::value::{Args, Obj};
use super::{FilterFn, bytes_of, must};
use crate::crypto::HashType;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use sha1::{Digest, Sha1};
use sha2::Sha256;

pub(super) const TABLE: &[(&str, FilterFn)] = &[
    ("base64_decode", base64_decode),
    ("base64_encode", base64_encode),
    ("hmac", hmac_signature),
    ("hmac_compute", hmac_compute),
    ("md5", |_, v, a| digest(v, a, "md5_digest", HashType::Md5)),
    ("sha1", |_, v, a| {
        digest(v, a, "sha1_digest", HashType::Sha1)
    }),
    ("sha256", |_, v, a| {
        digest(v, a, "sha256_digest", HashType::Sha256)
    }),
    ("sha512", |_, v, a| {
        digest(v, a, "sha512_digest", HashType::Sha512)
    }),
    ("uuid", uuid),
];

/// The name space of Salt's own identifiers (`salt/utils/jinja.py GLOBAL_UUID`).
const NAMESPACE: [u8; 16] = [
    0x91, 0x63, 0x3e, 0xbf, 0x1c, 0x86, 0x5e, 0x33, 0x93, 0x5a, 0x28, 0x06, 0x1f, 0x4b, 0x48, 0x0e,
];

fn digest(value: &Obj, args: &Args, name: &str, hash: HashType) -> Result<Obj, Error> {
    args.bind(name, &[])?;
    Ok(hash.hex(&bytes_of(value)?).into())
}

/// Text if it is UTF-8, else bytes.
fn text_or_bytes(bytes: Vec<u8>) -> Obj {
    match String::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(error) => Obj::Bytes(error.into_bytes().into()),
    }
}

fn base64_encode(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    args.bind("base64_b64encode", &[])?;
    Ok(STANDARD.encode(bytes_of(value)?).into())
}

/// `base64.b64decode`: what is no digit is passed over; the end must be padded.
fn base64_decode(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    args.bind("base64_b64decode", &[])?;
    let (mut bits, mut count) = (0u32, 0usize);
    let mut pads = 0;
    let mut out = Vec::new();
    for byte in bytes_of(value)? {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' => {
                pads += 1;
                if count % 4 >= 2 && count % 4 + pads >= 4 {
                    return Ok(text_or_bytes(out));
                }
                continue;
            }
            _ => continue,
        };
        pads = 0;
        bits = (bits << 6) | u32::from(digit);
        count += 1;
        if count % 4 != 1 {
            let shift = [0, 0, 4, 2][count % 4];
            out.push((bits >> shift) as u8);
        }
    }
    match count % 4 {
        0 => Ok(text_or_bytes(out)),
        1 => Err(Error::value_error(format!(
            "Invalid base64-encoded string: number of data characters ({count}) cannot be 1 more \
             than a multiple of 4"
        ))),
        _ => Err(Error::value_error("Incorrect padding")),
    }
}

fn mac(message: &Obj, key: &Obj) -> Result<Vec<u8>, Error> {
    let mut mac = Hmac::<Sha256>::new_from_slice(&bytes_of(key)?)
        .map_err(|_| Error::value_error("the key of the signature has a bad length"))?;
    mac.update(&bytes_of(message)?);
    Ok(mac.finalize().into_bytes().to_vec())
}

fn hmac_signature(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let names = ["shared_secret", "challenge_hmac"];
    let bound = args.bind_required("hmac_signature", &names, 2)?;
    let valid = STANDARD.encode(mac(value, &must(&bound[0]))?);
    let same =
        subtle::ConstantTimeEq::ct_eq(valid.as_bytes(), bytes_of(&must(&bound[1]))?.as_slice());
    Ok(Obj::Bool(same.into()))
}

fn hmac_compute(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let bound = args.bind_required("hmac_compute", &["shared_secret"], 1)?;
    Ok(hex(&mac(value, &must(&bound[0]))?).into())
}

fn hex(bytes: &[u8]) -> String {
    let digits: Vec<String> = bytes.iter().map(|b| format!("{b:02x}")).collect();
    digits.concat()
}

/// `uuid.uuid5` in Salt's name space.
fn uuid(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    args.bind("uuid_", &[])?;
    let mut hash = Sha1::new();
    hash.update(NAMESPACE);
    hash.update(bytes_of(value)?);
    let mut id = hash.finalize()[..16].to_vec();
    id[6] = (id[6] & 0x0f) | 0x50;
    id[8] = (id[8] & 0x3f) | 0x80;
    let text = hex(&id);
    let parts = [
        &text[..8],
        &text[8..12],
        &text[12..16],
        &text[16..20],
        &text[20..],
    ];
    Ok(parts.join("-").into())
}
