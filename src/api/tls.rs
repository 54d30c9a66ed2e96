//! The certificate of the service; changed files are read again.

use halite_config::ApiTls;
use halite_sys::exit::ExitError;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Accepts TLS 1.2 and 1.3 with the present certificate.
pub(super) struct Certificate {
    files: ApiTls,
    present: Mutex<(Versions, TlsAcceptor)>,
}

/// When each file was changed last.
type Versions = Vec<Option<SystemTime>>;

impl Certificate {
    /// # Errors
    /// The files cannot be read, or do not belong together.
    pub fn load(files: &ApiTls) -> Result<Certificate, ExitError> {
        let present = (versions(files), acceptor(files)?);
        Ok(Certificate {
            files: files.clone(),
            present: Mutex::new(present),
        })
    }

    /// For a new connection.
    pub fn acceptor(&self) -> TlsAcceptor {
        let present = self.present.lock();
        present.unwrap_or_else(PoisonError::into_inner).1.clone()
    }

    /// Reads the files again if they have changed. What cannot be used leaves the present certificate in force.
    pub fn refresh(&self) {
        let found = versions(&self.files);
        let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        if present.0 == found {
            return;
        }
        present.0 = found;
        match acceptor(&self.files) {
            Ok(acceptor) => {
                present.1 = acceptor;
                log::info!("api: {} was read again", self.files.certificate.display());
            }
            Err(e) => log::error!("api: {e}; the certificate of before stays in force"),
        }
    }
}

fn versions(files: &ApiTls) -> Versions {
    let all = [
        Some(&files.certificate),
        files.chain.as_ref(),
        Some(&files.key),
    ];
    let all = all.into_iter().flatten();
    all.map(|path| path.metadata().ok()?.modified().ok())
        .collect()
}

fn acceptor(files: &ApiTls) -> Result<TlsAcceptor, ExitError> {
    let error = |path: &Path, e: &dyn std::fmt::Display| {
        ExitError::new(1, format!("{}: {e}", path.display()))
    };
    let mut chain = Vec::new();
    for path in [Some(&files.certificate), files.chain.as_ref()]
        .into_iter()
        .flatten()
    {
        let read = CertificateDer::pem_file_iter(path).map_err(|e| error(path, &e))?;
        for one in read {
            chain.push(one.map_err(|e| error(path, &e))?);
        }
    }
    if chain.is_empty() {
        return Err(error(&files.certificate, &"there is no certificate in it"));
    }
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|e| error(&files.key, &e))?;
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| error(&files.certificate, &e))?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|e| error(&files.certificate, &e))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
