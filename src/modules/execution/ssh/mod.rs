//! `ssh`: keys of users and hosts in OpenSSH's files.

mod auth;
mod hosts;
mod keys;

use super::declare::{Function, Lit, Module, Result, opt, req};
use halite_wire::{Map, Value};

const NIL: Lit = Lit::Nil;
const BASE: Lit = Lit::Str("base");
const FILE: Lit = Lit::Str(".ssh/authorized_keys");

pub(super) const MODULE: Module = Module {
    name: "ssh",
    functions: &[
        Function::new(
            "auth_keys",
            auth::auth_keys,
            "The authorized keys of one or several users.",
        )
        .args(&[
            opt("user", NIL),
            opt("config", FILE),
            opt("fingerprint_hash_type", NIL),
        ]),
        Function::new(
            "check_key",
            auth::check_key,
            "Whether a user's authorized key is up to date: add, update or exists.",
        )
        .args(&[
            req("user"),
            req("key"),
            req("enc"),
            req("comment"),
            req("options"),
            opt("config", FILE),
            opt("cache_keys", NIL),
            opt("fingerprint_hash_type", NIL),
        ]),
        Function::new(
            "check_key_file",
            auth::check_key_file,
            "The result of ssh.check_key for each key in a file.",
        )
        .args(&[
            req("user"),
            req("source"),
            opt("config", FILE),
            opt("saltenv", BASE),
            opt("fingerprint_hash_type", NIL),
        ]),
        Function::new(
            "set_auth_key",
            auth::set_auth_key,
            "Authorizes a key for a user: new, replace, no change, or the error.",
        )
        .args(&[
            req("user"),
            req("key"),
            opt("enc", Lit::Str("ssh-rsa")),
            opt("comment", Lit::Str("")),
            opt("options", NIL),
            opt("config", FILE),
            opt("cache_keys", NIL),
            opt("fingerprint_hash_type", NIL),
        ]),
        Function::new(
            "set_auth_key_from_file",
            auth::set_auth_key_from_file,
            "Authorizes all keys in a file for a user.",
        )
        .args(&[
            req("user"),
            req("source"),
            opt("config", FILE),
            opt("saltenv", BASE),
            opt("fingerprint_hash_type", NIL),
        ])
        .keywords(),
        Function::new(
            "rm_auth_key",
            auth::rm_auth_key,
            "Removes an authorized key of a user.",
        )
        .args(&[
            req("user"),
            req("key"),
            opt("config", FILE),
            opt("fingerprint_hash_type", NIL),
        ]),
        Function::new(
            "rm_auth_key_from_file",
            auth::rm_auth_key_from_file,
            "Removes all keys in a file from a user's authorized keys.",
        )
        .args(&[
            req("user"),
            req("source"),
            opt("config", FILE),
            opt("saltenv", BASE),
            opt("fingerprint_hash_type", NIL),
        ]),
        hosts::GET,
        hosts::RECEIVE,
        hosts::HASH,
        Function::new(
            "check_known_host",
            hosts::check_known_host,
            "Whether the key of a host is known: add, update or exists.",
        )
        .args(&[
            opt("user", NIL),
            opt("hostname", NIL),
            opt("key", NIL),
            opt("fingerprint", NIL),
            opt("config", NIL),
            opt("port", NIL),
            opt("fingerprint_hash_type", NIL),
        ]),
        Function::new(
            "rm_known_host",
            hosts::rm_known_host,
            "Removes the known keys of a host.",
        )
        .args(&[
            opt("user", NIL),
            opt("hostname", NIL),
            opt("config", NIL),
            opt("port", NIL),
        ]),
        Function::new(
            "set_known_host",
            hosts::set_known_host,
            "Adds the keys of a host to the known hosts, fetching them unless one is given.",
        )
        .args(&[
            opt("user", NIL),
            opt("hostname", NIL),
            opt("fingerprint", NIL),
            opt("key", NIL),
            opt("port", NIL),
            opt("enc", NIL),
            opt("config", NIL),
            opt("hash_known_hosts", Lit::Bool(true)),
            opt("timeout", Lit::Int(5)),
            opt("fingerprint_hash_type", NIL),
        ]),
        Function::new("host_keys", keys::host_keys, "The keys of this host.").args(&[
            opt("keydir", NIL),
            opt("private", Lit::Bool(true)),
            opt("certs", Lit::Bool(true)),
        ]),
        Function::new("user_keys", keys::user_keys, "The key pairs of users.").args(&[
            opt("user", NIL),
            opt("pubfile", NIL),
            opt("prvfile", NIL),
        ]),
        Function::new(
            "key_is_encrypted",
            keys::key_is_encrypted,
            "Whether a private key has a passphrase.",
        )
        .args(&[req("key")]),
    ],
};

/// `user.info` of a user; `None` if unknown.
fn user(name: &str) -> Result<Option<Map>> {
    let account = super::accounts::by_name(name, None)?;
    Ok(account.as_ref().map(super::user::described))
}

/// Changes a path's owner; only root can.
fn chown(path: &str, user: &Map) {
    if nix::unistd::geteuid().is_root() {
        let id = |key| user.int(key).and_then(|i| u32::try_from(i).ok());
        let _ = std::os::unix::fs::chown(path, id("uid"), id("gid"));
    }
}

/// A result with only an error.
fn error(text: impl Into<Value>) -> Result {
    Ok(halite_wire::map! {"status" => "error", "error" => text.into()}.into())
}
