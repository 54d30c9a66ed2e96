//! Which protocol carries the messages between minions and masters.

use std::fmt;

/// A transport, as the option `transport` names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Transport {
    /// ZeroMQ ([`zmtp`](crate::zmtp)).
    #[default]
    ZeroMq,
    /// Salt's frames on TCP ([`tcp`](crate::tcp)).
    Tcp,
    /// WebSocket ([`ws`](crate::ws)).
    Ws,
}

impl Transport {
    /// All of them.
    pub const ALL: [Transport; 3] = [Transport::ZeroMq, Transport::Tcp, Transport::Ws];

    /// The name in options.
    pub fn name(self) -> &'static str {
        match self {
            Transport::ZeroMq => "zeromq",
            Transport::Tcp => "tcp",
            Transport::Ws => "ws",
        }
    }

    /// The transport of that name.
    pub fn of_name(name: &str) -> Option<Transport> {
        Transport::ALL.into_iter().find(|t| t.name() == name)
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a stream looks like by its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spoken {
    /// A greeting of ZMTP.
    ZeroMq,
    /// A frame of Salt's TCP transport.
    Tcp,
    /// A TLS record.
    Tls,
    /// HTTP, which WebSocket starts with.
    Http,
    /// Nothing known.
    Unknown,
}

impl Spoken {
    /// Guesses from the first byte.
    pub fn of(first: u8) -> Spoken {
        match first {
            0xff => Spoken::ZeroMq,
            0x80..=0x8f | 0xde | 0xdf => Spoken::Tcp,
            0x16 => Spoken::Tls,
            b'A'..=b'Z' => Spoken::Http,
            _ => Spoken::Unknown,
        }
    }

    /// Why a peer that speaks this is refused by one of `transport`.
    pub fn refusal(self, transport: Transport) -> &'static str {
        match (self, transport) {
            (Spoken::ZeroMq, _) => {
                "it speaks `transport: zeromq`, this end does not; both must have the same `transport`"
            }
            (Spoken::Tcp, _) => {
                "it speaks `transport: tcp`, this end does not; both must have the same `transport`"
            }
            (Spoken::Http, _) => {
                "it speaks HTTP or `transport: ws`, this end does not; both must have the same `transport`"
            }
            (Spoken::Tls, _) => {
                "it speaks TLS, this end does not; both must have `ssl`, or neither"
            }
            (Spoken::Unknown, Transport::ZeroMq) => "it does not speak ZMTP 3",
            (Spoken::Unknown, Transport::Tcp) => "it does not speak `transport: tcp`",
            (Spoken::Unknown, Transport::Ws) => "it does not speak HTTP",
        }
    }
}
