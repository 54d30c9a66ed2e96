//! What a load balancer sends at the start of a connection to say whose it is: the header of the PROXY protocol,
//! version 2 (`proxy-protocol.txt` of HAProxy, section 2.2).

use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// Longest header, in bytes. Addresses of IPv6 need 52; the rest are fields about the connection, which are skipped.
/// Every TCP carries as much in one segment (RFC 9293, 3.7.1).
pub const MAX_HEADER: usize = 536;

const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// How version 1 begins, which is a line of text.
const VERSION_1: &[u8] = b"PROXY ";
/// Signature, version and command, family, length.
const FIXED: usize = 16;

/// Whose connection it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The balancer's own, such as a check of the server's health, or it does not know.
    Balancer,
    /// Somebody's who has connected from this address.
    Client(SocketAddr),
}

/// Why something is no header that we take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyError {
    /// It does not begin with the signature.
    NoHeader,
    /// It has version 1.
    Version1,
    /// It has another version, or a command that does not exist: the byte with both.
    Command(u8),
    /// It is not about TCP over IPv4 or IPv6: the byte with family and protocol.
    Family(u8),
    /// The addresses do not fit in this many bytes.
    Short(u16),
    /// With this many bytes after the first 16 it would be longer than [`MAX_HEADER`].
    Long(u16),
}

impl fmt::Display for ProxyError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            ProxyError::NoHeader => f.write_str("it sent no PROXY header"),
            ProxyError::Version1 => f.write_str("it sent a PROXY header of version 1"),
            ProxyError::Command(byte) => write!(
                f,
                "its PROXY header has an unknown version or command ({byte:#04x})"
            ),
            ProxyError::Family(byte) => {
                write!(f, "its PROXY header is not about TCP ({byte:#04x})")
            }
            ProxyError::Short(length) => write!(
                f,
                "its PROXY header has {length} bytes for addresses, which is too few"
            ),
            ProxyError::Long(length) => write!(
                f,
                "its PROXY header has more than {MAX_HEADER} bytes ({length} after the first {FIXED})"
            ),
        }
    }
}

impl std::error::Error for ProxyError {}

/// Decodes one header that arrives in pieces. The caller reads no more than is [`wanted`](HeaderDecoder::wanted), since
/// what follows is for somebody else.
#[derive(Clone, Debug, Default)]
pub struct HeaderDecoder {
    bytes: Vec<u8>,
}

impl HeaderDecoder {
    /// Most bytes that the next call of [`push`](HeaderDecoder::push) takes: 1 to [`MAX_HEADER`] until the header is
    /// complete.
    pub fn wanted(&self) -> usize {
        let end = FIXED + self.length().map_or(0, usize::from);
        end.saturating_sub(self.bytes.len())
    }

    /// Takes the next bytes, at most those wanted; `None` if the header is not complete yet.
    ///
    /// # Errors
    /// It is no header that we take. No more may be decoded.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Option<Origin>, ProxyError> {
        let taken = bytes.len().min(self.wanted());
        self.bytes.extend(bytes.get(..taken).unwrap_or_default());
        self.check_signature()?;
        let (Some(length), Some([.., command, family, _, _])) =
            (self.length(), self.bytes.first_chunk::<FIXED>())
        else {
            return Ok(None);
        };
        let needed = match (command, family) {
            // What stands in a header of the balancer's own connection does not matter.
            (0x20, _) | (0x21, 0x00) => 0,
            (0x21, 0x11) => 12,
            (0x21, 0x21) => 36,
            (0x21, family) => return Err(ProxyError::Family(*family)),
            (command, _) => return Err(ProxyError::Command(*command)),
        };
        if length < needed {
            return Err(ProxyError::Short(length));
        }
        if FIXED + usize::from(length) > MAX_HEADER {
            return Err(ProxyError::Long(length));
        }
        if self.wanted() > 0 {
            return Ok(None);
        }
        Ok(Some(match needed {
            12 => self.client::<4>(),
            36 => self.client::<16>(),
            _ => Origin::Balancer,
        }))
    }

    /// How many bytes follow the first 16, once that is known.
    fn length(&self) -> Option<u16> {
        let [.., high, low] = self.bytes.first_chunk::<FIXED>()?;
        Some(u16::from_be_bytes([*high, *low]))
    }

    fn check_signature(&self) -> Result<(), ProxyError> {
        let begins = |with: &[u8]| self.bytes.iter().zip(with).all(|(a, b)| a == b);
        if begins(SIGNATURE) {
            return Ok(());
        }
        match begins(VERSION_1) {
            true if self.bytes.len() >= VERSION_1.len() => Err(ProxyError::Version1),
            true => Ok(()),
            false => Err(ProxyError::NoHeader),
        }
    }

    /// The source of a complete header: its address has `N` bytes, as the one of the destination, and then the ports
    /// follow.
    fn client<const N: usize>(&self) -> Origin
    where
        IpAddr: From<[u8; N]>,
    {
        let addresses = self.bytes.get(FIXED..).unwrap_or_default();
        let port = addresses.get(2 * N..).and_then(<[u8]>::first_chunk);
        match (addresses.first_chunk::<N>(), port) {
            (Some(address), Some(port)) => Origin::Client(SocketAddr::new(
                IpAddr::from(*address),
                u16::from_be_bytes(*port),
            )),
            _ => Origin::Balancer,
        }
    }
}

/// The header of a connection from `source` to `destination`, with `fields` after the addresses. With addresses of two
/// families it says nothing about them. For tests and clients that act as a balancer.
pub fn header(source: SocketAddr, destination: SocketAddr, fields: &[u8]) -> Vec<u8> {
    let (family, addresses) = match (source.ip(), destination.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => (0x11, [from.octets(), to.octets()].concat()),
        (IpAddr::V6(from), IpAddr::V6(to)) => (0x21, [from.octets(), to.octets()].concat()),
        _ => return own_header(0x21),
    };
    let ports = [source.port(), destination.port()].map(u16::to_be_bytes);
    let length = addresses.len() + 4 + fields.len();
    let length = u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes();
    let start = [0x21, family, length[0], length[1]];
    [&SIGNATURE[..], &start, &addresses, &ports.concat(), fields].concat()
}

/// The header of a connection of the balancer itself (`LOCAL`).
pub fn local_header() -> Vec<u8> {
    own_header(0x20)
}

fn own_header(command: u8) -> Vec<u8> {
    [&SIGNATURE[..], &[command, 0, 0, 0]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    /// What comes of the pieces, and how many bytes were taken.
    fn decode<'a>(
        pieces: impl Iterator<Item = &'a [u8]>,
    ) -> (Result<Option<Origin>, ProxyError>, usize) {
        let (mut decoder, mut taken) = (HeaderDecoder::default(), 0);
        for mut piece in pieces {
            while !piece.is_empty() {
                let (now, later) = piece.split_at(decoder.wanted().min(piece.len()));
                assert!(!now.is_empty() && now.len() <= MAX_HEADER);
                taken += now.len();
                match decoder.push(now) {
                    Ok(None) => piece = later,
                    done => return (done, taken),
                }
            }
        }
        (Ok(None), taken)
    }

    fn whole(bytes: &[u8]) -> (Result<Option<Origin>, ProxyError>, usize) {
        decode([bytes].into_iter())
    }

    #[test]
    fn a_header_in_two_pieces_or_in_many_says_the_same() {
        let v4 = (address("192.0.2.7:40000"), address("10.0.0.1:4505"));
        let v6 = (address("[2001:db8::7]:40000"), address("[fd00::1]:4506"));
        let mapped = (address("[::ffff:192.0.2.7]:1"), address("[fd00::1]:4506"));
        let fields = [0x04; 100];
        for (bytes, origin) in [
            (header(v4.0, v4.1, &[]), Origin::Client(v4.0)),
            (header(v4.0, v4.1, &fields), Origin::Client(v4.0)),
            (header(v6.0, v6.1, &fields), Origin::Client(v6.0)),
            (header(v6.0, v6.1, &[0; 484]), Origin::Client(v6.0)),
            (header(mapped.0, mapped.1, &[]), Origin::Client(mapped.0)),
            (header(v4.0, v6.1, &[]), Origin::Balancer),
            (local_header(), Origin::Balancer),
        ] {
            let length = bytes.len();
            let followed = [&bytes[..], b"\xff\0what follows"].concat();
            for cut in 0..=followed.len() {
                let (first, second) = followed.split_at(cut);
                let decoded = decode([first, second].into_iter());
                assert_eq!(decoded, (Ok(Some(origin)), length), "{cut}");
            }
            assert_eq!(decode(followed.chunks(1)), (Ok(Some(origin)), length));
            for cut in 0..length {
                assert_eq!(whole(&bytes[..cut]), (Ok(None), cut));
            }
        }
    }

    #[test]
    fn a_header_of_the_balancer_may_have_addresses_and_fields() {
        let (from, to) = (address("192.0.2.7:40000"), address("10.0.0.1:4505"));
        let mut bytes = header(from, to, &[3, 0, 4, 1, 2, 3, 4]);
        let length = bytes.len();
        for (command, family) in [(0x20, 0x11), (0x20, 0x31), (0x20, 0xff), (0x21, 0x00)] {
            (bytes[12], bytes[13]) = (command, family);
            assert_eq!(whole(&bytes), (Ok(Some(Origin::Balancer)), length));
        }
    }

    #[test]
    fn anything_else_is_refused_as_soon_as_it_is_known() {
        let (from, to) = (address("192.0.2.7:40000"), address("10.0.0.1:4505"));
        let bytes = header(from, to, &[]);
        let changed = |at: usize, byte: u8| {
            let mut bytes = bytes.clone();
            bytes[at] = byte;
            bytes
        };
        for (bytes, error) in [
            (changed(0, b'\n'), ProxyError::NoHeader),
            (changed(11, b'\r'), ProxyError::NoHeader),
            (changed(12, 0x11), ProxyError::Command(0x11)),
            (changed(12, 0x22), ProxyError::Command(0x22)),
            (changed(12, 0x31), ProxyError::Command(0x31)),
            (changed(13, 0x12), ProxyError::Family(0x12)),
            (changed(13, 0x31), ProxyError::Family(0x31)),
            (changed(15, 11), ProxyError::Short(11)),
            (changed(13, 0x21), ProxyError::Short(12)),
            (changed(14, 0xff), ProxyError::Long(0xff0c)),
            (header(from, to, &[0; 509]), ProxyError::Long(521)),
            (b"PROXY TCP4 192.0.2.7".to_vec(), ProxyError::Version1),
            (b"PUT / HTTP/1.1\r\n".to_vec(), ProxyError::NoHeader),
            (b"\xff\0\0\0\0\0\0\0\x01\x7f".to_vec(), ProxyError::NoHeader),
            (b"\x16\x03\x01".to_vec(), ProxyError::NoHeader),
        ] {
            let (refused, taken) = whole(&bytes);
            assert_eq!(refused, Err(error), "{bytes:?}");
            assert!(taken <= FIXED);
            assert_eq!(decode(bytes.chunks(1)).0, Err(error));
        }
        assert_eq!(decode(b"PROXY ".chunks(1)), (Err(ProxyError::Version1), 6));
        assert_eq!(decode(b"PROX".chunks(1)).0, Ok(None));
    }
}
