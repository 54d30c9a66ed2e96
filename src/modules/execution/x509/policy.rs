//! Signing policies, and certificates that another minion signs.

use super::cert::{self, Cert};
use super::issue::local;
use super::keys::{self, PublicKey};
use super::request::Csr;
use super::tables::{ATTRIBUTES, LONG_NAMES};
use crate::execution::declare::Result;
use crate::execution::signing::{self, Policies};
use crate::execution::{Call, CallError, python};
use halite_wire::{Map, Value, map};
use openssl::pkey::{PKey, Private};

const POLICIES: Policies = Policies {
    key: "x509_signing_policies",
    function: "x509.sign_remote_certificate",
};

/// Gives keywords their short names.
pub fn shorten(args: &mut Map) {
    for (long, short) in LONG_NAMES {
        if let Some(value) = args.remove(long) {
            log::warn!("Found {long} in keyword args. Please migrate to the short name: {short}");
            args.set(short, value);
        }
    }
}

/// A policy as the state needs it, of this minion or of another one (`get_signing_policy`).
///
/// # Errors
/// The other minion does not answer as it should.
pub fn shown(call: &mut Call<'_>, name: Option<&Value>, server: Option<&Value>) -> Result<Map> {
    let name = name.cloned().unwrap_or_default();
    let mut policy = match server {
        None => POLICIES.own(call, &name)?,
        Some(server) => {
            let answer = POLICIES.ask(call, server, &name, Map::new(), true)?;
            let mut policy = answer.into_map().unwrap_or_default();
            if let Some(from) = policy.get("signing_cert") {
                let pem = cert::load(from, None)?.cert.pem();
                policy.set("signing_cert", pem);
            }
            policy
        }
    };
    shorten(&mut policy);
    Ok(policy)
}

/// Puts a policy's values over arguments (`merge_signing_policy`).
pub fn merge(policy: &Map, args: &mut Map) {
    if policy.is_empty() {
        return;
    }
    let mut policy = policy.clone();
    shorten(args);
    if let Some(mut subject) = args.remove("subject") {
        let named = ATTRIBUTES.iter().any(|(name, _)| policy.contains(name));
        if !named {
            let joined = match (&mut subject, policy.get("subject")) {
                (Value::Map(asked), Some(Value::Map(fixed))) => {
                    for (key, value) in fixed.iter() {
                        asked.set(python::str(key), value.clone());
                    }
                    true
                }
                (Value::Array(asked), Some(Value::Array(fixed))) => {
                    *asked = [fixed.as_slice(), asked.as_slice()].concat();
                    true
                }
                _ => false,
            };
            if joined {
                policy.remove("subject");
            }
            args.set("subject", subject);
        }
    }
    for (key, value) in policy.0 {
        args.set(python::str(&key), value);
    }
}

/// The policy of a call with its values over the arguments.
///
/// # Errors
/// As [`Policies::own`].
pub fn apply(call: &mut Call<'_>, name: &Value, args: &mut Map) -> Result<()> {
    let policy = POLICIES.own(call, name)?;
    merge(&policy, args);
    Ok(())
}

/// A certificate that another minion signs, with the private key that it is for, if that is known.
///
/// # Errors
/// The other minion does not answer as it should.
pub fn remote(
    call: &mut Call<'_>,
    server: &Value,
    policy: &Value,
    mut args: Map,
) -> Result<(Cert, Option<PKey<Private>>)> {
    let private = args.remove("private_key").filter(Value::truthy);
    let pass = args
        .remove("private_key_passphrase")
        .filter(|v| !v.is_nil());
    let mut key = None;
    if let Some(from) = private {
        let loaded = keys::load(&from, pass.as_ref().map(python::str).as_deref())?.key;
        args.set("public_key", Value::Bytes(PublicKey::of(&loaded)?.spki));
        key = Some(loaded);
    } else if let Some(from) = args.get("public_key").filter(|v| v.truthy()) {
        let spki = keys::load_public(from)?.spki;
        args.set("public_key", Value::Bytes(spki));
    }
    if let Some(from) = args.get("csr").filter(|v| v.truthy()) {
        let der = Csr::load(from)?.0.der;
        args.set("csr", Value::Bytes(der));
    }
    let data = POLICIES.ask(call, server, policy, args, false)?;
    let cert = cert::load(&data, None).map_err(|_| {
        CallError::Command(format!(
            "ca_server did not return a certificate: {}",
            python::str(&data)
        ))
    })?;
    Ok((cert.cert, key))
}

/// `sign_remote_certificate`.
pub fn sign_remote(call: &mut Call<'_>) -> Result {
    let refused = |why: String| {
        Ok(Value::from(
            map! {"data" => Value::Nil, "errors" => vec![Value::from(why)]},
        ))
    };
    let mut policy = match POLICIES.for_remote(call) {
        Ok(Ok(policy)) => policy,
        Ok(Err(why)) => return refused(why.to_owned()),
        Err(fault) => {
            log::error!("{}", fault.message());
            let text = "Failed building the signing policy. See CA server log for details.";
            return refused(text.to_owned());
        }
    };
    if call.flag("get_signing_policy_only") {
        policy.remove("signing_private_key");
        policy.remove("signing_private_key_passphrase");
        if let Some(from) = policy.get("signing_cert") {
            match cert::load(from, None).map_err(CallError::from) {
                Ok(loaded) => policy.set("signing_cert", Value::Bytes(loaded.cert.der)),
                Err(fault) => return refused(fault.message().to_owned()),
            }
        }
        return Ok(map! {"data" => policy, "errors" => Value::Array(Vec::new())}.into());
    }
    let mut args = call.arg("kwargs").as_map().cloned().unwrap_or_default();
    signing::remove_choices(&mut args);
    for name in ["signing_cert", "prepend_cn"] {
        args.remove(name);
    }
    for name in ["public_key", "csr"] {
        if args
            .str(name)
            .is_some_and(|given| !given.contains("-----BEGIN"))
        {
            return refused(format!("{name} must be PEM or DER, not the path of a file"));
        }
    }
    merge(&policy, &mut args);
    // It is signed here.
    args.remove("ca_server");
    match local(&args) {
        Ok(draft) => Ok(map! {
            "data" => Value::Bytes(draft.0.der), "errors" => Value::Array(Vec::new()),
        }
        .into()),
        Err(fault) => refused(fault.message().to_owned()),
    }
}
