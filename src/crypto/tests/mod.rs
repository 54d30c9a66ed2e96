//! Every RSA test runs on every available back end.

mod auth;
mod envelope;
mod identity;
mod keys;
mod rsa;
mod sysinspect;
mod text;

use super::*;
use serde_json::Value as Json;

/// Runs a generic test function once per back end.
macro_rules! on_each_backend {
    ($($name:ident),* $(,)?) => {
        mod portable {
            $(#[test] fn $name() { super::$name::<crate::rsa_portable::Portable>(); })*
        }
        #[cfg(feature = "openssl")]
        mod openssl {
            $(#[test] fn $name() { super::$name::<crate::rsa_openssl::OpenSsl>(); })*
        }
    };
}
use on_each_backend;

const SMALL: &str = include_str!("pem/small.pem");
const SMALL_PUB: &str = include_str!("pem/small-pub.pem");

/// A file of test vectors.
fn vectors(name: &str) -> Json {
    let path = format!(
        "{}/../../tests/vectors/{name}.json",
        env!("CARGO_MANIFEST_DIR")
    );
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The list `vectors` of a file.
fn list(file: &Json) -> &[Json] {
    file["vectors"].as_array().unwrap()
}

fn text(json: &Json) -> &str {
    json.as_str().unwrap()
}

fn unhex(json: &Json) -> Vec<u8> {
    let digits = text(json);
    (0..digits.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&digits[i..i + 2], 16).unwrap())
        .collect()
}

/// The key pair of `master` or `minion`.
fn pair<B: Backend>(who: &str) -> (RsaPrivate<B>, RsaPublic<B>) {
    let keys = vectors("keys");
    let private = RsaPrivate::from_pem(text(&keys[who]["private_pem"])).unwrap();
    let public = RsaPublic::from_pem(text(&keys[who]["public_pem"])).unwrap();
    (private, public)
}

fn small<B: Backend>() -> (RsaPrivate<B>, RsaPublic<B>) {
    let private = RsaPrivate::from_pem(SMALL).unwrap();
    let public = RsaPublic::from_pem(SMALL_PUB).unwrap();
    (private, public)
}
