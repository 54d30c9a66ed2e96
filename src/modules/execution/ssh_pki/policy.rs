//! Signing policies, and certificates that another minion signs.

use super::cert::Cert;
use super::identity::{load_cert, load_public};
use super::issue::local;
use super::keys::PublicKey;
use super::{private, values};
use crate::execution::declare::Result;
use crate::execution::signing::{self, Policies};
use crate::execution::x509::{now, show_time, time_under};
use crate::execution::{Call, CallError, python};
use halite_wire::{Map, Value, map};

const POLICIES: Policies = Policies {
    key: "ssh_signing_policies",
    function: "ssh_pki.sign_remote_certificate",
};

/// A policy as it is shown, of this minion or of another one.
///
/// # Errors
/// The other minion does not answer as it should.
pub fn shown(call: &mut Call<'_>, name: &Value, server: Option<&Value>) -> Result<Map> {
    match server {
        None => POLICIES.own(call, name),
        Some(server) => {
            let answer = POLICIES.ask(call, server, name, Map::new(), true)?;
            Ok(answer.into_map().unwrap_or_default())
        }
    }
}

/// The policy of a call put over its arguments.
///
/// # Errors
/// As `Policies::own` and [`merge`].
pub fn apply(call: &mut Call<'_>, name: &Value, args: &mut Map) -> Result<()> {
    let policy = POLICIES.own(call, name)?;
    merge(policy, args)
}

/// Puts a policy over arguments: what it fixes is fixed, what it allows may be asked for.
///
/// # Errors
/// A time of it or of the arguments is none.
pub fn merge(mut policy: Map, args: &mut Map) -> Result<()> {
    if policy.is_empty() {
        return Ok(());
    }
    // Who may ask has been decided.
    policy.remove("minions");
    merge_principals(&mut policy, args);
    for what in ["critical_options", "extensions"] {
        merge_fields(&mut policy, args, what);
    }
    merge_times(&mut policy, args)?;
    for (key, value) in policy.0 {
        args.set(python::str(&key), value);
    }
    Ok(())
}

fn list(value: Option<Value>) -> Option<Vec<Value>> {
    match value? {
        Value::Nil => None,
        Value::Array(list) => Some(list),
        Value::Map(map) => Some(map.0.into_iter().map(|(key, _)| key).collect()),
        one => Some(vec![one]),
    }
}

fn merge_principals(policy: &mut Map, args: &mut Map) {
    let fixed = list(policy.remove("valid_principals"));
    let usual = list(policy.remove("default_valid_principals"));
    let Some(allowed) = list(policy.remove("allowed_valid_principals")).or(fixed) else {
        return;
    };
    // With these, a certificate never is for everybody.
    policy.remove("all_principals");
    let all = args.remove("all_principals").is_some_and(|v| v.truthy());
    let asked = args.remove("valid_principals").filter(Value::truthy);
    let granted = match list(asked) {
        Some(asked) => {
            let allowed = allowed.iter().filter(|one| asked.contains(one));
            allowed.cloned().collect()
        }
        None if all => allowed.clone(),
        None => Vec::new(),
    };
    let granted = if granted.is_empty() {
        usual.unwrap_or(allowed)
    } else {
        granted
    };
    args.set("valid_principals", granted);
}

fn merge_fields(policy: &mut Map, args: &mut Map, what: &str) {
    let fixed = policy.remove(what);
    let usual = policy.remove(&format!("default_{what}"));
    let allowed = list(policy.remove(&format!("allowed_{what}")));
    let asked = match args.remove(what) {
        Some(Value::Map(asked)) => asked,
        // What is no map is refused later.
        Some(other) if other.truthy() && fixed.is_none() && allowed.is_none() => {
            args.set(what, other);
            return;
        }
        _ => Map::new(),
    };
    let map = |value: Option<Value>| value.and_then(Value::into_map).unwrap_or_default();
    let is_allowed = |name: &Value| match &allowed {
        None => true,
        Some(names) => names.contains(name) || names.iter().any(|n| n.is_str("*")),
    };
    let mut merged = map(usual);
    for (name, value) in asked.0.into_iter().filter(|(name, _)| is_allowed(name)) {
        merged.set(python::str(&name), value);
    }
    for (name, value) in map(fixed).0 {
        merged.set(python::str(&name), value);
    }
    args.set(what, merged);
}

/// How long a certificate may be valid. Under a policy, it ends so long after it begins.
fn merge_times(policy: &mut Map, args: &mut Map) -> Result<()> {
    let mut given = |key: &str| {
        let value = policy.remove(key).filter(|v| !v.is_nil());
        value.map(|v| values::seconds(&v)).transpose()
    };
    let (usual, most) = (given("ttl")?, given("max_ttl")?);
    let (usual, most) = (usual.or(most), most.or(usual));
    let (begin, end) = (
        time_under(args, "not_before")?,
        time_under(args, "not_after")?,
    );
    let ttl = args.remove("ttl").filter(|v| !v.is_nil());
    let asked = match end {
        Some(end) => Some((end - begin.unwrap_or_else(now)) as f64),
        None => ttl.map(|v| values::seconds(&v)).transpose()?,
    };
    let seconds = match (asked, most) {
        (Some(asked), Some(most)) => Some(asked.min(most)),
        (asked, _) => asked.or(usual),
    };
    let Some(seconds) = seconds else {
        // As in stock: a beginning counts only together with a length.
        args.remove("not_before");
        return Ok(());
    };
    match begin {
        Some(begin) => {
            let end = begin.saturating_add(seconds as i64);
            args.set("not_after", show_time(end));
        }
        None => {
            args.remove("not_after");
            args.set("ttl", seconds);
        }
    }
    Ok(())
}

/// A certificate that another minion signs.
///
/// # Errors
/// The other minion does not answer as it should.
pub fn remote(call: &mut Call<'_>, server: &Value, policy: &Value, mut args: Map) -> Result<Cert> {
    let private = args.remove("private_key").filter(Value::truthy);
    let pass = args.remove("private_key_passphrase");
    let pass = pass.filter(|v| !v.is_nil()).map(|v| python::str(&v));
    // The other one signs with a key of its own, and this minion keeps copies itself.
    for name in [
        "signing_private_key",
        "signing_private_key_passphrase",
        "copypath",
    ] {
        args.remove(name);
    }
    let key = match private {
        Some(from) => Some(PublicKey::of(&*private::load(&from, pass.as_deref())?)?),
        None => {
            let from = args.get("public_key").filter(|v| v.truthy());
            from.map(load_public).transpose()?
        }
    };
    if let Some(key) = key {
        args.set("public_key", key.text()?);
    }
    let data = POLICIES.ask(call, server, policy, args, false)?;
    load_cert(&data).map_err(|_| {
        CallError::Command(format!(
            "ca_server did not return a certificate: {}",
            python::str(&data)
        ))
    })
}

/// `sign_remote_certificate`.
pub fn sign_remote(call: &mut Call<'_>) -> Result {
    let answer = |data: Value, errors: Vec<Value>| {
        Ok(Value::from(map! {"data" => data, "errors" => errors}))
    };
    let refused = |why: String| answer(Value::Nil, vec![why.into()]);
    let policy = match POLICIES.for_remote(call) {
        Ok(Ok(policy)) => policy,
        Ok(Err(why)) => return refused(why.to_owned()),
        Err(fault) => {
            log::error!("{}", fault.message());
            let text = "Failed building the signing policy. See CA server log for details.";
            return refused(text.to_owned());
        }
    };
    let made = if call.flag("get_signing_policy_only") {
        without_key(policy).map(Value::from)
    } else {
        let mut args = call.arg("kwargs").as_map().cloned().unwrap_or_default();
        signing::remove_choices(&mut args);
        // Never the path of a file here.
        if let Some(Value::Str(key)) = args.get("public_key") {
            let key = key.clone().into_bytes();
            args.set("public_key", Value::Bytes(key));
        }
        merge(policy, &mut args)
            .and_then(|()| local(&args))
            .map(|cert| Value::Bytes(cert.text().into_bytes()))
    };
    match made {
        Ok(data) => answer(data, Vec::new()),
        Err(fault) => refused(fault.message().to_owned()),
    }
}

/// A policy with the public key in place of the private one.
fn without_key(mut policy: Map) -> Result<Map> {
    let from = policy.remove("signing_private_key");
    let pass = policy.remove("signing_private_key_passphrase");
    if let Some(from) = from {
        let pass = pass.filter(|v| !v.is_nil()).map(|v| python::str(&v));
        let key = PublicKey::of(&*private::load(&from, pass.as_deref())?)?;
        let text = key.text()?.into_bytes();
        policy.set("signing_public_key", Value::Bytes(text));
    }
    Ok(policy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(json: &str) -> Map {
        let value: Value = halite_wire::json::parse(json.as_bytes()).unwrap();
        value.into_map().unwrap()
    }

    /// The arguments after a policy was put over them.
    fn merged(policy: &str, args: &str) -> Map {
        let mut args = value(args);
        merge(value(policy), &mut args).unwrap();
        args
    }

    #[test]
    fn principals_are_a_part_of_the_allowed_ones() {
        let names = |policy: &str, args: &str| {
            let merged = merged(policy, args);
            assert!(!merged.contains("all_principals"), "{policy} {args}");
            merged.get("valid_principals").unwrap().str_list()
        };
        let allowed = r#"{"allowed_valid_principals": ["a", "b"]}"#;
        for (args, granted) in [
            ("{}", "a b"),
            (r#"{"all_principals": true}"#, "a b"),
            (r#"{"valid_principals": ["b", "z"]}"#, "b"),
            (r#"{"valid_principals": "a"}"#, "a"),
            (r#"{"valid_principals": ["z"]}"#, "a b"),
            (
                r#"{"valid_principals": ["b", "z"], "all_principals": true}"#,
                "b",
            ),
        ] {
            assert_eq!(names(allowed, args).join(" "), granted, "{args}");
        }
        let usual =
            r#"{"allowed_valid_principals": ["a", "b"], "default_valid_principals": ["a"]}"#;
        assert_eq!(names(usual, "{}"), ["a"]);
        assert_eq!(names(usual, r#"{"all_principals": true}"#), ["a", "b"]);
        // Here stock makes a certificate for everybody.
        let nobody = r#"{"valid_principals": []}"#;
        let asked = r#"{"valid_principals": ["a"], "all_principals": true}"#;
        assert!(names(nobody, asked).is_empty());
    }

    #[test]
    fn extensions_are_fixed_or_allowed() {
        let policy = r#"{"extensions": {"f": "1"}, "default_extensions": {"d": "1", "f": "2"},
            "allowed_extensions": ["x"]}"#;
        let asked = r#"{"extensions": {"x": "1", "y": "1", "d": "9", "f": "9"}}"#;
        let merged = merged(policy, asked);
        let expected = value(r#"{"d": "1", "f": "1", "x": "1"}"#);
        assert_eq!(merged.get("extensions"), Some(&expected.into()));
        assert!(!merged.contains("default_extensions"));
    }

    #[test]
    fn nothing_is_valid_for_longer_than_allowed() {
        let begin = r#""not_before": "2025-01-01 00:00:00""#;
        let until = |policy: &str, args: &str| {
            let merged = merged(policy, &format!("{{{begin}{args}}}"));
            merged.str("not_after").map(|when| when[11..].to_owned())
        };
        let both = r#"{"ttl": "1h", "max_ttl": "2h"}"#;
        assert_eq!(until(both, "").unwrap(), "01:00:00");
        assert_eq!(until(both, r#", "ttl": "90m""#).unwrap(), "01:30:00");
        assert_eq!(until(both, r#", "ttl": "5h""#).unwrap(), "02:00:00");
        let late = r#", "not_after": "2030-01-01 00:00:00""#;
        assert_eq!(until(both, late).unwrap(), "02:00:00");
        assert_eq!(until(r#"{"ttl": "1h"}"#, late).unwrap(), "01:00:00");
        assert_eq!(until(r#"{"key_id": "x"}"#, late).unwrap(), "00:00:00");
        // Without a beginning, the length counts from now.
        let now = merged(both, r#"{"not_after": "2999-01-01 00:00:00"}"#);
        assert_eq!(now.get("ttl"), Some(&Value::Float(7200.0)));
        assert!(!now.contains("not_after"));
    }

    #[test]
    fn everything_else_is_fixed() {
        let merged = merged(
            r#"{"cert_type": "host", "minions": "www*"}"#,
            r#"{"cert_type": "user"}"#,
        );
        assert_eq!(merged.str("cert_type"), Some("host"));
        assert!(!merged.contains("minions"));
    }
}
