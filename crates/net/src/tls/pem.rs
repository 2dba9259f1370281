//! Certificates and keys in PEM files.

use std::fs;
use std::path::{Path, PathBuf};

use tokio_rustls::rustls;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::sign::CertifiedKey;

use super::{TlsError, provider};

const CERTIFICATE: &str = "TLS certificate";
const KEY: &str = "TLS key";

/// A certificate with its key.
#[derive(Debug)]
pub(super) struct Identity {
    /// The server's certificate first, then its chain up to the CA.
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
    /// The file name, for messages.
    pub(super) certificate_file: PathBuf,
}

impl Identity {
    /// Reads a chain and its key from two files, or both from one.
    ///
    /// # Errors
    /// A file that can't be read, lacks a certificate or key, or does not match the other.
    pub(super) fn read(certificate_file: &Path, key_file: &Path) -> Result<Self, TlsError> {
        let chain = certificates(CERTIFICATE, certificate_file)?;
        let key = key(key_file)?;
        let refused = |what, file: &Path, error: rustls::Error| {
            Err(TlsError::content(what, file, format!("can't be used: {error}")))
        };
        match CertifiedKey::from_der(chain.clone(), key.clone_key(), &provider()) {
            Ok(_) => Ok(Self { chain, key, certificate_file: certificate_file.to_owned() }),
            Err(rustls::Error::InconsistentKeys(_)) => {
                let reason = format!("is not the key of the certificate {}", certificate_file.display());
                Err(TlsError::content(KEY, key_file, reason))
            }
            Err(error @ rustls::Error::InvalidCertificate(_)) => {
                refused(CERTIFICATE, certificate_file, error)
            }
            Err(error) => refused(KEY, key_file, error),
        }
    }
}

/// All certificates of a file, at least one.
pub(super) fn certificates(
    what: &'static str,
    file: &Path,
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = fs::read(file).map_err(|error| TlsError::file(what, file, error))?;
    let list: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(&text).collect();
    let list = list.map_err(|error| TlsError::content(what, file, format!("is damaged: {error}")))?;
    if list.is_empty() {
        let reason = "holds no certificate; it must be PEM, with a line \"-----BEGIN CERTIFICATE-----\"";
        return Err(TlsError::content(what, file, reason));
    }
    Ok(list)
}

/// The first private key of a file.
pub(super) fn key(file: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let text = fs::read(file).map_err(|error| TlsError::file(KEY, file, error))?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| match error {
        pem::Error::NoItemsFound if text.windows(9).any(|word| word == b"ENCRYPTED") => {
            let reason =
                "holds an encrypted key; decrypt it, for example by `openssl pkey -in FILE -out KEY`";
            TlsError::content(KEY, file, reason)
        }
        pem::Error::NoItemsFound => {
            let reason = "holds no private key; it must be PEM, with a line \"-----BEGIN PRIVATE KEY-----\"";
            TlsError::content(KEY, file, reason)
        }
        error => TlsError::content(KEY, file, format!("is damaged: {error}")),
    })
}
