//! Checks the files that a configuration names.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use peeklock_net::{CertificateSource, Certificates, Tls, TlsOptions};

use super::Report;
use super::place::Step;
use crate::audit::AuditTarget;
use crate::config::{FileConfig, TlsConfig};

/// A file that the first start writes into a data directory.
const MANIFEST: &str = "MANIFEST";

/// Whether a broker has used a directory before.
pub(super) fn is_store(data_dir: &Path) -> bool {
    data_dir.join(MANIFEST).exists()
}

/// Reports files that a start could not read or write.
pub(super) fn check(file: &FileConfig, data_dir: &Path, report: &Report<'_>) {
    check_tls(&file.tls, report);
    if fs::metadata(data_dir).is_ok_and(|found| !found.is_dir()) {
        let steps = [Step::Key("storage"), Step::Key("data_dir")];
        report.problem(&steps, format!("[storage] data_dir: \"{}\" is not a directory", data_dir.display()));
    }
    if let Some(AuditTarget::File(path)) = &file.audit {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        if parent.is_some_and(|parent| !parent.is_dir()) {
            let steps = [Step::Key("log"), Step::Key("audit")];
            report.problem(
                &steps,
                format!("[log] audit: the directory of \"{}\" does not exist", path.display()),
            );
        }
    }
}

fn check_tls(tls: &TlsConfig, report: &Report<'_>) {
    let files = [("certificate", &tls.certificate), ("key", &tls.key), ("client_ca", &tls.client_ca)];
    let mut is_readable = true;
    for (key, path) in files {
        let Some(path) = path else { continue };
        if let Err(error) = File::open(path) {
            is_readable = false;
            let message = format!("[tls] {key}: \"{}\" can't be read: {error}", path.display());
            report.problem(&[Step::Key("tls"), Step::Key(key)], message);
        }
    }
    let (Some(certificate), Some(key), true) = (&tls.certificate, &tls.key, is_readable) else { return };
    let options = TlsOptions {
        source: CertificateSource::Files { certificate: certificate.clone(), key: key.clone() },
        client_ca: tls.client_ca.clone(),
    };
    let now = Arc::new(SystemTime::now);
    if let Err(error) = Certificates::load(options, Arc::new(Tls::default()), now) {
        report.problem(&[Step::Key("tls"), Step::Key("certificate")], format!("[tls] {error}"));
    }
}
