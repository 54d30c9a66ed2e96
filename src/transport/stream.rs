//! Connections to brokers, with or without TLS.

use crate::openssl_error::{tls_reason, unusable_file};
use nix::sys::socket::{setsockopt, sockopt};
use openssl::ssl::{HandshakeError, SslConnector, SslFiletype, SslMethod, SslStream};
use openssl::x509::X509VerifyResult;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Timeout of reads and writes while connecting and logging in.
pub const CONNECTING: Duration = Duration::from_secs(10);

/// Files for TLS; a path is empty if there is none.
pub struct Security {
    /// The only CA to trust; the system's CAs if empty.
    pub ca: PathBuf,
    /// Our certificate (PEM, with the intermediates), for servers that request one.
    pub certificate: PathBuf,
    /// Its key (PEM).
    pub key: PathBuf,
}

/// A connection.
pub enum Stream {
    /// Without TLS.
    Plain(TcpStream),
    /// With TLS.
    Tls(Box<SslStream<TcpStream>>),
}

impl Stream {
    /// Connects to `host:port`, `[v6]:port` or `host`, with or without `scheme://`, and negotiates TLS if requested. Reads
    /// and writes block for [`CONNECTING`] at most.
    ///
    /// # Errors
    /// The server cannot be reached or is not trusted, or a file cannot be used: which and why.
    pub fn connect(
        server: &str,
        usual_port: u16,
        security: Option<&Security>,
    ) -> io::Result<Stream> {
        let (host, port) = split(server, usual_port)?;
        let connector = security.map(Security::connector).transpose()?;
        let tcp = reach(host, port)?;
        tcp.set_nodelay(true)?;
        tcp.set_read_timeout(Some(CONNECTING))?;
        tcp.set_write_timeout(Some(CONNECTING))?;
        // Not every peer supports heartbeats.
        setsockopt(&tcp, sockopt::KeepAlive, &true)?;
        match connector {
            None => Ok(Stream::Plain(tcp)),
            Some(connector) => match connector.connect(host, tcp) {
                Ok(tls) => Ok(Stream::Tls(Box::new(tls))),
                Err(e) => Err(untrusted(e)),
            },
        }
    }

    /// The socket.
    pub(crate) fn tcp(&self) -> &TcpStream {
        match self {
            Stream::Plain(tcp) => tcp,
            Stream::Tls(tls) => tls.get_ref(),
        }
    }

    /// Makes reads and writes non-blocking.
    pub fn set_nonblocking(&self) -> io::Result<()> {
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
///
/// # Errors
/// There is no host, or the port is invalid.
pub fn split(server: &str, usual_port: u16) -> io::Result<(&str, u16)> {
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
            let words = format!("{server:?} has no port between 1 and 65535; specify host:port");
            io::Error::new(io::ErrorKind::InvalidInput, words)
        })?,
        None => usual_port,
    };
    Ok((host, port))
}

/// The addresses of a host; the IPv4 ones first, unless those of IPv6 are as good.
///
/// # Errors
/// The name cannot be resolved.
pub fn resolve(host: &str, port: u16, ipv6: bool) -> io::Result<Vec<SocketAddr>> {
    let mut addresses: Vec<SocketAddr> = (host, port).to_socket_addrs()?.collect();
    if !ipv6 {
        addresses.sort_by_key(SocketAddr::is_ipv6);
    }
    Ok(addresses)
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

/// Why the TLS handshake failed.
fn untrusted(error: HandshakeError<TcpStream>) -> io::Error {
    let HandshakeError::Failure(failed) = &error else {
        return io::Error::other(error);
    };
    match failed.ssl().verify_result() {
        X509VerifyResult::OK => shorten_error(io::Error::other(error)),
        why => {
            let why = why.error_string();
            io::Error::other(format!("its certificate is not trusted: {why}"))
        }
    }
}

/// Shortens an OpenSSL error to its reason, without source locations; other errors are unchanged.
pub fn shorten_error(error: io::Error) -> io::Error {
    let inner = error.get_ref();
    let ssl = inner.and_then(|e| match e.downcast_ref::<HandshakeError<TcpStream>>() {
        Some(HandshakeError::Failure(failed)) => Some(failed.error()),
        _ => e.downcast_ref::<openssl::ssl::Error>(),
    });
    match ssl.and_then(tls_reason) {
        Some(reason) => io::Error::other(reason),
        None => error,
    }
}

impl Security {
    /// The TLS configuration from the files.
    ///
    /// # Errors
    /// A file cannot be used: which and why.
    pub fn connector(&self) -> io::Result<SslConnector> {
        let told = |path: &Path, e: openssl::error::ErrorStack| unusable_file(path, &e);
        let mut builder = SslConnector::builder(SslMethod::tls_client())?;
        let ca = self.ca.as_path();
        if !ca.as_os_str().is_empty() {
            // With a configured CA, no other is trusted.
            let store = openssl::x509::store::X509StoreBuilder::new()?;
            builder.set_cert_store(store.build());
            builder.set_ca_file(ca).map_err(|e| told(ca, e))?;
        }
        let (certificate, key) = (self.certificate.as_path(), self.key.as_path());
        if !certificate.as_os_str().is_empty() {
            let set = builder.set_certificate_chain_file(certificate);
            set.map_err(|e| told(certificate, e))?;
            let set = builder.set_private_key_file(key, SslFiletype::PEM);
            set.map_err(|e| told(key, e))?;
            builder.check_private_key().map_err(|e| told(key, e))?;
        }
        Ok(builder.build())
    }
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
            assert_eq!(split(text, 61613).unwrap(), (host, port), "{text}");
        }
        assert!(
            split("a:b", 1)
                .unwrap_err()
                .to_string()
                .contains("host:port")
        );
        assert!(split("a:70000", 1).is_err());
    }
}
