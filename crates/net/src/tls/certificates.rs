//! Where certificates come from, and when they change.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use super::local::Local;
use super::pem::Identity;
use super::{Tls, TlsError};

/// How often files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How often it is looked whether a certificate of our own making is about to end.
const RENEW_EVERY: Duration = Duration::from_secs(60 * 60);

/// Which certificate is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CertificateSource {
    /// PEM files of somebody's, taken anew when they change.
    Files {
        /// The server's certificate and those that lead to its CA.
        certificate: PathBuf,
        /// Its key.
        key: PathBuf,
    },
    /// Made by the broker, by a CA of its own.
    Local {
        /// Where they are kept.
        directory: PathBuf,
        /// For which names and addresses, beside this machine's.
        names: Vec<String>,
    },
}

/// How TLS is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsOptions {
    /// Which certificate is shown.
    pub source: CertificateSource,
    /// Whose client certificates are verified, if any are shown: PEM.
    pub client_ca: Option<PathBuf>,
}

/// The time by which certificates are made and end.
pub type Now = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// Keeps a [`Tls`] up to date.
pub struct Certificates {
    options: TlsOptions,
    now: Now,
    local: Option<Local>,
    tls: Arc<Tls>,
    /// What the files were when they were last taken, or refused.
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
    /// Reads or makes certificates, by the time that `now` tells, and gives them to `tls`.
    ///
    /// # Errors
    /// [`TlsError`]: the broker had better not start.
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

    /// The CA's file that clients have to trust, if the broker made it.
    #[must_use]
    pub fn authority(&self) -> Option<PathBuf> {
        self.local.as_ref().map(Local::authority)
    }

    /// The names and addresses of the server's certificate as its file is now; none if it can't be read.
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

    /// Takes the files as they are now, for connections from now on. Blocks for some reads.
    ///
    /// # Errors
    /// [`TlsError`]: what was in force stays.
    pub fn reload(&self) -> Result<(), TlsError> {
        let now = (self.now)();
        // Before reading: what changes meanwhile is seen by the next look.
        *self.taken.lock().unwrap_or_else(PoisonError::into_inner) = Taken { files: self.stamps(), at: now };
        let identity = match (&self.local, &self.options.source) {
            (None, CertificateSource::Files { certificate, key }) => Identity::read(certificate, key)?,
            (Some(local), _) => local.ensure(now)?,
            (None, CertificateSource::Local { .. }) => return Ok(()),
        };
        self.tls.set(identity, self.options.client_ca.as_deref())
    }

    /// Reloads whenever files change and before certificates end, for as long as it is polled.
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
        // A clock that was set back asks for a look as well.
        let is_old = |taken_for: Duration| taken_for >= RENEW_EVERY;
        let to_renew = self.local.is_some() && (self.now)().duration_since(taken.at).map_or(true, is_old);
        if !changed && !to_renew {
            return;
        }
        match self.reload() {
            Ok(()) if changed => {
                tracing::info!("took the changed TLS certificates; they count for new connections");
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
