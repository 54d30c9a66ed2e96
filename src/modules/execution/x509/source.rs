//! Where keys and certificates come from: a file, PEM, hexadecimal, base64 or bytes (`load_file_or_bytes`).

use crate::context::CallError;
use crate::execution::declare::Result;
use crate::execution::python;
use crate::files::MAX_CONTENT;
use halite_sys::safe_open::read_finite;
use halite_wire::Value;
use std::path::Path;

const BEGIN: &str = "-----BEGIN";
const UNLOADABLE: &str = "Could not load provided source. You need to pass an existing file, (PEM|hex|base64)-encoded \
    string or raw bytes.";

/// Why a key or certificate was not loaded.
#[derive(Clone, Debug)]
pub enum LoadError {
    /// It is none.
    Format(&'static str),
    /// The passphrase is wrong.
    WrongPassphrase,
    /// It is encrypted, and there is no passphrase.
    NoPassphrase,
    /// It is not encrypted, but there is a passphrase.
    NotEncrypted,
    /// A request of a version that there is not.
    Version(String),
    /// Anything else.
    Call(CallError),
}

impl From<CallError> for LoadError {
    fn from(fault: CallError) -> LoadError {
        LoadError::Call(fault)
    }
}

impl From<LoadError> for CallError {
    fn from(fault: LoadError) -> CallError {
        let text = match fault {
            LoadError::Format(text) => text,
            LoadError::WrongPassphrase => "Bad decrypt - is the password correct?",
            LoadError::NoPassphrase => "Private key is encrypted. Please provide a password.",
            LoadError::NotEncrypted => "Private key is unencrypted. Please remove the password.",
            LoadError::Version(text) => {
                return CallError::raised("cryptography.x509.base.InvalidVersion", text);
            }
            LoadError::Call(fault) => return fault,
        };
        CallError::Invocation(text.to_owned())
    }
}

/// What loading gives.
pub type Loaded<T> = std::result::Result<T, LoadError>;

/// Whether a value is the path of a file.
pub fn is_file(value: &Value) -> bool {
    // The text of a key is no path, and longer than one.
    value
        .as_str()
        .is_some_and(|path| !path.contains(['\0', '\n']) && Path::new(path).is_file())
}

/// The bytes of a source.
///
/// # Errors
/// It is none.
pub fn bytes(source: &Value) -> Result<Vec<u8>> {
    let text = match source {
        Value::Bytes(bytes) => return Ok(bytes.clone()),
        Value::Str(path) if is_file(source) => {
            let read = read_finite(path.as_ref(), MAX_CONTENT);
            return read.map_err(|e| python::os_error(&e, path));
        }
        Value::Str(text) => text,
        _ => return Err(CallError::Invocation(UNLOADABLE.to_owned())),
    };
    if let Some(encoded) = text.strip_prefix("b64:") {
        return base64(encoded)
            .ok_or_else(|| CallError::raised("binascii.Error", "Incorrect padding"));
    }
    if text.contains(BEGIN) {
        return Ok(text.clone().into_bytes());
    }
    super::unhex(text)
        .or_else(|| base64(text))
        .ok_or_else(|| CallError::Invocation(UNLOADABLE.to_owned()))
}

/// Base64 as Python reads it, which skips what does not belong to it.
pub fn base64(text: &str) -> Option<Vec<u8>> {
    use base64::Engine;
    use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
    const LAX: GeneralPurpose = GeneralPurpose::new(
        &base64::alphabet::STANDARD,
        GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
    );
    if !text.is_ascii() {
        return None;
    }
    let mut kept = String::new();
    for c in text.chars() {
        if c.is_ascii_alphanumeric() || c == '+' || c == '/' {
            kept.push(c);
        } else if c == '=' && kept.len() % 4 >= 2 {
            kept.push('=');
            if kept.len().is_multiple_of(4) {
                break;
            }
        }
    }
    LAX.decode(kept).ok()
}

/// Base64 of bytes.
pub fn to_base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// A block of PEM.
#[derive(Clone, Debug)]
pub struct Pem {
    /// What it says to be.
    pub label: String,
    /// Whether it has a header that says it is encrypted.
    pub encrypted: bool,
    /// Its content, which is encrypted if it says so.
    pub der: Option<Vec<u8>>,
    /// Its lines.
    pub text: String,
}

/// Whether bytes contain PEM.
pub fn is_pem(bytes: &[u8]) -> bool {
    bytes.windows(BEGIN.len()).any(|w| w == BEGIN.as_bytes())
}

/// The blocks of a text.
pub fn pems(bytes: &[u8]) -> Vec<Pem> {
    let text = String::from_utf8_lossy(bytes);
    let mut all = Vec::new();
    let mut lines = text.lines().map(str::trim).filter(|l| !l.is_empty());
    while let Some(line) = lines.next() {
        let begin = line
            .strip_prefix("-----BEGIN ")
            .and_then(|l| l.strip_suffix("-----"));
        let Some(label) = begin else { continue };
        let mut pem = Pem {
            label: label.to_owned(),
            encrypted: false,
            der: None,
            text: format!("{line}\n"),
        };
        let mut body = String::new();
        for line in lines.by_ref() {
            pem.text.push_str(line);
            pem.text.push('\n');
            if line.starts_with("-----END") {
                pem.der = base64(&body);
                all.push(pem);
                break;
            }
            if line.contains(':') {
                pem.encrypted |= line.contains("ENCRYPTED");
                if line.starts_with("DEK-Info:") {
                    pem.text.push('\n');
                }
            } else {
                body.push_str(line);
            }
        }
    }
    all
}

/// PEM of bytes.
pub fn to_pem(label: &str, der: &[u8]) -> String {
    let body = to_base64(der);
    let mut text = format!("-----BEGIN {label}-----\n");
    for at in (0..body.len()).step_by(64) {
        text.push_str(&body[at..body.len().min(at + 64)]);
        text.push('\n');
    }
    text.push_str(&format!("-----END {label}-----\n"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources() {
        let get = |text: &str| bytes(&text.into()).ok();
        assert_eq!(get("01 ff"), Some(vec![1, 255]));
        assert_eq!(get("b64:AQI="), Some(vec![1, 2]));
        assert_eq!(get("AQI="), Some(vec![1, 2]));
        assert_eq!(get("AQI"), None);
        assert_eq!(get("A"), None);
        assert!(bytes(&Value::Nil).is_err());
    }

    #[test]
    fn blocks() {
        let text = format!("x\n{}\n{}", to_pem("A", &[1; 60]), to_pem("B C", &[2]));
        let found = pems(text.as_bytes());
        let labels: Vec<&str> = found.iter().map(|p| p.label.as_str()).collect();
        assert_eq!(labels, ["A", "B C"]);
        assert_eq!(found[0].der.as_deref(), Some(&[1; 60][..]));
        assert!(pems(b"-----BEGIN A-----\nAQI=\n").is_empty());
    }
}
