//! `crl_managed`.

use super::super::made_file::{Found, Managed, only, split};
use super::{MODULE_NAME, unrecognized};
use crate::declare::{Result, State};
use halite_modules::execution::python;
use halite_modules::execution::x509::{compare, revocations};
use halite_wire::{Map, Value, map};

/// Defaults of stock 3008.
const VALID: i64 = 100;
const REMAINING: i64 = 30;

pub(super) fn managed(s: &mut State<'_, '_>) -> Result {
    let (file, mut others) = split(s);
    others.remove("text");
    unrecognized(&others)?;
    let mut args = s.pick(&[
        "signing_private_key",
        "signing_cert",
        "signing_private_key_passphrase",
        "include_expired",
        "days_valid",
        "digest",
        "encoding",
    ]);
    if s.arg("days_valid").is_nil() {
        args.set("days_valid", VALID);
    }
    let extensions = s.arg("extensions").as_map().cloned().unwrap_or_default();
    args.set("extensions", extensions);
    let remaining = match s.arg("days_remaining") {
        Value::Nil => REMAINING.into(),
        given => given.clone(),
    };
    let revoked = revocations(s.arg("revoked"));
    let encoding = python::str(s.arg("encoding"));
    let managed = Managed {
        what: "certificate revocation list",
        module: MODULE_NAME,
        file,
        binary: encoding == "der",
    };
    let mut number = Value::from(1);
    let looked_args = {
        let mut looked = args.clone();
        looked.set("days_remaining", remaining);
        looked
    };
    managed.run(
        s,
        |s, path| {
            let Some(path) = path else {
                return Ok(with_number(super::created(s), number));
            };
            let looked;
            (looked, number) = compare::revocations(path, &looked_args, &revoked)?;
            Ok(with_number(super::found(s, looked), number))
        },
        |s, found| match &found.more.0.current {
            Some(crl) if only(&found.changes, &["encoding"]) => {
                let kwargs = map! {"encoding" => encoding.as_str()};
                s.salt_with("x509.encode_crl", vec![crl.clone()], kwargs)
            }
            _ => {
                if let Some(Value::Map(extensions)) = args.get_mut("extensions")
                    && extensions
                        .get("cRLNumber")
                        .is_some_and(|v| v.is_str("auto"))
                {
                    extensions.set("cRLNumber", found.more.1.clone());
                }
                let revoked: Vec<Value> = revoked.iter().cloned().map(Map::into).collect();
                args.set("revoked", revoked);
                s.salt_with("x509.create_crl", Vec::<Value>::new(), args)
            }
        },
    )
}

/// Keeps the number that the next list gets.
fn with_number(found: Found<compare::Found>, number: Value) -> Found<(compare::Found, Value)> {
    Found {
        is_valid: found.is_valid,
        is_there: found.is_there,
        changes: found.changes,
        more: (found.more, number),
    }
}
