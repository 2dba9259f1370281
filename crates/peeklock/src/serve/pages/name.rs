//! Host names and origins in browsers' notation.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Suffixes of names that are not in the public DNS, or that can't be registered by everyone: of the local machine (RFC
/// 6761), of private networks (reserved by ICANN), of services in Kubernetes, and of Service Bus namespaces.
const SAFE_ENDS: [&str; 7] = [
    ".localhost",
    ".internal",
    ".svc",
    ".svc.cluster.local",
    ".servicebus.windows.net",
    ".servicebus.chinacloudapi.cn",
    ".servicebus.usgovcloudapi.net",
];

/// The host of `HOST[:PORT]` in lower case, without brackets and final dot; `None` if it is invalid.
pub(super) fn host(text: &str) -> Option<String> {
    let host = match text.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']')?;
            address.parse::<Ipv6Addr>().ok().filter(|_| is_port(port))?;
            address
        }
        None => {
            let end = text.find(':').unwrap_or(text.len());
            let (host, port) = text.split_at_checked(end)?;
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
            Some(host).filter(|host| host.bytes().all(fits) && is_port(port))?
        }
    };
    let host = host.strip_suffix('.').unwrap_or(host);
    (!host.is_empty()).then(|| host.to_ascii_lowercase())
}

fn is_port(text: &str) -> bool {
    text.is_empty()
        || text.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether an external attacker can't make a browser resolve this host to a chosen address: true for IP addresses,
/// single-label names, and the suffixes above.
pub(super) fn is_safe(host: &str) -> bool {
    host.parse::<Ipv4Addr>().is_ok()
        || host.parse::<Ipv6Addr>().is_ok()
        || !host.contains('.')
        || SAFE_ENDS.iter().any(|end| host.ends_with(end))
}

/// Whether a host matches a pattern: a name, `*.` and a domain for every name below it, or `*`.
pub(super) fn matches(pattern: &str, host: &str) -> bool {
    match pattern.strip_prefix('*') {
        Some("") => true,
        Some(end) => host.len() > end.len() && host.ends_with(end),
        None => pattern.eq_ignore_ascii_case(host),
    }
}

/// Whether an origin is the one of a request with this `Host`. The scheme is ignored, because a proxy may have
/// terminated TLS.
pub(super) fn is_of_host(origin: &str, host: &str) -> bool {
    let bare = |authority: &str| {
        let ports = [":80", ":443"];
        let bare = ports.iter().find_map(|port| authority.strip_suffix(port)).unwrap_or(authority);
        bare.to_ascii_lowercase()
    };
    let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    authority.is_some_and(|authority| !authority.is_empty() && bare(authority) == bare(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_read_as_browsers_write_them() {
        for (text, expected) in [
            ("localhost", "localhost"),
            ("LocalHost:5300", "localhost"),
            ("broker.example.:443", "broker.example"),
            ("192.0.2.7:1", "192.0.2.7"),
            ("[::1]:5300", "::1"),
            ("[::1]", "::1"),
        ] {
            assert_eq!(host(text).as_deref(), Some(expected), "{text}");
        }
        for text in
            ["", ":1", ".", "a b", "a@b", "a:b", "a:1:2", "[::1", "[evil.example]", "[::1]x", "::1", "ä"]
        {
            assert_eq!(host(text), None, "{text}");
        }
    }

    #[test]
    fn names_that_an_attacker_may_own_are_not_safe() {
        for name in [
            "localhost",
            "127.0.0.1",
            "::1",
            "peeklock",
            "a.localhost",
            "q.default.svc",
            "a.servicebus.windows.net",
        ] {
            assert!(is_safe(name), "{name}");
        }
        for name in
            ["evil.example", "localhost.evil.example", "127.0.0.1.example", "evil.local", "xlocalhost.com"]
        {
            assert!(!is_safe(name), "{name}");
        }
    }

    #[test]
    fn patterns_are_names_or_domains() {
        assert!(matches("Broker.Example", "broker.example") && matches("*", "a.b"));
        assert!(matches("*.example", "a.example") && matches("*.example", "a.b.example"));
        assert!(
            !matches("*.example", "example")
                && !matches("*.example", ".example")
                && !matches("*.example", "aexample")
        );
    }

    #[test]
    fn an_origin_is_the_hosts_whatever_its_scheme() {
        for (origin, host) in [
            ("http://localhost:5300", "LOCALHOST:5300"),
            ("https://broker.example", "broker.example"),
            ("https://broker.example", "broker.example:443"),
            ("http://[::1]:5300", "[::1]:5300"),
        ] {
            assert!(is_of_host(origin, host), "{origin} {host}");
        }
        for (origin, host) in [
            ("http://localhost:8080", "localhost:5300"),
            ("http://localhost", "localhost:5300"),
            ("null", "null"),
            ("file://", ""),
            ("ftp://a", "a"),
        ] {
            assert!(!is_of_host(origin, host), "{origin} {host}");
        }
    }
}
