//! Checks signatures.

use super::super::{Call, CallError, python};
use super::run::{Gpg, Ran, content};
use crate::execution::declare::Result;
use halite_wire::{Value, map};

const MODELS: [&str; 7] = [
    "pgp", "classic", "tofu", "tofu+pgp", "direct", "always", "auto",
];

/// One signature.
#[derive(Clone, Debug, Default, PartialEq)]
struct Signature {
    user: Option<String>,
    key: String,
    /// The fingerprint of the primary key.
    fingerprint: Option<String>,
    /// How far the key is trusted; only signatures that are right have it.
    trust: Option<&'static str>,
    status: &'static str,
    /// Whether neither it nor its key had expired or was revoked.
    good: bool,
}

/// How far a key is trusted, from the keyword of a status line.
fn trust_of(key: &str) -> Option<&'static str> {
    Some(match key {
        "TRUST_EXPIRED" => "Expired",
        "TRUST_UNDEFINED" => "Undefined",
        "TRUST_NEVER" => "Never",
        "TRUST_MARGINAL" => "Marginal",
        "TRUST_FULLY" => "Fully",
        "TRUST_ULTIMATE" => "Ultimate",
        _ => return None,
    })
}

/// The signatures that `gpg` could check. Those that are wrong or of unknown keys are not among them.
fn signatures(ran: &Ran) -> Vec<Signature> {
    let mut all: Vec<Signature> = Vec::new();
    let mut open = false;
    for (key, value) in ran.status() {
        if key == "NEWSIG" {
            open = false;
        } else if key == "SIG_ID" {
            all.push(Signature::default());
            open = true;
        }
        let Some(current) = all.last_mut().filter(|_| open) else {
            continue;
        };
        if let Some(trust) = trust_of(key) {
            current.trust = Some(trust);
            open = false;
            continue;
        }
        let status = match key {
            "GOODSIG" => "signature good",
            "BADSIG" => "signature bad",
            "EXPSIG" => "signature expired",
            "ERRSIG" => "signature error",
            "EXPKEYSIG" => "signing key has expired",
            "REVKEYSIG" => "signing key was revoked",
            "VALIDSIG" => {
                current.fingerprint = value.split_whitespace().nth(9).map(str::to_owned);
                current.status = "signature valid";
                continue;
            }
            _ => continue,
        };
        let (id, user) = value.split_once(' ').unwrap_or((value, ""));
        current.key = id.to_owned();
        current.status = status;
        current.good = key == "GOODSIG";
        if matches!(key, "GOODSIG" | "BADSIG" | "EXPSIG") {
            current.user = Some(user.to_owned());
        }
    }
    all
}

fn run(call: &mut Call<'_>, gpg: &Gpg, options: &[String]) -> Result<Ran> {
    let mut words = vec!["--verify".to_owned()];
    words.extend(options.iter().cloned());
    if call.flag("text") {
        let text = call.text("text").unwrap_or_default();
        return gpg.run(&words, Some(text.into_bytes()));
    }
    if !call.flag("filename") {
        return Err(CallError::Invocation(
            "filename or text must be passed.".to_owned(),
        ));
    }
    let file = call.text("filename").unwrap_or_default();
    if !call.flag("signature") {
        // Not by its name: next to some names gpg looks for another file, which it checks instead.
        return gpg.run(&words, Some(content(&file)?));
    }
    let Value::Str(signature) = call.arg("signature") else {
        let class = python::type_name(call.arg("signature"));
        let text = format!("expected str, bytes or os.PathLike object, not {class}");
        return Err(CallError::Type(text));
    };
    words.push("--".to_owned());
    let signature = content(signature)?;
    let scratch = gpg.scratch()?;
    words.push(scratch.with("signature", &signature)?);
    if gpg.is_other_user() {
        words.push("-".to_owned());
        return gpg.run(&words, Some(content(&file)?));
    }
    words.push(file);
    gpg.run(&words, None)
}

fn list(value: &Value) -> Vec<String> {
    match value {
        Value::Array(list) => list.iter().map(python::str).collect(),
        one if one.truthy() => vec![python::str(one)],
        _ => Vec::new(),
    }
}

pub fn verify(call: &mut Call<'_>) -> Result {
    let model = call.text("trustmodel").filter(|model| !model.is_empty());
    let mut options = Vec::new();
    if let Some(model) = model {
        if !MODELS.contains(&model.as_str()) {
            let text = format!(
                "Invalid trustmodel defined: {model}. Use one of: {}",
                MODELS.join(", ")
            );
            log::warn!("{text}");
            return Ok(map! {"res" => false, "message" => text}.into());
        }
        options.extend(["--trust-model".to_owned(), model]);
    }
    let [any, every] = ["signed_by_any", "signed_by_all"].map(|name| list(call.arg(name)));
    if !any.is_empty() || !every.is_empty() {
        // Otherwise gpg stops at the first signature that is wrong.
        options.push("--no-batch".to_owned());
    }
    let gpg = Gpg::new(call)?;
    let ran = run(call, &gpg, &options)?;
    if any.is_empty() && every.is_empty() {
        return Ok(plain(&ran));
    }
    Ok(by_keys(&signatures(&ran), &any, &every))
}

/// Whether there is a signature that is right.
fn plain(ran: &Ran) -> Value {
    let Some(trust) = ran.status().filter_map(|(key, _)| trust_of(key)).last() else {
        return map! {"res" => false, "message" => "The signature could not be verified."}.into();
    };
    let named = |key: &str| matches!(key, "GOODSIG" | "BADSIG" | "EXPSIG");
    let ids = |key: &str| named(key) || matches!(key, "EXPKEYSIG" | "REVKEYSIG");
    let of = |wanted: &dyn Fn(&str) -> bool| ran.status().filter(|(key, _)| wanted(key)).last();
    if of(&ids).is_none_or(|(key, _)| key != "GOODSIG") {
        return map! {"res" => false, "message" => "The signature could not be verified."}.into();
    }
    let id = of(&ids).and_then(|(_, value)| value.split(' ').next());
    let user = of(&ids).and_then(|(_, value)| value.split_once(' '));
    map! {
        "res" => true, "username" => user.map(|(_, user)| user), "key_id" => id, "trust_level" => trust,
        "message" => "The signature is verified.",
    }
    .into()
}

/// Whether the wanted keys have signed.
fn by_keys(signatures: &[Signature], any: &[String], every: &[String]) -> Value {
    let signed = |key: &String| {
        let fits = |one: &Signature| {
            one.good && one.trust.is_some() && one.fingerprint.as_ref() == Some(key)
        };
        signatures.iter().any(fits)
    };
    let shown = signatures.iter().map(|one| {
        Value::from(map! {
            "username" => one.user.clone(), "key_id" => one.key.as_str(),
            "fingerprint" => one.fingerprint.clone(), "trust_level" => one.trust, "status" => one.status,
        })
    });
    let shown: Vec<Value> = shown.collect();
    let answer = |good: bool, text: String| {
        map! {"res" => good, "message" => text, "signatures" => shown.clone()}.into()
    };
    if !any.is_empty() && !any.iter().any(signed) {
        let text = "None of the public keys listed in signed_by_any provided a valid signature";
        return answer(false, text.to_owned());
    }
    if let Some(missing) = every.iter().find(|key| !signed(key)) {
        return answer(
            false,
            format!(
                "Public key {missing} has not provided a valid signature, but was listed in signed_by_all"
            ),
        );
    }
    answer(
        true,
        "All required keys have provided a signature".to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(said: &str) -> Ran {
        Ran {
            code: 0,
            data: Vec::new(),
            said: said.to_owned(),
        }
    }

    #[test]
    fn only_right_signatures_count() {
        let good = "[GNUPG:] NEWSIG\n[GNUPG:] SIG_ID abc 2022 1\n[GNUPG:] GOODSIG K1 A B <a@b>\n\
            [GNUPG:] VALIDSIG SUB 2022 1 0 4 0 1 8 01 PRIMARY\n[GNUPG:] TRUST_UNDEFINED 0 pgp\n";
        let bad = "[GNUPG:] NEWSIG\n[GNUPG:] BADSIG K2 C\n";
        let all = signatures(&ran(&format!("{bad}{good}{bad}")));
        assert_eq!(all.len(), 1);
        let ok = |v: Value| v.as_map().and_then(|m| m.get("res").cloned()) == Some(true.into());
        assert!(ok(by_keys(&all, &["PRIMARY".into()], &[])));
        assert!(!ok(by_keys(&all, &["SUB".into()], &[])));
        assert!(!ok(by_keys(&all, &[], &["PRIMARY".into(), "K2".into()])));
        assert!(ok(plain(&ran(good))));
        for other in ["REVKEYSIG", "EXPKEYSIG", "EXPSIG"] {
            let old = good.replace("GOODSIG", other);
            assert!(!ok(plain(&ran(&old))));
            assert!(!ok(by_keys(
                &signatures(&ran(&old)),
                &["PRIMARY".into()],
                &[]
            )));
        }
        assert!(!ok(plain(&ran(bad))));
        assert!(!ok(plain(&ran("gpg: [GNUPG:] TRUST_FULLY\n"))));
    }
}
