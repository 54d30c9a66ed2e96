//! Filters for hashes and encodings (`salt/utils/hashutils.py`), and `uuid`.

use super::super::cx::Cx;
use super::super::error::Error;
use super::super::value::{Args, Obj};
use super::{FilterFn, bytes_of, required};
use halite_crypto::HashType;
use halite_wire::base64;
use sha1::{Digest, Sha1};

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

/// The namespace of Salt's own UUIDs (`salt/utils/jinja.py GLOBAL_UUID`).
const NAMESPACE: [u8; 16] = [
    0x91, 0x63, 0x3e, 0xbf, 0x1c, 0x86, 0x5e, 0x33, 0x93, 0x5a, 0x28, 0x06, 0x1f, 0x4b, 0x48, 0x0e,
];

fn digest(value: &Obj, args: &Args, name: &str, hash: HashType) -> Result<Obj, Error> {
    args.bind(name, &[])?;
    Ok(hash.hex(&bytes_of(value)?).into())
}

/// Text if the bytes are UTF-8, else bytes.
fn text_or_bytes(bytes: Vec<u8>) -> Obj {
    match String::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(error) => Obj::Bytes(error.into_bytes().into()),
    }
}

fn base64_encode(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    args.bind("base64_b64encode", &[])?;
    Ok(base64::encode(&bytes_of(value)?).into())
}

fn base64_decode(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    args.bind("base64_b64decode", &[])?;
    let bytes = base64::decode(&bytes_of(value)?).map_err(Error::value_error)?;
    Ok(text_or_bytes(bytes))
}

fn mac(message: &Obj, key: &Obj) -> Result<Vec<u8>, Error> {
    Ok(HashType::Sha256.hmac(&bytes_of(key)?, &bytes_of(message)?))
}

fn hmac_signature(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let names = ["shared_secret", "challenge_hmac"];
    let bound = args.bind_required("hmac_signature", &names, 2)?;
    let valid = base64::encode(&mac(value, &required(&bound[0]))?);
    let same =
        subtle::ConstantTimeEq::ct_eq(valid.as_bytes(), bytes_of(&required(&bound[1]))?.as_slice());
    Ok(Obj::Bool(same.into()))
}

fn hmac_compute(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let bound = args.bind_required("hmac_compute", &["shared_secret"], 1)?;
    Ok(hex(&mac(value, &required(&bound[0]))?).into())
}

fn hex(bytes: &[u8]) -> String {
    let digits: Vec<String> = bytes.iter().map(|b| format!("{b:02x}")).collect();
    digits.concat()
}

/// `uuid.uuid5` in Salt's namespace.
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
