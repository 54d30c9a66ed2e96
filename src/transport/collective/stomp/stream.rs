//! Sockets to brokers, in the clear or in TLS.

use crate::config::CollectiveGateway;
use nix::sys::socket::{setsockopt, sockopt};
use openssl::ssl::{SslConnector, SslFiletype, SslMethod, SslStream};
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::Duration;

/// How long a server may take to let us in.
pub(super) const CONNECTING: Duration = Duration::from_secs(10);
/// The port of STOMP.
const PORT: u16 = 61613;

/// A socket.
pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<SslStream<TcpStream>>),
}

impl Stream {
    /// Connects and, where it is asked for, agrees on TLS. Reads and writes wait for [`CONNECTING`] at most.
    pub(super) fn connect(server: &str, settings: &CollectiveGateway) -> io::Result<Stream> {
        let (host, port) = split(server)?;
        let tcp = reach(host, port)?;
        tcp.set_nodelay(true)?;
        tcp.set_read_timeout(Some(CONNECTING))?;
        tcp.set_write_timeout(Some(CONNECTING))?;
        // Heart-beats are not everybody's.
        setsockopt(&tcp, sockopt::KeepAlive, &true)?;
        if !settings.tls {
            return Ok(Stream::Plain(tcp));
        }
        let connector = connector(settings)?;
        let stream = connector.connect(host, tcp).map_err(io::Error::other)?;
        Ok(Stream::Tls(Box::new(stream)))
    }

    fn tcp(&self) -> &TcpStream {
        match self {
            Stream::Plain(tcp) => tcp,
            Stream::Tls(tls) => tls.get_ref(),
        }
    }

    /// From now on, reads and writes do not wait.
    pub(super) fn set_nonblocking(&self) -> io::Result<()> {
        self.tcp().set_nonblocking(true)
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tcp().as_fd()
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(tcp) => tcp.read(into),
            Stream::Tls(tls) => tls.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(tcp) => tcp.write(from),
            Stream::Tls(tls) => tls.write(from),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(tcp) => tcp.flush(),
            Stream::Tls(tls) => tls.flush(),
        }
    }
}

/// Host and port of `host:port`, `[v6]:port`, `host`, or the same as `stomp://...`.
fn split(server: &str) -> io::Result<(&str, u16)> {
    let bare = server.split_once("://").map_or(server, |(_, rest)| rest);
    let (host, port) = match bare.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (bare, None),
    };
    let host = host
        .strip_prefix('[')
        .and_then(|h| h.strip_suffix(']'))
        .unwrap_or(host);
    let port = match port {
        Some(text) => text.parse().map_err(|_| {
            let words = format!("{server:?} has no port between 1 and 65535; give host:port");
            io::Error::new(io::ErrorKind::InvalidInput, words)
        })?,
        None => PORT,
    };
    Ok((host, port))
}

fn reach(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECTING) {
            Ok(tcp) => return Ok(tcp),
            Err(e) => last = e,
        }
    }
    Err(last)
}

fn connector(settings: &CollectiveGateway) -> io::Result<SslConnector> {
    let told = |path: &Path, e: openssl::error::ErrorStack| {
        io::Error::other(format!("{} cannot be used: {e}", path.display()))
    };
    let mut builder = SslConnector::builder(SslMethod::tls_client())?;
    let ca = settings.tls_ca.as_path();
    if !ca.as_os_str().is_empty() {
        // Whoever names a CA trusts no other.
        let store = openssl::x509::store::X509StoreBuilder::new()?;
        builder.set_cert_store(store.build());
        builder.set_ca_file(ca).map_err(|e| told(ca, e))?;
    }
    let (certificate, key) = (settings.tls_cert.as_path(), settings.tls_key.as_path());
    if !certificate.as_os_str().is_empty() {
        let set = builder.set_certificate_chain_file(certificate);
        set.map_err(|e| told(certificate, e))?;
        let set = builder.set_private_key_file(key, SslFiletype::PEM);
        set.map_err(|e| told(key, e))?;
        builder.check_private_key().map_err(|e| told(key, e))?;
    }
    Ok(builder.build())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_hosts_with_ports() {
        for (text, host, port) in [
            ("localhost:61614", "localhost", 61614),
            ("localhost", "localhost", 61613),
            ("[::1]:5", "::1", 5),
            ("[::1]", "::1", 61613),
            ("stomp://a.b:7", "a.b", 7),
        ] {
            assert_eq!(split(text).unwrap(), (host, port), "{text}");
        }
        assert!(split("a:b").unwrap_err().to_string().contains("host:port"));
        assert!(split("a:70000").is_err());
    }
}
