//! `ssh`: keys of users and hosts in OpenSSH's files.

mod auth;
mod hosts;
mod keys;

use super::CallError;
use super::cmd::{IdentityGuard, identity};
use super::declare::{Function, Lit, Module, Result, opt, req};
use halite_sys::programs::{why_unsafe, why_unsafe_place};
use halite_wire::{Map, Value};
use std::path::Path;

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
        ])
        .one_line(&[])
        .names(&["hostname"]),
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

/// Lets the job act as the user, while this exists, if others than root may change a directory on the way to their
/// file: they might lead root to any other file. Where only root may, root acts.
fn as_user(name: &str, path: &str) -> Result<IdentityGuard> {
    let mut dirs = Path::new(path).ancestors().skip(1);
    let dir = dirs.find(|dir| dir.symlink_metadata().is_ok());
    let is_roots = |dir: &Path| {
        let meta = std::fs::metadata(dir);
        meta.is_ok_and(|meta| why_unsafe(dir, &meta).is_none()) && why_unsafe_place(dir).is_none()
    };
    let led = !dir.is_some_and(is_roots);
    let user = match led && nix::unistd::geteuid().is_root() {
        true => identity(Some(name), None)?,
        false => None,
    };
    IdentityGuard::take(None, user.as_ref()).map_err(|e| CallError::Command(e.desc().to_owned()))
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

#[cfg(test)]
mod tests {
    use crate::execution::{Context, invoke};
    use halite_wire::{Map, Value};
    use std::fs;
    use std::os::unix::fs::{MetadataExt, chown, symlink};
    use std::path::Path;

    const KEY: &str = "AAAAB3NzaC1yc2EAAAADAQABAAAAgQC1";

    fn call(fun: &str, args: &[&str], config: &Path) -> Result<Value, crate::context::CallError> {
        let mut kwargs = Map::new();
        kwargs.set("config", config.to_string_lossy().as_ref());
        if fun.contains("known_host") && fun.starts_with("ssh.set") {
            kwargs.set("key", KEY);
            kwargs.set("enc", "ssh-rsa");
            kwargs.set("hash_known_hosts", false);
        }
        let args = args.iter().map(|a| Value::from(*a)).collect();
        invoke(&Context::default(), fun, args, kwargs)
    }

    #[test]
    fn users_do_not_lead_root_to_other_files() {
        let user = nix::unistd::User::from_name("nobody").unwrap();
        let (Some(user), true) = (user, nix::unistd::geteuid().is_root()) else {
            eprintln!("skipped: needs root and the account nobody");
            return;
        };
        let dir = tempfile::tempdir().unwrap();
        chown(dir.path(), Some(user.uid.as_raw()), None).unwrap();
        let secret = tempfile::tempdir().unwrap();
        let victim = secret.path().join("victim");
        fs::write(&victim, "root's\n").unwrap();
        let link = dir.path().join("link");
        symlink(&victim, &link).unwrap();
        symlink(secret.path(), dir.path().join("dir")).unwrap();
        for (fun, args) in [
            ("ssh.set_auth_key", ["nobody", KEY]),
            ("ssh.set_known_host", ["nobody", "host"]),
            ("ssh.rm_known_host", ["nobody", "host"]),
        ] {
            for config in [link.clone(), dir.path().join("dir/new")] {
                let _ = call(fun, &args, &config);
                assert_eq!(fs::read_to_string(&victim).unwrap(), "root's\n", "{fun}");
                assert_eq!(fs::metadata(&victim).unwrap().uid(), 0, "{fun}");
                assert!(!secret.path().join("new").exists(), "{fun}");
            }
        }
        assert!(nix::unistd::geteuid().is_root());
        // Their own files they get.
        let own = dir.path().join("sub/keys");
        assert_eq!(
            call("ssh.set_auth_key", &["nobody", KEY], &own).unwrap(),
            "new".into()
        );
        assert_eq!(fs::metadata(&own).unwrap().uid(), user.uid.as_raw());
        assert_eq!(fs::metadata(&own).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn keys_are_kept_where_only_root_may_write() {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: needs root");
            return;
        }
        // Below a directory in which all may make files.
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("keys")).unwrap();
        let file = dir.path().join("keys/nobody");
        let args = ["nobody", KEY];
        assert_eq!(call("ssh.set_auth_key", &args, &file), Ok("new".into()));
        assert_eq!(
            call("ssh.set_auth_key", &args, &file),
            Ok("no change".into())
        );
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        assert_eq!(
            call("ssh.rm_auth_key", &args, &file),
            Ok("Key removed".into())
        );
    }

    #[test]
    fn a_comment_adds_no_line() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("keys");
        let args = ["root", KEY, "ssh-rsa", "me\nssh-rsa AAAA evil"];
        assert!(call("ssh.set_auth_key", &args, &file).is_err());
        assert!(!file.exists());
    }
}
