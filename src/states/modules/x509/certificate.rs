//! `certificate_managed`.

use super::super::made_file::{Found, Managed, only, split, with};
use super::MODULE_NAME;
use crate::declare::{Result, State};
use halite_modules::execution::python;
use halite_modules::execution::x509::{compare, shorten};
use halite_wire::{Map, Value};

/// Defaults of stock 3008.
const VALID: i64 = 365;
const REMAINING: i64 = 90;

/// Arguments of the state that are also those of `x509.create_certificate`.
const NAMED: [&str; 20] = [
    "ca_server",
    "signing_policy",
    "encoding",
    "append_certs",
    "digest",
    "signing_private_key",
    "signing_private_key_passphrase",
    "signing_cert",
    "public_key",
    "private_key",
    "private_key_passphrase",
    "csr",
    "subject",
    "serial_number",
    "not_before",
    "not_after",
    "days_valid",
    "pkcs12_passphrase",
    "pkcs12_encryption_compat",
    "pkcs12_friendlyname",
];

pub(super) fn managed(s: &mut State<'_, '_>) -> Result {
    let (mut file, mut others) = split(s);
    shorten(&mut others);
    let digest = others.remove("algorithm");
    let mut args = with(&s.pick(&NAMED), others);
    if let Some(digest) = digest {
        args.set("digest", digest);
    }
    if s.arg("days_valid").is_nil() && s.arg("not_after").is_nil() {
        args.set("days_valid", VALID);
    }
    let chain = match s.arg("append_certs") {
        Value::Array(list) => list.clone(),
        one if one.truthy() => vec![one.clone()],
        _ => Vec::new(),
    };
    args.set("append_certs", chain);
    let remaining = match s.arg("days_remaining") {
        Value::Nil => REMAINING.into(),
        given => given.clone(),
    };
    let encoding = python::str(s.arg("encoding"));
    if encoding == "pkcs12" && !file.get("mode").is_some_and(Value::truthy) {
        // The key is in it: nobody else may read it.
        file.set("mode", "0400");
    }
    let managed = Managed {
        what: "certificate",
        module: MODULE_NAME,
        file,
        binary: !["pem", "pkcs7_pem"].contains(&encoding.as_str()),
    };
    managed.run(
        s,
        |s, path| {
            let Some(path) = path else {
                return Ok(super::created(s));
            };
            let mut wanted = args.clone();
            wanted.set("days_remaining", remaining);
            let looked = compare::certificate(s.call, path, &wanted)?;
            Ok(super::found(s, looked))
        },
        |s, found| make(s, found, &args),
    )
}

fn make(s: &mut State<'_, '_>, found: &Found<compare::Found>, args: &Map) -> Result<Value> {
    const FORM: [&str; 3] = ["additional_certs", "encoding", "pkcs12_friendlyname"];
    let Some(cert) = found
        .more
        .current
        .clone()
        .filter(|_| only(&found.changes, &FORM))
    else {
        return s.salt_with("x509.create_certificate", Vec::<Value>::new(), args.clone());
    };
    // The certificate stays if only its form changes.
    let mut kwargs = Map::new();
    let mut keep = |names: &[&str]| {
        for name in names {
            kwargs.set(*name, args.get(name).cloned());
        }
    };
    keep(&["append_certs", "encoding"]);
    if args.get("encoding").is_some_and(|e| e.is_str("pkcs12")) {
        keep(&[
            "pkcs12_passphrase",
            "pkcs12_encryption_compat",
            "pkcs12_friendlyname",
        ]);
        kwargs.set("private_key", found.more.private_key.clone());
    }
    s.salt_with("x509.encode_certificate", vec![cert], kwargs)
}
