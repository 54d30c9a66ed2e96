//! `shadow`: passwords and their aging (`shadow(5)`).

use super::accounts::under_root;
use super::command_helpers::{self, Argv};
use super::declare::{Function, Lit, Module, Result, opt, req};
use super::nested::is_true;
use super::{Call, CallError, python};
use halite_sys::crypt::crypt;
use halite_wire::map;
use halite_wire::{Map, Value};
use rand::Rng;
use std::path::Path;

pub(super) const MODULE: Module = Module {
    name: "shadow",
    functions: &[
        Function::new(
            "default_hash",
            |_| Ok("!".into()),
            "The placeholder for a disabled password.",
        ),
        Function::new(
            "info",
            |c| Ok(details(&name(c), root(c).as_deref())?.into()),
            "The shadow entry of a user; empty texts if there is none.",
        )
        .args(&[req("name"), opt("root", Lit::Nil)]),
        Function::new(
            "list_users",
            list_users,
            "The sorted users with a shadow entry.",
        )
        .args(&[opt("root", Lit::Nil)]),
        Function::new(
            "gen_password",
            gen_password,
            "Hashes a password with crypt(3).",
        )
        .args(&[
            req("password"),
            opt("crypt_salt", Lit::Nil),
            opt("algorithm", Lit::Str("sha512")),
        ]),
        Function::new(
            "set_password",
            set_password,
            "Sets a user's password hash, in the shadow file or with usermod.",
        )
        .args(&[
            req("name"),
            req("password"),
            opt("use_usermod", Lit::Bool(false)),
            opt("root", Lit::Nil),
        ])
        .one_line(&[]),
        Function::new("del_password", del_password, "Removes a user's password.")
            .args(&[req("name"), opt("root", Lit::Nil)]),
        Function::new("lock_password", lock_password, "Locks a user's password.")
            .args(&[req("name"), opt("root", Lit::Nil)]),
        Function::new(
            "unlock_password",
            unlock_password,
            "Unlocks a user's password.",
        )
        .args(&[req("name"), opt("root", Lit::Nil)]),
        Function::new(
            "set_inactdays",
            |c| attribute(c, "inactdays", "inact", "-I", true),
            "Sets the days after password expiry until the account is locked.",
        )
        .args(&[req("name"), req("inactdays"), opt("root", Lit::Nil)]),
        Function::new(
            "set_maxdays",
            |c| attribute(c, "maxdays", "max", "-M", true),
            "Sets the maximum age of a password in days.",
        )
        .args(&[req("name"), req("maxdays"), opt("root", Lit::Nil)]),
        Function::new(
            "set_mindays",
            |c| attribute(c, "mindays", "min", "-m", true),
            "Sets the minimum days between password changes.",
        )
        .args(&[req("name"), req("mindays"), opt("root", Lit::Nil)]),
        Function::new(
            "set_warndays",
            |c| attribute(c, "warndays", "warn", "-W", true),
            "Sets the days of warning before a password expires.",
        )
        .args(&[req("name"), req("warndays"), opt("root", Lit::Nil)]),
        Function::new(
            "set_date",
            |c| attribute(c, "date", "lstchg", "-d", false),
            "Sets the day of the last password change.",
        )
        .args(&[req("name"), req("date"), opt("root", Lit::Nil)]),
        Function::new(
            "set_expire",
            |c| attribute(c, "expire", "expire", "-E", false),
            "Sets the day on which an account expires.",
        )
        .args(&[req("name"), req("expire"), opt("root", Lit::Nil)]),
    ],
};

const KEYS: [&str; 8] = [
    "name", "passwd", "lstchg", "min", "max", "warn", "inact", "expire",
];

fn name(call: &Call<'_>) -> String {
    python::str(call.arg("name"))
}

fn root(call: &Call<'_>) -> Option<String> {
    call.text("root")
}

/// The fields of a line; missing numbers are -1.
fn entry(line: &str) -> Result<Map> {
    let parts: Vec<&str> = line.trim().split(':').collect();
    if parts.len() < 9 {
        return Err(CallError::raised("IndexError", "list index out of range"));
    }
    let mut map = map! {"name" => parts[0], "passwd" => parts[1]};
    for (key, text) in KEYS.iter().zip(&parts).skip(2) {
        let number = if text.is_empty() {
            -1
        } else {
            python::int(&(*text).into())?
        };
        map.set(*key, number);
    }
    Ok(map)
}

fn details(name: &str, root: Option<&str>) -> Result<Map> {
    let text = std::fs::read(under_root(root, "etc/shadow")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    match text
        .lines()
        .find(|l| l.trim().split(':').next() == Some(name))
    {
        Some(line) => entry(line),
        None => Ok(KEYS.iter().map(|k| (*k, "")).collect()),
    }
}

fn passwd(map: &Map) -> &str {
    map.str("passwd").unwrap_or_default()
}

fn absent(map: &Map) -> bool {
    map.str("name").is_none_or(str::is_empty)
}

fn list_users(call: &mut Call<'_>) -> Result {
    let text = command_helpers::read(&under_root(root(call).as_deref(), "etc/shadow"))?;
    let mut names = Vec::new();
    for line in text.lines() {
        names.push(python::str(entry(line)?.get("name").unwrap_or(&Value::Nil)));
    }
    names.sort();
    Ok(names.into())
}

fn attribute(call: &mut Call<'_>, arg: &str, key: &str, option: &str, validate: bool) -> Result {
    let (name, root, value) = (name(call), root(call), call.arg(arg).clone());
    let before = details(&name, root.as_deref())?;
    if absent(&before) {
        return Ok(false.into());
    }
    if before.get(key) == Some(&value) {
        return Ok(true.into());
    }
    let mut argv = Argv::new("chage");
    if let Some(root) = &root {
        argv.add(["-R", root]);
    }
    argv.add([option]).value(&value).add([name.as_str()]);
    let done = command_helpers::run_all(call, argv)?.ok();
    if !validate {
        return Ok(done.into());
    }
    let after = details(&name, root.as_deref())?;
    Ok((after.get(key) == Some(&value)).into())
}

/// `passwd -R root option name`.
fn passwd_program(call: &mut Call<'_>, option: &str) -> Result<Map> {
    let (name, root) = (name(call), root(call));
    let mut argv = Argv::new("passwd");
    if let Some(root) = &root {
        argv.add(["-R", root]);
    }
    argv.add([option, &name]);
    command_helpers::run(call, argv)?;
    details(&name, root.as_deref())
}

fn del_password(call: &mut Call<'_>) -> Result {
    let after = passwd_program(call, "-d")?;
    Ok((passwd(&after).is_empty() && after.str("name") == Some(&name(call))).into())
}

fn lock_password(call: &mut Call<'_>) -> Result {
    let before = details(&name(call), root(call).as_deref())?;
    if absent(&before) {
        return Ok(false.into());
    }
    if passwd(&before).starts_with('!') {
        return Ok(true.into());
    }
    Ok(passwd(&passwd_program(call, "-l")?).starts_with('!').into())
}

fn unlock_password(call: &mut Call<'_>) -> Result {
    let before = details(&name(call), root(call).as_deref())?;
    if absent(&before) {
        return Ok(false.into());
    }
    if !passwd(&before).starts_with('!') {
        return Ok(true.into());
    }
    Ok((!passwd(&passwd_program(call, "-u")?).starts_with('!')).into())
}

fn set_password(call: &mut Call<'_>) -> Result {
    let (name, root) = (name(call), root(call));
    let hash = python::str(call.arg("password"));
    if hash.contains(':') {
        return Err(CallError::Invocation(
            "A password hash may not contain ':', which separates the fields of shadow".into(),
        ));
    }
    if !command_helpers::run_all_tolerant(call, ["id", &name])?.ok() {
        log::warn!("user {name} does not exist, cannot set password");
        return Ok(false.into());
    }
    if is_true(call.arg("use_usermod")) {
        let mut argv = Argv::new("usermod");
        if let Some(root) = &root {
            argv.add(["-R", root]);
        }
        argv.add(["-p", &hash, &name]);
        command_helpers::run(call, argv)?;
    } else {
        let path = under_root(root.as_deref(), "etc/shadow");
        if !Path::new(&path).is_file() {
            return Ok(Map::new().into());
        }
        let content = with_password(&command_helpers::read(&path)?, &name, &hash, today());
        command_helpers::rewrite(Path::new(&path), content.as_bytes())
            .map_err(|e| python::os_error(&e, &path))?;
    }
    let after = details(&name, root.as_deref())?;
    Ok((passwd(&after) == hash).into())
}

/// Days since 1970 in local time.
fn today() -> i64 {
    let now = jiff::Zoned::now();
    (now.timestamp().as_second() + i64::from(now.offset().seconds())).div_euclid(86_400)
}

/// The shadow file with a password hash set. A missing entry is added; one with a wrong number of fields gets nine.
fn with_password(text: &str, name: &str, hash: &str, day: i64) -> String {
    let mut out = String::new();
    let mut found = false;
    for line in text.split_inclusive('\n') {
        let mut parts: Vec<&str> = line.trim().split(':').take(9).collect();
        if parts[0] != name {
            out.push_str(line);
            continue;
        }
        found = true;
        parts.resize(9, "");
        let day = day.to_string();
        parts[1] = hash;
        parts[2] = &day;
        out.push_str(&parts.join(":"));
        out.push('\n');
    }
    if !found {
        out.push_str(&format!("{name}:{hash}:{day}::::::\n"));
    }
    out
}

/// Prefix, and the default salt length.
const METHODS: [(&str, &str, usize); 5] = [
    ("sha512", "6", 16),
    ("sha256", "5", 16),
    ("blowfish", "2b", 22),
    ("md5", "1", 8),
    ("crypt", "", 2),
];

const SALT: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789./";

/// `salt/utils/pycrypto.py gen_hash`.
pub(super) fn gen_password(call: &mut Call<'_>) -> Result {
    let algorithm = call
        .text("algorithm")
        .unwrap_or_else(|| "sha512".to_owned());
    let Some((_, prefix, length)) = METHODS.iter().find(|m| m.0 == algorithm) else {
        let names: Vec<Value> = METHODS.iter().map(|m| m.0.into()).collect();
        let names = python::repr(&names.into());
        return Err(CallError::Invocation(format!(
            "Cannot hash using '{algorithm}' hash algorithm. Natively supported algorithms are: {names}. \
             If passlib is installed (False), the supported algorithms are: {names}."
        )));
    };
    let mut random = rand::thread_rng();
    let mut made = |n: usize| -> String {
        (0..n)
            .map(|_| char::from(SALT[random.gen_range(0..SALT.len())]))
            .collect()
    };
    let password = match call.arg("password") {
        Value::Nil => made(20),
        Value::Str(text) => text.clone(),
        other => {
            let class = python::type_name(other);
            return Err(CallError::Type(format!(
                "crypt() argument 1 must be str, not {class}"
            )));
        }
    };
    let setting = match (call.text("crypt_salt"), *prefix) {
        (Some(salt), "") => salt,
        (Some(salt), prefix) => format!("${prefix}${salt}"),
        (None, "") => made(*length),
        (None, "2b") => format!("$2b$12${}", made(*length)),
        (None, prefix) => format!("${prefix}${}", made(*length)),
    };
    let hash = crypt(&password, &setting).map_err(CallError::Command)?;
    Ok(hash.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_completed() {
        let text = "root:*:1:0:99999:7:::\nann:old\nbob:x:1:::::::more\n";
        assert_eq!(
            with_password(text, "ann", "new", 20),
            "root:*:1:0:99999:7:::\nann:new:20::::::\nbob:x:1:::::::more\n"
        );
        assert_eq!(
            with_password(text, "bob", "new", 20),
            "root:*:1:0:99999:7:::\nann:old\nbob:new:20::::::\n"
        );
        assert!(with_password(text, "cid", "new", 20).ends_with("cid:new:20::::::\n"));
        assert_eq!(entry("root:*:1:0:9:7:::").unwrap().int("inact"), Some(-1));
        assert!(entry("root:*").is_err());
    }
}
