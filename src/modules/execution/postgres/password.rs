//! What the server keeps of a password.

use super::super::CallError;
use crate::execution::declare::Result;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use halite_crypto::HashType;
use halite_wire::{Value, pytext};

/// How passwords are stored, as `encrypted` says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Method {
    /// As they are; servers since 10 refuse that.
    Plain,
    /// MD5 with the name of the role.
    Md5,
    /// SCRAM-SHA-256.
    Scram,
}

const ITERATIONS: u32 = 4096;
/// More than any server uses; a verifier from elsewhere could ask for more work than there is time.
const MAX_ITERATIONS: u32 = 10_000_000;

impl Method {
    /// From the argument `encrypted`; `None` if there is no such method.
    pub fn of(encrypted: &Value) -> Option<Method> {
        match encrypted {
            Value::Nil | Value::Bool(true) => Some(Method::Md5),
            Value::Bool(false) => Some(Method::Plain),
            other if other.is_str("md5") => Some(Method::Md5),
            other if other.is_str("scram-sha-256") => Some(Method::Scram),
            _ => None,
        }
    }
}

/// The verifier of a password; one that is a verifier already stays as it is.
///
/// # Errors
/// There is no such method.
pub fn verifier(role: &str, password: &str, encrypted: &Value) -> Result<String> {
    match Method::of(encrypted) {
        None => Err(CallError::raised(
            "ValueError",
            format!("Unknown password algorithm: {}", pytext::str(encrypted)),
        )),
        Some(Method::Scram) if !password.starts_with("SCRAM-SHA-256") => {
            let salt: [u8; 16] = rand::random();
            Ok(scram(password, &salt, ITERATIONS))
        }
        Some(Method::Md5) if !password.starts_with("md5") => Ok(md5(role, password)),
        _ => Ok(password.to_owned()),
    }
}

/// Whether a password, or a verifier, is the one that the server has.
pub fn is_current(role: &str, password: &str, stored: &str, encrypted: &Value) -> bool {
    match Method::of(encrypted) {
        Some(Method::Md5) if !password.starts_with("md5") => md5(role, password) == stored,
        Some(Method::Scram) if !password.starts_with("SCRAM-SHA-256") => {
            scram_like(password, stored).is_some_and(|expected| expected == stored)
        }
        Some(_) => password == stored,
        None => false,
    }
}

fn md5(role: &str, password: &str) -> String {
    let digest = HashType::Md5.hex(format!("{password}{role}").as_bytes());
    format!("md5{digest}")
}

/// A verifier with salt and iterations of another.
fn scram_like(password: &str, stored: &str) -> Option<String> {
    let rest = stored.strip_prefix("SCRAM-SHA-256$")?;
    let (iterations, rest) = rest.split_once(':')?;
    let (salt, _) = rest.split_once('$')?;
    let iterations = iterations.parse().ok().filter(|n| *n <= MAX_ITERATIONS)?;
    let salt = STANDARD.decode(salt).ok()?;
    Some(scram(password, &salt, iterations))
}

fn scram(password: &str, salt: &[u8], iterations: u32) -> String {
    let prepared = stringprep::saslprep(password).unwrap_or(password.into());
    let salted = pbkdf2(prepared.as_bytes(), salt, iterations);
    let stored_key = sha256(&HashType::Sha256.hmac(&salted, b"Client Key"));
    let server_key = HashType::Sha256.hmac(&salted, b"Server Key");
    format!(
        "SCRAM-SHA-256${iterations}:{}${}:{}",
        STANDARD.encode(salt),
        STANDARD.encode(stored_key),
        STANDARD.encode(server_key)
    )
}

fn sha256(data: &[u8]) -> Vec<u8> {
    use sha2::Digest;
    sha2::Sha256::digest(data).to_vec()
}

/// One block is as long as the digest.
fn pbkdf2(password: &[u8], salt: &[u8], iterations: u32) -> Vec<u8> {
    let first = [salt, &1u32.to_be_bytes()].concat();
    let mut last = HashType::Sha256.hmac(password, &first);
    let mut sum = last.clone();
    for _ in 1..iterations {
        last = HashType::Sha256.hmac(password, &last);
        sum.iter_mut().zip(&last).for_each(|(a, b)| *a ^= b);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verifiers_are_the_servers() {
        // As `create role u password 'secret'` stores them.
        assert_eq!(md5("u", "secret"), "md514ac701963725e89bfe34a2219d114a2");
        let stored = "SCRAM-SHA-256$4096:6T5TrRrsx8XJIXBgTcfapg==$ON3exTGqHjKY/OSQleOuqCXsWgZrucwt/ckVYH6CwOE=:uliL0XxhwwZGYWqD26J+znOrFCZfOaKozIV6Geg9Tsc=";
        let scram = Value::from("scram-sha-256");
        assert!(is_current("u", "secret", stored, &scram));
        assert!(!is_current("u", "other", stored, &scram));
        assert!(is_current("u", stored, stored, &scram));
        assert!(!is_current("u", "secret", "", &scram));
        let fresh = verifier("u", "secret", &scram).unwrap();
        assert!(is_current("u", "secret", &fresh, &scram));
    }
}
