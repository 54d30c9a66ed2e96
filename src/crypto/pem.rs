//! PEM as found in key files: armour, line ends, kinds of keys.

use super::CryptoError;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

/// Longer texts are refused without parsing; an 8192-bit private key takes 6.5 kB.
const MAX_PEM: usize = 32 * 1024;

/// The document inside the armour.
pub(super) struct Pem {
    /// The text after BEGIN.
    pub label: String,
    /// The DER document.
    pub der: Zeroizing<Vec<u8>>,
}

/// Extracts the first PEM block from a text. Line ends, blank lines and text around the block do not matter: people
/// edit and paste key files.
pub(super) fn decode(text: &str) -> Result<Pem, CryptoError> {
    if text.len() > MAX_PEM {
        return Err(CryptoError::BadPem("the text is longer than any RSA key"));
    }
    let mut lines = text.lines().map(str::trim);
    let label = lines
        .find_map(|l| l.strip_prefix("-----BEGIN ")?.strip_suffix("-----"))
        .ok_or(CryptoError::BadPem("there is no BEGIN line"))?;
    let mut body = Zeroizing::new(String::with_capacity(text.len()));
    for line in lines {
        if line.starts_with("-----END ") {
            return Ok(Pem {
                label: label.to_owned(),
                der: decode_body(&body)?,
            });
        }
        if line.starts_with("Proc-Type:") && line.ends_with("ENCRYPTED") {
            return Err(CryptoError::Encrypted);
        }
        body.push_str(line);
    }
    Err(CryptoError::BadPem("there is no END line"))
}

fn decode_body(body: &str) -> Result<Zeroizing<Vec<u8>>, CryptoError> {
    STANDARD
        .decode(body)
        .map(Zeroizing::new)
        .map_err(|_| CryptoError::BadPem("the lines inside are not base64"))
}

/// Wraps a DER document in armour, 64 characters per line, as OpenSSL does.
pub(super) fn encode(label: &str, der: &[u8]) -> Zeroizing<String> {
    let body = Zeroizing::new(STANDARD.encode(der));
    let mut out = Zeroizing::new(String::with_capacity(body.len() / 64 * 65 + 80));
    out.push_str(&format!("-----BEGIN {label}-----\n"));
    let mut rest = body.as_str();
    while !rest.is_empty() {
        let (line, tail) = rest.split_at(rest.len().min(64));
        out.push_str(line);
        out.push('\n');
        rest = tail;
    }
    out.push_str(&format!("-----END {label}-----\n"));
    out
}

/// Whether a text in clean form is one PEM block and nothing else: a terminal shows what programs read.
pub(super) fn is_bare(text: &str) -> bool {
    let mut lines = text.split('\n');
    let label = lines
        .next()
        .and_then(|line| line.strip_prefix("-----BEGIN ")?.strip_suffix("-----"));
    let end = lines
        .next_back()
        .and_then(|line| line.strip_prefix("-----END ")?.strip_suffix("-----"));
    let is_base64 = |c: char| c.is_ascii_alphanumeric() || "+/=".contains(c);
    label.is_some_and(|label| {
        Some(label) == end && label.chars().all(|c| c == ' ' || c.is_ascii_uppercase())
    }) && lines.all(|line| line.chars().all(is_base64))
}

/// A key in the form that is sent and compared: no surrounding white space, lines joined by `\n`, none at the end
/// (`salt/crypt.py clean_key`; Python's definition of both).
pub fn clean_key(key: &str) -> String {
    let key = key.trim_matches(|c: char| c.is_whitespace() || ('\x1c'..='\x1f').contains(&c));
    key.replace("\r\n", "\n").replace(is_python_line_end, "\n")
}

/// Line ends of Python's `str.splitlines` other than `\n`.
fn is_python_line_end(c: char) -> bool {
    matches!(
        c,
        '\r' | '\x0b' | '\x0c' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}'
    )
}

/// The input of a fingerprint: the lines between BEGIN and END, each with its newline; the whole unchanged text if it
/// is not PEM (as in 3006.28).
pub(super) fn fingerprint_text(text: &str) -> String {
    let normal = text.replace("\r\n", "\n");
    let lines: Vec<&str> = normal
        .split('\n')
        .filter(|l| !l.trim().is_empty())
        .collect();
    match lines.as_slice() {
        [first, body @ .., last]
            if first.trim().starts_with("-----BEGIN") && last.trim().starts_with("-----END") =>
        {
            body.iter().flat_map(|l| [*l, "\n"]).collect()
        }
        _ => text.to_owned(),
    }
}
