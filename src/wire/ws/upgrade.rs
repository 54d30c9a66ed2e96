//! The HTTP messages before the first frame (RFC 6455 4).

use crate::{Spoken, Transport, base64};
use sha1::{Digest, Sha1};
use std::fmt;

/// Longest head of an HTTP message, in bytes.
const MAX_HEAD: usize = 8 << 10;
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const END: &[u8] = b"\r\n\r\n";

/// Why there is no WebSocket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpgradeError {
    /// It does not begin with HTTP, but with what looks like this.
    NotHttp(Spoken),
    /// The head is too long or malformed.
    Malformed,
    /// HTTP that does not ask for WebSocket 13.
    NoUpgrade,
    /// A server that answers something else.
    Refused,
}

impl fmt::Display for UpgradeError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            UpgradeError::NotHttp(spoken) => spoken.refusal(Transport::Ws),
            UpgradeError::Malformed => "its HTTP head is too long or malformed",
            UpgradeError::NoUpgrade => "it speaks HTTP, but does not ask for WebSocket 13",
            UpgradeError::Refused => {
                "it speaks HTTP, but not WebSocket; do the options `transport` and the port agree?"
            }
        })
    }
}

/// The head of an HTTP message as it arrives.
#[derive(Debug, Default)]
struct HttpHead(Vec<u8>);

impl HttpHead {
    /// Adds bytes; once the head is complete, its text and what follows it.
    fn push(
        &mut self,
        bytes: &[u8],
        first: &[u8],
    ) -> Result<Option<(String, Vec<u8>)>, UpgradeError> {
        // Where the end may begin that these bytes complete.
        let from = self.0.len().saturating_sub(END.len() - 1);
        self.0.extend_from_slice(bytes);
        let known = self.0.len().min(first.len());
        if self.0[..known] != first[..known] {
            let spoken = self.0.first().map_or(Spoken::Unknown, |b| Spoken::of(*b));
            return Err(match spoken {
                Spoken::Http => UpgradeError::NoUpgrade,
                spoken => UpgradeError::NotHttp(spoken),
            });
        }
        let mut parts = self.0[from..].windows(END.len());
        let end = parts.position(|part| part == END).map(|at| from + at);
        let Some(end) = end.filter(|end| *end <= MAX_HEAD) else {
            return if self.0.len() > MAX_HEAD {
                Err(UpgradeError::Malformed)
            } else {
                Ok(None)
            };
        };
        let rest = self.0.split_off(end + END.len());
        let head = std::mem::take(&mut self.0);
        let head = String::from_utf8(head).map_err(|_| UpgradeError::Malformed)?;
        Ok(Some((head, rest)))
    }
}

/// The value of a header.
fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().skip(1).find_map(|line| {
        let (is, value) = line.split_once(':')?;
        is.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

fn has_word(value: Option<&str>, word: &str) -> bool {
    let mut words = value.unwrap_or_default().split(',');
    words.any(|is| is.trim().eq_ignore_ascii_case(word))
}

fn accept_key(key: &str) -> String {
    let mut sha1 = Sha1::new();
    sha1.update(key.as_bytes());
    sha1.update(GUID);
    base64::encode(&sha1.finalize())
}

/// A response, and the first bytes of frames.
pub type Upgraded = (Vec<u8>, Vec<u8>);

/// The server's side. Any path is accepted, as by stock.
#[derive(Debug, Default)]
pub struct ServerUpgrade(HttpHead);

impl ServerUpgrade {
    /// Bytes that are held.
    pub fn held(&self) -> usize {
        self.0.0.len()
    }

    /// Adds bytes; once the request is complete, the response, and the first bytes of frames.
    ///
    /// # Errors
    /// The client does not ask for WebSocket.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Option<Upgraded>, UpgradeError> {
        let Some((head, rest)) = self.0.push(bytes, b"GET /")? else {
            return Ok(None);
        };
        let asks = has_word(header(&head, "Upgrade"), "websocket")
            && has_word(header(&head, "Connection"), "upgrade")
            && header(&head, "Sec-WebSocket-Version") == Some("13");
        let key = header(&head, "Sec-WebSocket-Key").filter(|_| asks);
        let key = key.ok_or(UpgradeError::NoUpgrade)?;
        let response = format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Accept: {}\r\n\r\n",
            accept_key(key)
        );
        Ok(Some((response.into_bytes(), rest)))
    }
}

/// The client's side.
#[derive(Debug)]
pub struct ClientUpgrade {
    head: HttpHead,
    accept: String,
}

impl ClientUpgrade {
    /// Waits for the answer to a [`request`] with that key.
    pub fn new(nonce: [u8; 16]) -> ClientUpgrade {
        ClientUpgrade {
            head: HttpHead::default(),
            accept: accept_key(&base64::encode(&nonce)),
        }
    }

    /// Adds bytes; once the response is complete, the first bytes of frames.
    ///
    /// # Errors
    /// The server refuses.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Option<Vec<u8>>, UpgradeError> {
        let Some((head, rest)) = self.head.push(bytes, b"HTTP/1.1 ")? else {
            return Ok(None);
        };
        let accepted = head.starts_with("HTTP/1.1 101 ")
            && header(&head, "Sec-WebSocket-Accept") == Some(&self.accept);
        if accepted {
            Ok(Some(rest))
        } else {
            Err(UpgradeError::Refused)
        }
    }
}

/// A client's request for WebSocket; `host` with port, `nonce` random.
pub fn request(path: &str, host: &str, nonce: [u8; 16]) -> Vec<u8> {
    let key = base64::encode(&nonce);
    format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: {key}\r\n\r\n"
    )
    .into_bytes()
}
