//! `csr_managed`.

use super::super::made_file::{Found, Managed, only, split, with};
use super::MODULE_NAME;
use crate::declare::{Result, State};
use halite_modules::execution::python;
use halite_modules::execution::x509::{compare, shorten};
use halite_wire::{Value, map};

pub(super) fn managed(s: &mut State<'_, '_>) -> Result {
    let (file, mut others) = split(s);
    shorten(&mut others);
    let digest = others
        .remove("algorithm")
        .unwrap_or_else(|| s.arg("digest").clone());
    let encoding = python::str(s.arg("encoding"));
    let named = s.pick(&[
        "private_key",
        "private_key_passphrase",
        "encoding",
        "subject",
    ]);
    let mut args = with(&named, others);
    args.set("digest", digest);
    let managed = Managed {
        what: "certificate signing request",
        module: MODULE_NAME,
        file,
        binary: encoding == "der",
    };
    managed.run(
        s,
        |s, path| {
            let Some(path) = path else {
                return Ok(super::created(s));
            };
            let looked = compare::request(path, &args)?;
            Ok(super::found(s, looked))
        },
        |s, found: &Found<compare::Found>| match &found.more.current {
            Some(csr) if only(&found.changes, &["encoding"]) => {
                let kwargs = map! {"encoding" => encoding.as_str()};
                s.salt_with("x509.encode_csr", vec![csr.clone()], kwargs)
            }
            _ => s.salt_with("x509.create_csr", Vec::<Value>::new(), args.clone()),
        },
    )
}
