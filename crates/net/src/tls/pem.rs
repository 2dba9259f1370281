//! Certificates and keys in PEM files.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tokio_rustls::rustls;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::sign::CertifiedKey;

use super::{TlsError, certificate_fields, provider};

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
                let reason =
                    format!("is not the key of the first certificate in {}", certificate_file.display());
                Err(TlsError::content(KEY, key_file, reason))
            }
            Err(error @ rustls::Error::InvalidCertificate(_)) => {
                refused(CERTIFICATE, certificate_file, error)
            }
            Err(error) => refused(KEY, key_file, error),
        }
    }

    /// Why clients that verify the certificate refuse it at this time.
    pub(super) fn refused_at(&self, now: SystemTime) -> Option<&'static str> {
        let own = self.chain.first()?;
        let (begin, end) = (certificate_fields::begin(own)?, certificate_fields::end(own)?);
        match (begin > now, end < now) {
            (true, _) => Some("it is not valid yet"),
            (_, true) => Some("it has expired"),
            _ => None,
        }
    }
}

/// The text of a parser's error; its own text has lines of the file as lists of numbers.
fn damage(error: pem::Error) -> String {
    match error {
        pem::Error::MissingSectionEnd { end_marker } => {
            format!("is damaged: it has no line \"-----END {}-----\"", String::from_utf8_lossy(&end_marker))
        }
        pem::Error::IllegalSectionStart { .. } => {
            "is damaged: a line \"-----BEGIN ...-----\" is incomplete".to_owned()
        }
        error => format!("is damaged: {error}"),
    }
}

/// All certificates of a file, at least one.
pub(super) fn certificates(
    what: &'static str,
    file: &Path,
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = fs::read(file).map_err(|error| TlsError::file(what, file, error))?;
    let list: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(&text).collect();
    let list = list.map_err(|error| TlsError::content(what, file, damage(error)))?;
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
        error => TlsError::content(KEY, file, damage(error)),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tempfile::TempDir;

    use super::super::local::Local;
    use super::*;

    #[test]
    fn a_certificate_is_checked_against_the_time() {
        let home = TempDir::new().unwrap();
        let identity = Local::new(home.path().to_owned(), &[]).ensure(SystemTime::now()).unwrap();
        let own = identity.chain.first().unwrap();
        let (begin, end) = (certificate_fields::begin(own).unwrap(), certificate_fields::end(own).unwrap());
        let second = Duration::from_secs(1);
        assert_eq!(identity.refused_at(begin - second), Some("it is not valid yet"));
        assert_eq!([begin, end].map(|at| identity.refused_at(at)), [None, None]);
        assert_eq!(identity.refused_at(end + second), Some("it has expired"));
    }
}
