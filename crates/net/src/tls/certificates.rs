//! Sources of certificates, and their renewal.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use super::local::Local;
use super::pem::Identity;
use super::{Tls, TlsError};

/// How often the files are checked for changes.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How often a certificate made by the broker is checked for renewal.
const RENEW_EVERY: Duration = Duration::from_secs(60 * 60);

/// The source of the server certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CertificateSource {
    /// The operator's PEM files, reloaded when they change.
    Files {
        /// The server's certificate and its chain.
        certificate: PathBuf,
        /// The certificate's private key.
        key: PathBuf,
    },
    /// Made by the broker with a CA of its own.
    Local {
        /// The directory that stores them.
        directory: PathBuf,
        /// Names and addresses in the certificate, beside those of this machine.
        names: Vec<String>,
    },
}

/// Settings of TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsOptions {
    /// The source of the server certificate.
    pub source: CertificateSource,
    /// PEM file with the CA that verifies client certificates, which are optional.
    pub client_ca: Option<PathBuf>,
}

/// The clock for making certificates and checking their validity.
pub type Now = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// Keeps a [`Tls`] up to date.
pub struct Certificates {
    options: TlsOptions,
    now: Now,
    local: Option<Local>,
    tls: Arc<Tls>,
    /// State of the files when they were last loaded, or refused.
    taken: Mutex<Taken>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Taken {
    files: Vec<Option<(SystemTime, u64)>>,
    at: SystemTime,
}

impl std::fmt::Debug for Certificates {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Certificates").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Certificates {
    /// Reads or makes certificates, with the time from `now`, and installs them in `tls`.
    ///
    /// # Errors
    /// [`TlsError`]: the broker should not start.
    pub fn load(options: TlsOptions, tls: Arc<Tls>, now: Now) -> Result<Self, TlsError> {
        let local = match &options.source {
            CertificateSource::Files { .. } => None,
            CertificateSource::Local { directory, names } => Some(Local::new(directory.clone(), names)),
        };
        let taken = Mutex::new(Taken { files: Vec::new(), at: now() });
        let certificates = Self { options, now, local, tls, taken };
        certificates.reload()?;
        Ok(certificates)
    }

    /// The file of the CA certificate that clients have to trust, if the broker made it.
    #[must_use]
    pub fn authority(&self) -> Option<PathBuf> {
        self.local.as_ref().map(Local::authority)
    }

    /// The names and addresses in the server's current certificate file; none if it can't be read.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let file = match &self.options.source {
            CertificateSource::Files { certificate, .. } => certificate.clone(),
            CertificateSource::Local { directory, .. } => directory.join(super::local::SERVER_FILE),
        };
        let chain = super::pem::certificates("certificate", &file).unwrap_or_default();
        chain
            .first()
            .map(|own| super::certificate_fields::names(own).into_iter().collect())
            .unwrap_or_default()
    }

    /// Loads the files again, for new connections. Blocks for some reads.
    ///
    /// # Errors
    /// [`TlsError`]: the previous certificate stays in use.
    pub fn reload(&self) -> Result<(), TlsError> {
        let now = (self.now)();
        // Before reading: a change during the read is detected by the next check.
        *self.taken.lock().unwrap_or_else(PoisonError::into_inner) = Taken { files: self.stamps(), at: now };
        let identity = match (&self.local, &self.options.source) {
            (None, CertificateSource::Files { certificate, key }) => Identity::read(certificate, key)?,
            (Some(local), _) => local.ensure(now)?,
            (None, CertificateSource::Local { .. }) => return Ok(()),
        };
        let file = identity.certificate_file.clone();
        let refused = identity.refused_at(now);
        self.tls.set(identity, self.options.client_ca.as_deref())?;
        if let Some(reason) = refused {
            tracing::warn!(file = %file.display(), reason, "clients that verify the TLS certificate refuse it");
        }
        Ok(())
    }

    /// Reloads when files change and before certificates expire, for as long as it is polled.
    pub async fn keep_up(self: Arc<Self>) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let this = Arc::clone(&self);
            // File systems may block; a panic has been logged.
            let _ = tokio::task::spawn_blocking(move || this.look()).await;
        }
    }

    pub(super) fn look(&self) {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let changed = taken.files != self.stamps();
        // A clock that was set back needs a check as well.
        let is_old = |taken_for: Duration| taken_for >= RENEW_EVERY;
        let to_renew = self.local.is_some() && (self.now)().duration_since(taken.at).map_or(true, is_old);
        if !changed && !to_renew {
            return;
        }
        match self.reload() {
            Ok(()) if changed => {
                tracing::info!("loaded the changed TLS certificates; new connections use them");
            }
            Ok(()) => {}
            Err(error) => tracing::error!("{error}; the previous TLS certificates stay in use"),
        }
    }

    fn stamps(&self) -> Vec<Option<(SystemTime, u64)>> {
        let own: &[&Path] = match &self.options.source {
            CertificateSource::Files { certificate, key } => &[certificate, key],
            CertificateSource::Local { .. } => &[],
        };
        let files = own.iter().copied().chain(self.options.client_ca.as_deref());
        let stamp =
            |file: &Path| fs::metadata(file).ok().and_then(|data| Some((data.modified().ok()?, data.len())));
        files.map(stamp).collect()
    }
}
