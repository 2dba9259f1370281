//! Addresses to listen on.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// `ADDR:PORT`: an IP address or host name, and a port; port 0 requests a free one from the system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListenAddress {
    host: String,
    port: u16,
}

impl ListenAddress {
    /// The host as written, without the brackets of an IPv6 address.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// The port as written.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The address with another port.
    pub(crate) fn with_port(self, port: u16) -> Self {
        Self { port, ..self }
    }

    /// Whether only this machine can connect, as far as the text tells: a name other than `localhost` may resolve to
    /// anything.
    pub(crate) fn is_loopback(&self) -> bool {
        let address = self.host.parse::<IpAddr>();
        address.map_or_else(|_| self.host.eq_ignore_ascii_case("localhost"), |address| address.is_loopback())
    }

    /// Whether two listeners with these addresses would be the same.
    pub(crate) fn collides_with(&self, other: &Self) -> bool {
        self.port != 0 && self == other
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(formatter, "[{}]:{}", self.host, self.port)
        } else {
            write!(formatter, "{}:{}", self.host, self.port)
        }
    }
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let example = "write ADDR:PORT, such as \"127.0.0.1:5672\", or \"0.0.0.0:5672\" for every interface";
        let fail = |what: &str| format!("\"{text}\" {what}; {example}");
        let (host, port) = text.rsplit_once(':').ok_or_else(|| fail("has no port"))?;
        let port = port.parse().map_err(|_| fail("has no port from 0 to 65535 after its last colon"))?;
        let bare = host.strip_prefix('[').and_then(|inner| inner.strip_suffix(']'));
        let host = match bare {
            Some(inner) if inner.parse::<std::net::Ipv6Addr>().is_ok() => inner,
            Some(_) => return Err(fail("has no IPv6 address in its brackets")),
            None if host.contains('/') => return Err(fail("is a URL, not an address")),
            None if host.contains(':') => return Err(fail("has an IPv6 address without [brackets]")),
            None if host.is_empty() => return Err(fail("has no address")),
            None if host.contains([' ', '@']) => return Err(fail("has no valid address")),
            None => host,
        };
        Ok(Self { host: host.to_owned(), port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_shows_addresses() {
        for text in ["127.0.0.1:5672", "localhost:0", "[::1]:5300", "0.0.0.0:65535"] {
            let address: ListenAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
        }
    }

    #[test]
    fn refuses_addresses_that_cannot_be_listened_on() {
        for (text, message) in [
            ("5672", "has no port"),
            ("127.0.0.1", "has no port"),
            (":5672", "has no address"),
            ("127.0.0.1:70000", "from 0 to 65535"),
            ("::1:5672", "without [brackets]"),
            ("[nonsense]:1", "no IPv6 address"),
            ("http://localhost:5672", "is a URL"),
        ] {
            let error = text.parse::<ListenAddress>().expect_err(text);
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn recognises_addresses_of_this_machine() {
        let is_loopback = |text: &str| text.parse::<ListenAddress>().unwrap().is_loopback();
        for text in ["127.0.0.1:1", "127.8.8.8:0", "localhost:1", "LocalHost:1", "[::1]:1"] {
            assert!(is_loopback(text), "{text}");
        }
        for text in ["0.0.0.0:1", "[::]:1", "192.0.2.1:1", "localhost.example:1", "broker:1"] {
            assert!(!is_loopback(text), "{text}");
        }
    }

    #[test]
    fn only_equal_fixed_ports_collide() {
        let address = |text: &str| text.parse::<ListenAddress>().unwrap();
        assert!(address("127.0.0.1:1").collides_with(&address("127.0.0.1:1")));
        assert!(!address("127.0.0.1:0").collides_with(&address("127.0.0.1:0")));
        assert!(!address("127.0.0.1:1").collides_with(&address("127.0.0.1:2")));
    }
}
