//! TLS of the ports for minions and of their clients: contexts from the option `ssl`, the names of certificates, and handshakes
//! that hold up nobody else.
//!
//! By the system's OpenSSL: Salt's options name its ciphers and flags, and the crate that brings it is needed anyway.

mod handshakes;

pub(crate) use handshakes::{Accepted, Handshakes};

use crate::openssl_error::{tls_reason, unreadable_file, unusable, unusable_file};
use halite_wire::tls::{Authority, TlsOptions, TlsVersion, VerifyFlag, VerifyPeer};
use openssl::ssl::{
    ErrorCode, Ssl, SslContext, SslContextBuilder, SslFiletype, SslMethod, SslMode, SslOptions,
    SslRef, SslSessionCacheMode, SslStream, SslVerifyMode, SslVersion,
};
use openssl::x509::store::{HashDir, X509Lookup, X509StoreBuilder};
use openssl::x509::verify::{X509CheckFlags, X509VerifyFlags};
use openssl::x509::{X509, X509VerifyResult};
use std::io;
use std::net::{IpAddr, TcpStream};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// Frees the buffers of a connection while it is idle (`SSL_MODE_RELEASE_BUFFERS`), which are 34 KiB.
const RELEASE_BUFFERS: SslMode = SslMode::from_bits_retain(0x10);

/// What is known of a file: when it was changed, its size and its inode.
type FileStamp = Option<(SystemTime, u64, u64)>;

/// The server's side. Clones of the context are for new connections; a change of a file gives another one.
pub struct ServerTls {
    options: TlsOptions,
    held: Mutex<Held>,
}

struct Held {
    context: SslContext,
    stamps: Vec<FileStamp>,
}

impl ServerTls {
    /// Reads the files.
    ///
    /// # Errors
    /// One cannot be used: which and why.
    pub fn new(options: &TlsOptions) -> io::Result<ServerTls> {
        let stamps = stamps(options);
        let context = server_context(options)?;
        Ok(ServerTls {
            options: options.clone(),
            held: Mutex::new(Held { context, stamps }),
        })
    }

    /// The present context.
    pub(crate) fn context(&self) -> SslContext {
        self.held().context.clone()
    }

    /// Reads the files again if they have changed. While they cannot be used, the earlier ones remain in use.
    pub(crate) fn refresh(&self) {
        let now = stamps(&self.options);
        if self.held().stamps == now {
            return;
        }
        let context = server_context(&self.options);
        let mut held = self.held();
        held.stamps = now;
        match context {
            Ok(context) => {
                held.context = context;
                log::info!("the files of the option ssl have changed and are in use");
            }
            Err(e) => log::error!(
                "the files of the option ssl have changed, but {e}; the earlier ones remain in use"
            ),
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whom a client trusts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Whoever has a certificate for this host, by the authorities in the options.
    Host,
    /// The program with this certificate: on the master's own host its file is at hand, and the name need not be in it.
    Certificate(PathBuf),
}

/// The client's side. It reads the files for each connection, so a change of them applies to the next.
#[derive(Clone, Debug)]
pub struct ClientTls {
    /// The option `ssl`.
    pub options: TlsOptions,
    /// Whom to trust.
    pub trust: Trust,
}

impl ClientTls {
    /// Whether the files can be used now.
    ///
    /// # Errors
    /// One cannot: which and why.
    pub fn check(&self) -> io::Result<()> {
        self.open("localhost").map(drop)
    }

    /// TLS for one connection to `host`, a name or an address.
    ///
    /// # Errors
    /// A file cannot be used: which and why.
    pub(crate) fn open(&self, host: &str) -> io::Result<Ssl> {
        let options = &self.options;
        let mut builder = base(options, SslMethod::tls_client())?;
        let verify = options.verify.unwrap_or(VerifyPeer::Required);
        builder.set_verify(match verify {
            VerifyPeer::None => SslVerifyMode::NONE,
            VerifyPeer::Optional | VerifyPeer::Required => SslVerifyMode::PEER,
        });
        match &self.trust {
            Trust::Certificate(file) => {
                let authorities = [Authority::File(file.clone())];
                trust(&mut builder, &authorities, &[])?;
                let param = builder.verify_param_mut();
                param.set_flags(X509VerifyFlags::PARTIAL_CHAIN)?;
            }
            Trust::Host if options.authorities.is_empty() => builder.set_default_verify_paths()?,
            Trust::Host => trust(&mut builder, &options.authorities, &options.flags)?,
        }
        let mut ssl = Ssl::new(&builder.build())?;
        let address = host.parse::<IpAddr>();
        if address.is_err() {
            ssl.set_hostname(host)?;
        }
        if self.trust == Trust::Host && verify != VerifyPeer::None {
            let param = ssl.param_mut();
            match address {
                Ok(address) => param.set_ip(address)?,
                Err(_) => {
                    param.set_hostflags(X509CheckFlags::NO_PARTIAL_WILDCARDS);
                    param.set_host(host)?;
                }
            }
        }
        Ok(ssl)
    }
}

fn server_context(options: &TlsOptions) -> io::Result<SslContext> {
    let mut builder = base(options, SslMethod::tls_server())?;
    let verify = options.verify.unwrap_or(if options.authorities.is_empty() {
        VerifyPeer::None
    } else {
        VerifyPeer::Required
    });
    if verify != VerifyPeer::None {
        if options.authorities.is_empty() {
            builder.set_default_verify_paths()?;
        } else {
            trust(&mut builder, &options.authorities, &options.flags)?;
        }
        // The names of the authorities are not sent: a list of the system's would be long.
        builder.set_verify(match verify {
            VerifyPeer::Required => SslVerifyMode::PEER | SslVerifyMode::FAIL_IF_NO_PEER_CERT,
            VerifyPeer::None | VerifyPeer::Optional => SslVerifyMode::PEER,
        });
    }
    // Connections live long; a session that is resumed would keep a certificate that was replaced or revoked.
    builder.set_session_cache_mode(SslSessionCacheMode::OFF);
    builder.set_options(SslOptions::NO_TICKET);
    builder.set_num_tickets(0)?;
    Ok(builder.build())
}

/// What both sides have.
fn base(options: &TlsOptions, method: SslMethod) -> io::Result<SslContextBuilder> {
    let mut builder = SslContextBuilder::new(method)?;
    let (min, max) = match options.version {
        None => (SslVersion::TLS1_2, None),
        Some(TlsVersion::V1_2) => (SslVersion::TLS1_2, Some(SslVersion::TLS1_2)),
        Some(TlsVersion::V1_3) => (SslVersion::TLS1_3, Some(SslVersion::TLS1_3)),
    };
    builder.set_min_proto_version(Some(min))?;
    builder.set_max_proto_version(max)?;
    builder.set_options(SslOptions::NO_RENEGOTIATION | SslOptions::NO_COMPRESSION);
    builder.set_mode(
        SslMode::ACCEPT_MOVING_WRITE_BUFFER | SslMode::ENABLE_PARTIAL_WRITE | RELEASE_BUFFERS,
    );
    if let Some(ciphers) = &options.ciphers {
        builder
            .set_cipher_list(ciphers)
            .map_err(|e| unusable(&format!("the list of ciphers {ciphers:?}"), &e))?;
    }
    let flags = options.flags.iter().map(|flag| match flag {
        VerifyFlag::CrlCheckLeaf => X509VerifyFlags::CRL_CHECK,
        VerifyFlag::CrlCheckChain => X509VerifyFlags::CRL_CHECK | X509VerifyFlags::CRL_CHECK_ALL,
        VerifyFlag::Strict => X509VerifyFlags::X509_STRICT,
        VerifyFlag::TrustedFirst => X509VerifyFlags::TRUSTED_FIRST,
        VerifyFlag::AllowProxyCerts => X509VerifyFlags::ALLOW_PROXY_CERTS,
        VerifyFlag::PartialChain => X509VerifyFlags::PARTIAL_CHAIN,
    });
    for flag in flags {
        builder.verify_param_mut().set_flags(flag)?;
    }
    if let (Some(certificate), Some(key)) = (&options.certfile, &options.keyfile) {
        builder
            .set_certificate_chain_file(certificate)
            .map_err(|e| file_error("certfile", &unusable_file(certificate, &e)))?;
        builder
            .set_private_key_file(key, SslFiletype::PEM)
            .map_err(|e| file_error("keyfile", &unusable_file(key, &e)))?;
        builder
            .check_private_key()
            .map_err(|e| file_error("keyfile", &unusable_file(key, &e)))?;
    }
    Ok(builder)
}

/// The error with what the file is for.
fn file_error(what: &str, e: &io::Error) -> io::Error {
    io::Error::other(format!("{what}: {e}"))
}

/// Trusts these authorities and no others.
fn trust(
    builder: &mut SslContextBuilder,
    authorities: &[Authority],
    flags: &[VerifyFlag],
) -> io::Result<()> {
    let of_crls =
        |flag: &VerifyFlag| matches!(flag, VerifyFlag::CrlCheckLeaf | VerifyFlag::CrlCheckChain);
    let crls = flags.iter().any(of_crls);
    let mut store = X509StoreBuilder::new()?;
    for authority in authorities {
        match authority {
            Authority::File(file) => {
                let what = "CA certificates";
                let told = |e| file_error(what, &unusable_file(file, &e));
                let text = std::fs::read(file)
                    .map_err(|e| file_error(what, &unreadable_file(file, &e)))?;
                for one in X509::stack_from_pem(&text).map_err(told)? {
                    store.add_cert(one)?;
                }
                if crls {
                    let lookup = store.add_lookup(X509Lookup::file())?;
                    lookup.load_crl_file(file, SslFiletype::PEM).map_err(told)?;
                }
            }
            Authority::Directory(directory) => {
                let name = directory.to_string_lossy();
                let lookup: &mut openssl::x509::store::X509LookupRef<HashDir> =
                    store.add_lookup(X509Lookup::hash_dir())?;
                lookup
                    .add_dir(&name, SslFiletype::PEM)
                    .map_err(|e| file_error("CA certificates", &unusable_file(directory, &e)))?;
            }
            Authority::Text(text) => {
                let all = X509::stack_from_pem(text.as_bytes())
                    .map_err(|e| unusable("the certificates in cadata", &e))?;
                for one in all {
                    store.add_cert(one)?;
                }
            }
        }
    }
    builder.set_cert_store(store.build());
    Ok(())
}

/// Takes a client's handshake on; `Ok(None)` when it is complete, else whether it waits to write.
///
/// # Errors
/// Why the server is not trusted, or no server of TLS.
pub(crate) fn advance(stream: &mut SslStream<TcpStream>) -> io::Result<Option<bool>> {
    let Err(e) = stream.connect() else {
        return Ok(None);
    };
    match e.code() {
        ErrorCode::WANT_READ => return Ok(Some(false)),
        ErrorCode::WANT_WRITE => return Ok(Some(true)),
        _ => {}
    }
    let kind = if e.ssl_error().is_none() {
        io::ErrorKind::UnexpectedEof
    } else {
        io::ErrorKind::InvalidData
    };
    Err(io::Error::new(kind, handshake_failure(stream.ssl(), &e)))
}

/// Why a handshake has failed, on either side.
pub(crate) fn handshake_failure(ssl: &SslRef, error: &openssl::ssl::Error) -> String {
    match ssl.verify_result() {
        X509VerifyResult::OK if error.ssl_error().is_none() => {
            "it hung up in the TLS handshake; does the option `ssl` differ there?".to_owned()
        }
        X509VerifyResult::OK => tls_reason(error).unwrap_or_else(|| error.to_string()),
        why => format!("its certificate is not trusted: {}", why.error_string()),
    }
}

/// An error of reading or writing: what the peer refuses with TLS 1.3 is known only after the handshake.
pub(crate) fn refusal(error: io::Error) -> io::Error {
    let of_tls = error.get_ref().and_then(|e| e.downcast_ref());
    match of_tls.and_then(tls_reason) {
        Some(why) => io::Error::new(io::ErrorKind::InvalidData, why),
        None => error,
    }
}

fn stamps(options: &TlsOptions) -> Vec<FileStamp> {
    use std::os::unix::fs::MetadataExt;
    let stamp = |path: &PathBuf| {
        let meta = std::fs::metadata(path).ok()?;
        Some((meta.modified().ok()?, meta.len(), meta.ino()))
    };
    options.files().iter().map(stamp).collect()
}
