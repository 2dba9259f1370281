//! Replaces one CA by another, keeping the files of the previous one.
//!
//! Key and certificate are two files, and no system renames two at once. So the pair that is to become the current one
//! is first stored beside the others, its certificate last: if that exists, the replacement continues at the next
//! start. Each step can be repeated, and each is durable before the next one.

use super::{CA_FILE, CA_KEY_FILE, Identity, Local, PREVIOUS, TlsError};

/// Suffix of the file names of a CA that is about to become the current one.
pub(super) const NEXT: &str = ".next";

impl Local {
    /// Makes a CA the current one. The previously current one is kept as the previous one.
    ///
    /// # Errors
    /// A file that can't be read or written; the next [`Self::finish_replacement`] continues.
    pub(super) fn replace_authority(&self, key: &str, certificate: &str) -> Result<(), TlsError> {
        self.write(&next(CA_KEY_FILE), key, true)?;
        self.write(&next(CA_FILE), certificate, false)?;
        self.carry_out()
    }

    /// Continues a replacement that a crash or an error interrupted.
    ///
    /// # Errors
    /// A file that can't be read or written; files that do not match, with how to fix it.
    pub(super) fn finish_replacement(&self) -> Result<(), TlsError> {
        let (key, certificate) = (next(CA_KEY_FILE), next(CA_FILE));
        match (self.has(&certificate)?, self.has(&key)?) {
            (false, false) => Ok(()),
            (false, true) => self.discard(&key),
            (true, false) => self.promote(CA_FILE),
            (true, true) => {
                let (certificate, key) = (self.directory.join(certificate), self.directory.join(key));
                Identity::read(&certificate, &key).map_err(|error| {
                    let reason = format!("{error}; remove it and {}", key.display());
                    TlsError::content("next CA certificate", &certificate, reason)
                })?;
                self.carry_out()
            }
        }
    }

    /// The current pair is complete until the first promotion, so it can be copied again as long as both files of the
    /// next one exist.
    fn carry_out(&self) -> Result<(), TlsError> {
        if self.has(CA_KEY_FILE)? && self.has(CA_FILE)? {
            self.write(&previous(CA_KEY_FILE), &self.text(CA_KEY_FILE)?, true)?;
            self.write(&previous(CA_FILE), &self.text(CA_FILE)?, false)?;
        }
        self.promote(CA_KEY_FILE)?;
        self.promote(CA_FILE)
    }

    /// Makes the next file of this name the current one.
    fn promote(&self, name: &str) -> Result<(), TlsError> {
        let current = self.directory.join(name);
        self.files
            .rename(&self.directory.join(next(name)), &current)
            .and_then(|()| self.files.sync_directory(&self.directory))
            .map_err(|error| TlsError::file("TLS file", &current, error))
    }

    fn discard(&self, name: &str) -> Result<(), TlsError> {
        let file = self.directory.join(name);
        self.files.remove(&file).map_err(|error| TlsError::file("TLS file", &file, error))
    }
}

fn next(name: &str) -> String {
    format!("{name}{NEXT}")
}

/// The name of this file for the CA that was replaced last.
pub(super) fn previous(name: &str) -> String {
    format!("{name}{PREVIOUS}")
}
