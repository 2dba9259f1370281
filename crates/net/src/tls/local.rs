//! Certificates of a broker without configured ones: a CA of its own, and a server certificate for this machine issued
//! by it.
//!
//! Both are in one directory. The CA is kept, so that clients need its certificate only once; the server's certificate
//! is renewed before it expires and when the names change. The CA's validity begins before any broker existed, so that
//! it is valid even if a clock is behind. A CA that was replaced because it was about to expire is kept: if the clock
//! was ahead, it is restored as soon as the clock is right.

mod files;
mod replacement;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};

use super::pem::{self, Identity};
use super::{TlsError, certificate_fields};
use files::{Disk, Files};
use replacement::previous;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Validity of the CA from its creation.
const CA_DAYS: u32 = 3_650;
/// Begin of every CA's validity: the first of January 2020, in seconds since 1970. The broker's time is never before
/// it.
const CA_BEGINS: Duration = Duration::from_secs(1_577_836_800);
/// A CA that would expire before a new server certificate is replaced.
const CA_DAYS_LEFT_MIN: u32 = SERVER_DAYS + 30;
/// A replaced CA is restored if it is valid for this much longer than required.
const CLOCK_DAYS_AHEAD_MIN: u32 = 30;
/// Validity of a server certificate: clients accept at most 398 days, and shorter is recommended.
const SERVER_DAYS: u32 = 90;
/// It is renewed when less time is left.
const SERVER_DAYS_LEFT_MIN: u32 = 30;
/// Begin of validity before creation: clocks of clients may be behind ours.
const BACKDATED: Duration = DAY;

const CA_FILE: &str = "ca.pem";
const CA_KEY_FILE: &str = "ca.key";
pub(super) const SERVER_FILE: &str = "server.pem";
/// Suffix of the file names of the CA that was replaced last.
const PREVIOUS: &str = ".previous";
const SERVER_KEY_FILE: &str = "server.key";

/// The directory of the certificates, and the names in the server's certificate.
#[derive(Debug, Clone)]
pub(super) struct Local {
    directory: PathBuf,
    names: BTreeSet<String>,
    files: Arc<dyn Files>,
}

impl Local {
    /// For this machine and `more` names or addresses.
    pub(super) fn new(directory: PathBuf, more: &[String]) -> Self {
        let host = rustix::system::uname().nodename().to_string_lossy().to_lowercase();
        let own = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).into_iter();
        // A machine's name may contain anything; a certificate allows only host name characters.
        let host = Some(host).filter(|host| !host.is_empty() && host.bytes().all(is_of_a_name));
        Self {
            directory,
            names: own.chain(host).chain(more.iter().map(|name| name.to_lowercase())).collect(),
            files: Arc::new(Disk),
        }
    }

    /// The file of the CA's certificate, for clients.
    pub(super) fn authority(&self) -> PathBuf {
        self.directory.join(CA_FILE)
    }

    /// Returns the stored certificate if it is valid, otherwise makes and stores a new one.
    ///
    /// # Errors
    /// Files that can't be read or written; a CA that is damaged.
    pub(super) fn ensure(&self, now: SystemTime) -> Result<Identity, TlsError> {
        self.finish_replacement()?;
        let authority = match self.stored_authority(now)? {
            Some(authority) => authority,
            None => self.make_authority(now)?,
        };
        let (certificate, key) = (self.directory.join(SERVER_FILE), self.directory.join(SERVER_KEY_FILE));
        match Identity::read(&certificate, &key) {
            Ok(stored) if self.is_server_certificate_usable(&stored, now) => Ok(stored),
            _ => self.make_server(&authority, now),
        }
    }

    /// Whether a server certificate has our names, is issued by our CA, and is not about to expire.
    fn is_server_certificate_usable(&self, stored: &Identity, now: SystemTime) -> bool {
        let authority = pem::certificates("CA certificate", &self.authority()).ok();
        let authority = authority.as_ref().and_then(|chain| chain.first());
        let (Some(own), Some(authority)) = (stored.chain.first(), authority) else { return false };
        certificate_fields::outlasts(own, now, SERVER_DAYS_LEFT_MIN * DAY)
            && certificate_fields::names(own) == self.names
            && certificate_fields::issuer(own) == certificate_fields::subject(authority)
    }

    /// The stored CA, or its replacement; `None` if there is none.
    fn stored_authority(&self, now: SystemTime) -> Result<Option<Issuer<'static, KeyPair>>, TlsError> {
        let (certificate, key) = (self.authority(), self.directory.join(CA_KEY_FILE));
        let has_certificate = self.has(CA_FILE)?;
        if !has_certificate && !self.has(CA_KEY_FILE)? {
            return Ok(None);
        }
        if !has_certificate {
            // A crash after the key was stored. A new certificate with the same key matches what clients already trust.
            let pair = KeyPair::try_from(&pem::key(&key)?)?;
            self.write_authority(&authority_params(&pair, now), &pair)?;
        }
        let advice = |reason: String| {
            let directory = self.directory.display();
            let reason = format!("{reason}; repair it, or remove {directory} to create new certificates");
            TlsError::content("CA key", &key, reason)
        };
        let stored = Identity::read(&certificate, &key).map_err(|error| match error.is_damage() {
            true => advice(error.to_string()),
            false => error,
        })?;
        let identity = match self.restore_previous_authority(&stored, now)? {
            Some(previous) => previous,
            None if !lasts(&stored, now, CA_DAYS_LEFT_MIN) => return self.renew_authority(now).map(Some),
            None => stored,
        };
        let pair = KeyPair::try_from(&identity.key).map_err(|error| advice(error.to_string()))?;
        if !has_begun(&identity, now) {
            self.begin_earlier(&identity, &pair, now)?;
        }
        Ok(Some(Issuer::new(authority_params(&pair, now), pair)))
    }

    /// Restores the CA that was replaced last, if it is valid and the current one is not, or was made by a clock that
    /// was ahead. The two are swapped.
    fn restore_previous_authority(
        &self,
        current: &Identity,
        now: SystemTime,
    ) -> Result<Option<Identity>, TlsError> {
        let (certificate, key) = (previous(CA_FILE), previous(CA_KEY_FILE));
        let identity = Identity::read(&self.directory.join(&certificate), &self.directory.join(&key));
        let is_wanted = |previous: &Identity| {
            is_good(previous, now)
                && (!is_good(current, now)
                    || (lasts(previous, now, CA_DAYS_LEFT_MIN + CLOCK_DAYS_AHEAD_MIN)
                        && was_replaced_near_expiry(previous, current)))
        };
        let Some(identity) = identity.ok().filter(is_wanted) else { return Ok(None) };
        self.replace_authority(&self.text(&key)?, &self.text(&certificate)?)?;
        tracing::warn!(file = %self.authority().display(), "the clock is correct again; the previous CA is used again, which clients must trust");
        Ok(Some(identity))
    }

    /// The CA was made by a clock that was ahead, or the clock is behind now. Its key stays, and so do its name and
    /// end: clients that trust the previous certificate trust certificates issued from now on.
    fn begin_earlier(&self, authority: &Identity, pair: &KeyPair, now: SystemTime) -> Result<(), TlsError> {
        let mut params = authority_params(pair, now);
        if let Some(end) = authority.chain.first().and_then(certificate_fields::end) {
            params.not_after = end.into();
        }
        let file = self.authority();
        tracing::warn!(file = %file.display(), "the CA certificate is not valid yet; a new one is created with the same key: clients that trust the old one keep working, others need this file");
        self.write(CA_FILE, &params.self_signed(pair)?.pem(), false)
    }

    /// Replaces the CA by a new one.
    fn renew_authority(&self, now: SystemTime) -> Result<Issuer<'static, KeyPair>, TlsError> {
        let file = self.authority();
        tracing::warn!(file = %file.display(), "the CA certificate has expired or expires soon; a new CA is created, which clients must trust");
        let pair = KeyPair::generate()?;
        let params = authority_params(&pair, now);
        self.replace_authority(&pair.serialize_pem(), &params.self_signed(&pair)?.pem())?;
        tracing::info!(file = %file.display(), "created a CA for TLS");
        Ok(Issuer::new(params, pair))
    }

    fn make_authority(&self, now: SystemTime) -> Result<Issuer<'static, KeyPair>, TlsError> {
        let create = || {
            self.files.create_directory(&self.directory)?;
            self.directory.parent().map_or(Ok(()), |parent| self.files.sync_directory(parent))
        };
        create().map_err(|error| TlsError::file("TLS directory", &self.directory, error))?;
        let pair = KeyPair::generate()?;
        // The key first, because a certificate without its key counts as damage.
        self.write(CA_KEY_FILE, &pair.serialize_pem(), true)?;
        let params = authority_params(&pair, now);
        self.write_authority(&params, &pair)?;
        Ok(Issuer::new(params, pair))
    }

    fn write_authority(&self, params: &CertificateParams, pair: &KeyPair) -> Result<(), TlsError> {
        let certificate = params.self_signed(pair)?;
        self.write(CA_FILE, &certificate.pem(), false)?;
        tracing::info!(file = %self.authority().display(), "created a CA for TLS");
        Ok(())
    }

    fn make_server(
        &self,
        authority: &Issuer<'static, KeyPair>,
        now: SystemTime,
    ) -> Result<Identity, TlsError> {
        let pair = KeyPair::generate()?;
        let mut params = CertificateParams::new(self.names.iter().cloned().collect::<Vec<_>>())?;
        params.distinguished_name = called("Peeklock");
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        (params.not_before, params.not_after) = ((now - BACKDATED).into(), (now + SERVER_DAYS * DAY).into());
        let certificate = params.signed_by(&pair, authority)?;
        self.write(SERVER_KEY_FILE, &pair.serialize_pem(), true)?;
        self.write(SERVER_FILE, &certificate.pem(), false)?;
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        tracing::info!("created a TLS certificate for {}", names.join(", "));
        Identity::read(&self.directory.join(SERVER_FILE), &self.directory.join(SERVER_KEY_FILE))
    }

    /// Readers see the whole file or none, also after a power cut. Only the broker's user may read a `secret` file.
    fn write(&self, name: &str, text: &str, secret: bool) -> Result<(), TlsError> {
        let path = self.directory.join(name);
        let partial = self.directory.join(format!("{name}.partial"));
        let write = || {
            // The mode only applies to new files.
            let _ = self.files.remove(&partial);
            self.files.write_new(&partial, text, if secret { 0o600 } else { 0o644 })?;
            self.files.rename(&partial, &path)?;
            self.files.sync_directory(&self.directory)
        };
        write().map_err(|error| TlsError::file("TLS file", &path, error))
    }

    fn has(&self, name: &str) -> Result<bool, TlsError> {
        let path = self.directory.join(name);
        self.files.is_there(&path).map_err(|error| TlsError::file("TLS file", &path, error))
    }

    fn text(&self, name: &str) -> Result<String, TlsError> {
        let path = self.directory.join(name);
        self.files.read(&path).map_err(|error| TlsError::file("TLS file", &path, error))
    }
}

/// Whether a CA can issue a certificate now.
fn is_good(authority: &Identity, now: SystemTime) -> bool {
    has_begun(authority, now) && lasts(authority, now, CA_DAYS_LEFT_MIN)
}

fn has_begun(authority: &Identity, now: SystemTime) -> bool {
    authority.chain.first().and_then(certificate_fields::begin).is_some_and(|begin| begin <= now)
}

/// Whether a CA is valid for at least `days` more days.
fn lasts(authority: &Identity, now: SystemTime, days: u32) -> bool {
    authority.chain.first().and_then(certificate_fields::end).is_some_and(|end| end > now + days * DAY)
}

/// Whether `previous` was about to expire when `current` was made. If it is not about to expire now, the clock was
/// ahead then, because time that passed would have brought its end nearer.
fn was_replaced_near_expiry(previous: &Identity, current: &Identity) -> bool {
    let end = |authority: &Identity| authority.chain.first().and_then(certificate_fields::end);
    let (Some(ended), Some(ends)) = (end(previous), end(current)) else { return false };
    ended <= ends - CA_DAYS * DAY + CA_DAYS_LEFT_MIN * DAY
}

/// Characters of a host name; `*` is the wildcard for a domain.
fn is_of_a_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._*:".contains(&byte)
}

/// The same for the same key on every call, so that issued certificates continue to match the stored CA certificate.
fn authority_params(pair: &KeyPair, now: SystemTime) -> CertificateParams {
    let mut params = CertificateParams::default();
    // Trust stores identify CAs by name, so those of two brokers must differ.
    let key = pair.public_key_raw();
    let tail: String = key.iter().rev().take(4).map(|byte| format!("{byte:02x}")).collect();
    params.distinguished_name = called(&format!("Peeklock local CA {tail}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    (params.not_before, params.not_after) = ((UNIX_EPOCH + CA_BEGINS).into(), (now + CA_DAYS * DAY).into());
    params
}

fn called(name: &str) -> DistinguishedName {
    let mut called = DistinguishedName::new();
    called.push(DnType::CommonName, name);
    called
}
