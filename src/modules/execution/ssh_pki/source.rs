//! Where keys and certificates come from, and why they are not loaded.

use crate::context::CallError;
use crate::execution::declare::Result;
use crate::execution::python;
use crate::execution::x509::source::is_file;
use halite_sys::safe_open::read_finite;
use halite_wire::Value;

/// The largest file or text that may be a key, as in OpenSSH.
const LARGEST: u64 = 1 << 20;

/// Why a key or certificate was not loaded.
#[derive(Clone, Debug)]
pub enum LoadError {
    /// It is none.
    Format(&'static str),
    /// It is a key instead of a certificate, of this class of Python's.
    NotCertificate(&'static str),
    /// It is of a kind that nobody knows here.
    Unsupported(String),
    /// The passphrase is wrong.
    WrongPassphrase,
    /// It is encrypted, and there is no passphrase.
    NoPassphrase,
    /// It is not encrypted, but there is a passphrase.
    NotEncrypted,
    /// Anything else.
    Call(CallError),
}

impl LoadError {
    /// For a kind of something, in Python's `bytes`.
    pub fn unsupported(what: &str, kind: &[u8]) -> LoadError {
        let kind = python::repr(&String::from_utf8_lossy(kind).into_owned().into());
        LoadError::Unsupported(format!("Unsupported {what}: b{kind}"))
    }
}

impl From<CallError> for LoadError {
    fn from(fault: CallError) -> LoadError {
        LoadError::Call(fault)
    }
}

impl From<LoadError> for CallError {
    fn from(fault: LoadError) -> CallError {
        let text = match fault {
            LoadError::Format(text) => return CallError::Command(text.to_owned()),
            LoadError::NotCertificate(class) => {
                let text = format!("The data decoded to a {class}, not SSHCertificate");
                return CallError::Invocation(text);
            }
            LoadError::Unsupported(text) => {
                let class = "cryptography.exceptions.UnsupportedAlgorithm";
                return CallError::raised(class, text);
            }
            LoadError::WrongPassphrase => "Bad decrypt - is the password correct?",
            LoadError::NoPassphrase => "Private key is encrypted. Please provide a password.",
            LoadError::NotEncrypted => "Password was given but private key is not encrypted",
            LoadError::Call(fault) => return fault,
        };
        CallError::Invocation(text.to_owned())
    }
}

/// What loading gives.
pub type Loaded<T> = std::result::Result<T, LoadError>;

/// The bytes of a source: of a file, if it is the path of one.
///
/// # Errors
/// It is neither a text nor bytes, or it cannot be read.
pub fn bytes(source: &Value) -> Result<Vec<u8>> {
    let bytes = match source {
        Value::Bytes(bytes) => bytes.clone(),
        Value::Str(path) if is_file(source) => {
            let read = read_finite(path.as_ref(), LARGEST);
            return read.map_err(|e| python::os_error(&e, path));
        }
        Value::Str(text) => text.clone().into_bytes(),
        _ => {
            let text = "Could not load provided source. You need to pass an existing file, string or raw bytes.";
            return Err(CallError::Invocation(text.to_owned()));
        }
    };
    if bytes.len() as u64 > LARGEST {
        let text = "The provided source is too large for a key or certificate";
        return Err(CallError::Command(text.to_owned()));
    }
    Ok(bytes)
}
