//! `certificate_managed`.

use super::super::made_file::{Found, Managed, split, with};
use super::{MODULE_NAME, check};
use crate::declare::{Result, State};
use halite_modules::execution::python;
use halite_modules::execution::ssh_pki::compare;
use halite_wire::{Map, Value, map};

/// Arguments of the state of which a certificate is made.
const CONTENT: [&str; 15] = [
    "cert_type",
    "signing_private_key",
    "signing_private_key_passphrase",
    "public_key",
    "private_key",
    "private_key_passphrase",
    "serial_number",
    "not_before",
    "not_after",
    "ttl",
    "critical_options",
    "extensions",
    "valid_principals",
    "all_principals",
    "key_id",
];

pub(super) fn managed(s: &mut State<'_, '_>) -> Result {
    let (file, others) = split(s);
    check(&others)?;
    let managed = Managed {
        what: "certificate",
        module: MODULE_NAME,
        file,
        binary: false,
    };
    let backend = s.text("backend").filter(|name| !name.is_empty());
    let backend = backend.unwrap_or_else(|| MODULE_NAME.to_owned());
    managed.run(
        s,
        |s, path| look(s, path, &backend),
        |s, _| {
            let mut kwargs = s.pick(&CONTENT);
            let more = s.pick(&["ca_server", "signing_policy", "copypath"]);
            kwargs = with(&kwargs, more);
            if let Some(own) = s.arg("backend_args").as_map() {
                kwargs = with(&kwargs, own.clone());
            }
            s.salt_with(
                &format!("{backend}.create_certificate"),
                Vec::<Value>::new(),
                kwargs,
            )
        },
    )
}

/// Compares the certificate in a file with what is wanted.
fn look(s: &mut State<'_, '_>, path: Option<&str>, backend: &str) -> Result<Found<()>> {
    let mut found = Found::default();
    let Some(path) = path else {
        found.changes = map! {"created" => s.name()};
        return Ok(found);
    };
    let server = s.arg("ca_server").clone();
    let policy = policy(s, backend, &server)?;
    let mut args = s.pick(&CONTENT);
    // Another backend has keys of its own.
    let signs = server.is_nil() && backend == MODULE_NAME;
    if !signs {
        args.remove("signing_private_key");
        args.remove("signing_private_key_passphrase");
    }
    let remaining = s.arg("ttl_remaining").clone();
    let looked = compare::certificate(path, &args, policy, &remaining, signs)?;
    found.is_valid = looked.is_valid;
    found.is_there = looked.is_valid;
    found.changes = match looked.is_valid {
        true => looked.changes,
        false => map! {"replaced" => s.name()},
    };
    Ok(found)
}

/// The policy under which it is signed.
fn policy(s: &mut State<'_, '_>, backend: &str, server: &Value) -> Result<Map> {
    let name = s.arg("signing_policy").clone();
    if name.is_nil() {
        return Ok(Map::new());
    }
    let mut kwargs = map! {"ca_server" => server.clone()};
    if backend != MODULE_NAME
        && let Some(own) = s.arg("backend_args").as_map()
    {
        kwargs = with(&kwargs, own.clone());
    }
    let function = format!("{backend}.get_signing_policy");
    match s.salt_with(&function, vec![name], kwargs)? {
        Value::Map(policy) => Ok(policy),
        other => {
            log::warn!(
                "{function} did not return a policy, but {}",
                python::type_name(&other)
            );
            Ok(Map::new())
        }
    }
}
