//! `[tls]`: the server certificate, and verification of client certificates.

use std::path::PathBuf;

use super::ConfigError;
use super::network::texts;
use super::table::Table;

/// Settings of TLS.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct TlsConfig {
    /// The server's certificate and its chain; `None` to generate one.
    pub(crate) certificate: Option<PathBuf>,
    /// Its private key.
    pub(crate) key: Option<PathBuf>,
    /// Names in a generated certificate, beside this machine's.
    pub(crate) names: Vec<String>,
    /// The CA that verifies client certificates.
    pub(crate) client_ca: Option<PathBuf>,
    /// Whether connections without TLS are refused.
    pub(crate) required: bool,
}

impl TlsConfig {
    /// Refuses a certificate without a key, and vice versa.
    ///
    /// # Errors
    /// [`ConfigError::Combination`].
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let missing = match (&self.certificate, &self.key) {
            (Some(_), None) => "tls.key is missing: tls.certificate needs its key",
            (None, Some(_)) => "tls.certificate is missing: tls.key has no effect without it",
            _ => return Ok(()),
        };
        Err(ConfigError::Combination(missing.to_owned()))
    }
}

/// Reads the section.
pub(super) fn read(mut table: Table<'_, '_>) -> TlsConfig {
    let mut file = |key, example| {
        table.text(key, example, |path| match path {
            "" => Err(format!("is empty; write {key} = {example}")),
            _ => Ok(PathBuf::from(path)),
        })
    };
    let certificate = file("certificate", "\"tls/server.pem\"");
    let key = file("key", "\"tls/server.key\"");
    let client_ca = file("client_ca", "\"tls/clients.pem\"");
    let names = texts(&mut table, "names", "\"broker.example\"", host_name).unwrap_or_default();
    let required = table.boolean("required", false);
    table.finish();
    TlsConfig { certificate, key, names, client_ca, required }
}

/// Checks a name for a certificate.
fn host_name(text: &str) -> Result<String, String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._*:".contains(&byte);
    match text.bytes().all(fits) && !text.is_empty() && text.len() <= 253 {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "\"{text}\" is not a host name or address; write \"broker.example\" or \"192.0.2.7\""
        )),
    }
}
