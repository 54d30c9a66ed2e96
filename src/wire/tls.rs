//! How TLS is set up, as the option `ssl` says it. Only data; the crate `transport` builds contexts from it.

use std::path::PathBuf;

/// The option `ssl` of a master or minion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsOptions {
    /// Our certificate (PEM, with the intermediates).
    pub certfile: Option<PathBuf>,
    /// Its key (PEM).
    pub keyfile: Option<PathBuf>,
    /// Whose certificates to trust; if empty, those that the system trusts.
    pub authorities: Vec<Authority>,
    /// Which certificate the peer must have; not set: a server requires one if it has authorities, a client always.
    pub verify: Option<VerifyPeer>,
    /// The only version, 1.2 or 1.3; not set: either.
    pub version: Option<TlsVersion>,
    /// OpenSSL's list of ciphers for version 1.2.
    pub ciphers: Option<String>,
    /// Further checks of the peer's certificate.
    pub flags: Vec<VerifyFlag>,
}

impl TlsOptions {
    /// The files that it names, except those in directories.
    pub fn files(&self) -> Vec<PathBuf> {
        let authorities = self.authorities.iter().filter_map(|a| match a {
            Authority::File(path) | Authority::Directory(path) => Some(path),
            Authority::Text(_) => None,
        });
        let own = self.certfile.iter().chain(&self.keyfile);
        own.chain(authorities).cloned().collect()
    }
}

/// Certificates to trust.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authority {
    /// A PEM file.
    File(PathBuf),
    /// A directory as of `openssl rehash`.
    Directory(PathBuf),
    /// PEM.
    Text(String),
}

/// Which certificate a peer must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerifyPeer {
    /// Any or none; of a server, any.
    None,
    /// A trusted one, if it has one.
    Optional,
    /// A trusted one.
    Required,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    /// 1.2
    V1_2,
    /// 1.3
    V1_3,
}

/// A check of certificates, by its name in Python.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerifyFlag {
    /// `VERIFY_CRL_CHECK_LEAF`
    CrlCheckLeaf,
    /// `VERIFY_CRL_CHECK_CHAIN`
    CrlCheckChain,
    /// `VERIFY_X509_STRICT`
    Strict,
    /// `VERIFY_X509_TRUSTED_FIRST`
    TrustedFirst,
    /// `VERIFY_ALLOW_PROXY_CERTS`
    AllowProxyCerts,
    /// `VERIFY_X509_PARTIAL_CHAIN`
    PartialChain,
}
