//! Signing policies of `x509` and `ssh_pki`: what a minion signs for others, and how others ask it.

use super::declare::Result;
use super::{Call, CallError, python};
use halite_wire::{Map, Value, map};

/// Seconds to wait for another minion.
const TIMEOUT: i64 = 60;

/// The policies of a module.
pub struct Policies {
    /// Where they are configured.
    pub key: &'static str,
    /// The function by which another minion signs.
    pub function: &'static str,
}

impl Policies {
    /// A policy of this minion; empty if there is none of this name.
    ///
    /// # Errors
    /// As `config.get`.
    pub fn own(&self, call: &mut Call<'_>, name: &Value) -> Result<Map> {
        if name.is_nil() {
            return Ok(Map::new());
        }
        let name = python::str(name);
        let under = |all: Option<&Value>| {
            let policy = all.and_then(Value::as_map)?.get(&name)?;
            policy.truthy().then(|| policy.clone())
        };
        let policy = match under(call.ctx.pillar.get(self.key)) {
            Some(policy) => Some(policy),
            None => {
                let all = call.salt(
                    "config.get",
                    vec![self.key.into(), Map::new().into()],
                    Map::new(),
                )?;
                under(Some(&all))
            }
        };
        Ok(match policy {
            Some(Value::Map(policy)) => policy,
            Some(Value::Array(list)) => {
                let mut whole = Map::new();
                for (key, value) in list.iter().filter_map(Value::as_map).flat_map(Map::iter) {
                    whole.set(python::str(key), value.clone());
                }
                whole
            }
            _ => Map::new(),
        })
    }

    /// What another minion answers to a request for a certificate, or for a policy only.
    ///
    /// # Errors
    /// It does not answer as it should.
    pub fn ask(
        &self,
        call: &mut Call<'_>,
        server: &Value,
        policy: &Value,
        args: Map,
        only_policy: bool,
    ) -> Result<Value> {
        let arg: Vec<Value> = vec![policy.clone(), args.into(), only_policy.into()];
        let answer = call.salt(
            "publish.publish",
            vec![server.clone(), self.function.into()],
            map! {"arg" => arg, "timeout" => TIMEOUT},
        )?;
        if !answer.truthy() {
            return Err(CallError::Invocation(
                "ca_server did not respond. Salt master must permit peers to call the sign_remote_certificate function."
                    .to_owned(),
            ));
        }
        let returns = answer.into_map().unwrap_or_default();
        let one = returns
            .0
            .into_iter()
            .next()
            .map(|(_, one)| one)
            .unwrap_or_default();
        let Some(one) = one.as_map().filter(|m| m.contains("data")) else {
            log::error!(
                "Received invalid return value from ca_server: {}",
                python::str(&one)
            );
            let text = "Received invalid return value from ca_server. See minion log for details";
            return Err(CallError::Command(text.to_owned()));
        };
        let errors = one.get("errors").map(Value::str_list).unwrap_or_default();
        if !errors.is_empty() {
            let text = format!("ca_server reported errors:\n{}", errors.join("\n"));
            return Err(CallError::Command(text));
        }
        Ok(one.get("data").cloned().unwrap_or_default())
    }

    /// The policy that a minion asks for, if it may have it.
    ///
    /// # Errors
    /// As `config.get` and the match of the minion.
    pub fn for_remote(&self, call: &mut Call<'_>) -> Result<Result<Map, &'static str>> {
        let name = call.arg("signing_policy").clone();
        let mut policy = self.own(call, &name)?;
        if policy.is_empty() {
            return Ok(Err(
                "signing_policy must be specified and defined on signing minion",
            ));
        }
        if let Some(minions) = policy.remove("minions") {
            let Some(asking) = call.bound.kwargs.get("__pub_id").cloned() else {
                return Ok(Err("minion sending this request could not be identified"));
            };
            if !is_meant(call, &minions, &asking)? {
                return Ok(Err("minion not permitted to use specified signing policy"));
            }
        }
        Ok(Ok(policy))
    }
}

/// Removes what a minion that asks for a signature has no say in, as it has in stock: which key signs, where copies go,
/// and which files here are looked at.
pub fn remove_choices(args: &mut Map) {
    for name in [
        "ca_server",
        "signing_policy",
        "private_key",
        "private_key_passphrase",
        "signing_private_key",
        "signing_private_key_passphrase",
        "copypath",
    ] {
        args.remove(name);
    }
}

/// Whether a target means a minion.
fn is_meant(call: &mut Call<'_>, target: &Value, minion: &Value) -> Result<bool> {
    if !python::str(target).contains('@') {
        let matches = call.salt(
            "match.glob",
            vec![target.clone(), minion.clone()],
            Map::new(),
        )?;
        return Ok(matches.truthy());
    }
    // Only the master knows what the other minion's grains are.
    let arg: Vec<Value> = vec![target.clone(), minion.clone()];
    let answer = call.salt(
        "publish.runner",
        vec!["match.compound_matches".into()],
        map! {"arg" => arg},
    )?;
    if answer.is_nil() {
        return Err(CallError::Command(
            "Could not check minion match for compound expression. Is this minion allowed to run \
             `match.compound_matches` on the master?"
                .to_owned(),
        ));
    }
    match answer.as_map().and_then(|m| m.get("res")) {
        Some(res) => Ok(res == minion),
        None => Err(CallError::Command(
            "Invalid return value of match.compound_matches.".to_owned(),
        )),
    }
}
