//! Connection strings of Service Bus.

use std::fmt;
use std::str::FromStr;

use crate::SharedAccessKey;

const AMQP_PORT: u16 = 5672;
const AMQPS_PORT: u16 = 5671;
const HTTPS_PORT: u16 = 443;
/// The emulator's HTTP port.
const EMULATOR_HTTP_PORT: u16 = 5300;

/// How a client authenticates.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// Without credentials.
    None,
    /// With tokens that it signs.
    Key(SharedAccessKey),
    /// With a given token.
    Token(String),
}

impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => formatter.write_str("None"),
            Self::Key(key) => write!(formatter, "Key({})", key.name()),
            Self::Token(_) => formatter.write_str("Token(…)"),
        }
    }
}

/// The address of a namespace, and credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionString {
    /// A name or address; an IPv6 address has no brackets.
    pub host: String,
    /// `None` for the port of each protocol.
    pub port: Option<u16>,
    /// The credentials of the client.
    pub credentials: Credentials,
    /// The entity that the string is limited to.
    pub entity: Option<String>,
    /// `UseDevelopmentEmulator`: without TLS.
    pub is_emulator: bool,
}

impl ConnectionString {
    /// The port of AMQP.
    #[must_use]
    pub fn amqp_port(&self) -> u16 {
        self.port.unwrap_or(if self.is_emulator { AMQP_PORT } else { AMQPS_PORT })
    }

    /// The port of HTTP. Every port of this broker serves every protocol, so a given port applies to HTTP as well.
    #[must_use]
    pub fn http_port(&self) -> u16 {
        self.port.unwrap_or(if self.is_emulator { EMULATOR_HTTP_PORT } else { HTTPS_PORT })
    }

    /// The host in the form used in URLs.
    #[must_use]
    pub fn url_host(&self) -> String {
        if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() }
    }

    /// The resource whose rights a token for an entity grants: `sb://host/entity`.
    #[must_use]
    pub fn audience(&self, entity: &str) -> String {
        format!("sb://{}/{entity}", self.url_host())
    }
}

impl FromStr for ConnectionString {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut fields = Fields::default();
        for part in text.trim().split(';').map(str::trim).filter(|part| !part.is_empty()) {
            let (key, value) =
                part.split_once('=').ok_or("it is not made of parts such as Endpoint=sb://…;")?;
            fields.set(key.trim(), value.trim())?;
        }
        let endpoint = fields.endpoint.ok_or("it has no Endpoint=sb://…")?;
        let (host, port) = read_endpoint(&endpoint)?;
        let credentials = match (fields.key_name, fields.key, fields.signature) {
            (Some(name), Some(key), None) => Credentials::Key(SharedAccessKey::new(&name, &key)),
            (None, None, Some(token)) => Credentials::Token(token),
            (None, None, None) => Credentials::None,
            (Some(_), None, None) => return Err("SharedAccessKey is missing".to_owned()),
            (None, Some(_), None) => return Err("SharedAccessKeyName is missing".to_owned()),
            _ => return Err("it has a key and a SharedAccessSignature; use one of them".to_owned()),
        };
        let is_emulator = match fields.emulator.as_deref().map(str::to_ascii_lowercase).as_deref() {
            None | Some("false") => false,
            Some("true") => true,
            Some(_) => return Err("UseDevelopmentEmulator must be true or false".to_owned()),
        };
        Ok(Self { host, port, credentials, entity: fields.entity, is_emulator })
    }
}

#[derive(Default)]
struct Fields {
    endpoint: Option<String>,
    key_name: Option<String>,
    key: Option<String>,
    signature: Option<String>,
    entity: Option<String>,
    emulator: Option<String>,
}

impl Fields {
    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let field = match key.to_ascii_lowercase().as_str() {
            "endpoint" => &mut self.endpoint,
            "sharedaccesskeyname" => &mut self.key_name,
            "sharedaccesskey" => &mut self.key,
            "sharedaccesssignature" => &mut self.signature,
            "entitypath" => &mut self.entity,
            "usedevelopmentemulator" => &mut self.emulator,
            // Other keys are ignored, as in the SDKs.
            _ => return Ok(()),
        };
        if field.replace(value.to_owned()).is_some() {
            return Err(format!("{key} occurs twice"));
        }
        Ok(())
    }
}

fn read_endpoint(endpoint: &str) -> Result<(String, Option<u16>), String> {
    let rest = ["sb://", "amqps://", "amqp://"].iter().find_map(|scheme| endpoint.strip_prefix(scheme));
    let rest = rest.ok_or("its Endpoint must begin with sb://")?;
    let authority = rest.split('/').next().unwrap_or_default();
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or("its Endpoint has a bracket that does not end")?;
            (host, port.strip_prefix(':'))
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    if host.is_empty() {
        return Err("its Endpoint has no host".to_owned());
    }
    let port = port.map(|port| port.parse().map_err(|_| format!("its Endpoint has no usable port: {port}")));
    Ok((host.to_owned(), port.transpose()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCAL: &str = "Endpoint=sb://localhost:5672;SharedAccessKeyName=Root;SharedAccessKey=a+b/c==;UseDevelopmentEmulator=true;";

    #[test]
    fn the_string_of_the_emulator_is_read() {
        let read: ConnectionString = LOCAL.parse().unwrap();
        assert_eq!((read.host.as_str(), read.port, read.is_emulator), ("localhost", Some(5672), true));
        assert_eq!(read.credentials, Credentials::Key(SharedAccessKey::new("Root", "a+b/c==")));
        assert_eq!(read.audience("q"), "sb://localhost/q");
        assert!(!format!("{read:?}").contains("a+b"), "no key in logs");
    }

    #[test]
    fn ports_follow_the_protocol() {
        let azure: ConnectionString =
            "endpoint=sb://ns.servicebus.windows.net/;SharedAccessSignature=SharedAccessSignature sr=x&sig=y&se=1&skn=k;EntityPath=q"
                .parse()
                .unwrap();
        assert_eq!((azure.amqp_port(), azure.http_port()), (5671, 443));
        assert_eq!(azure.entity.as_deref(), Some("q"));
        let emulator: ConnectionString = "Endpoint=sb://[::1];UseDevelopmentEmulator=true".parse().unwrap();
        assert_eq!((emulator.amqp_port(), emulator.http_port()), (5672, 5300));
        assert_eq!((emulator.host.as_str(), emulator.url_host().as_str()), ("::1", "[::1]"));
        assert_eq!(emulator.credentials, Credentials::None);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, message) in [
            ("", "no Endpoint"),
            ("rubbish", "parts such as"),
            ("Endpoint=http://x", "sb://"),
            ("Endpoint=sb://", "no host"),
            ("Endpoint=sb://h:port", "port"),
            ("Endpoint=sb://[::1", "bracket"),
            ("Endpoint=sb://h;Endpoint=sb://h", "twice"),
            ("Endpoint=sb://h;SharedAccessKeyName=a", "SharedAccessKey is missing"),
            ("Endpoint=sb://h;SharedAccessKey=a", "SharedAccessKeyName is missing"),
            ("Endpoint=sb://h;UseDevelopmentEmulator=yes", "true or false"),
        ] {
            let error = text.parse::<ConnectionString>().expect_err(text);
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
