//! `[network]`: additional addresses, and limits of unauthenticated connections.

use std::ops::RangeInclusive;

use toml::de::DeValue;

use super::ListenAddress;
use super::table::{Table, show};

const UNAUTHENTICATED: RangeInclusive<u64> = 1..=1_000_000;

/// Settings common to all addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NetworkConfig {
    /// Additional addresses to listen on.
    pub(crate) also_listen: Vec<ListenAddress>,
    /// Maximum number of unauthenticated connections.
    pub(crate) unauthenticated_max: u64,
    /// Maximum number of these from one address.
    pub(crate) unauthenticated_per_address_max: u64,
    /// Origins whose web pages may use the broker, in browsers' notation.
    pub(crate) allowed_origins: Vec<String>,
    /// Names by which HTTP clients may address the broker, in lower case, optionally with a `*` at the start.
    pub(crate) allowed_hosts: Vec<String>,
}

impl Default for NetworkConfig {
    fn default() -> Self {
        Self {
            also_listen: Vec::new(),
            unauthenticated_max: 4_096,
            unauthenticated_per_address_max: 1_024,
            allowed_origins: Vec::new(),
            allowed_hosts: Vec::new(),
        }
    }
}

/// Reads the section: the addresses, which flags may override, and the rest.
pub(super) fn read(mut table: Table<'_, '_>) -> (Option<Vec<ListenAddress>>, NetworkConfig) {
    let also_listen = texts(&mut table, "also_listen", "\"0.0.0.0:5671\"", str::parse);
    let default = NetworkConfig::default();
    let allowed_origins = texts(&mut table, "allowed_origins", "\"https://shop.example\"", origin);
    let allowed_hosts = texts(&mut table, "allowed_hosts", "\"broker.example\"", host_pattern);
    let config = NetworkConfig {
        unauthenticated_max: renamed(
            &mut table,
            ["strangers_max", "unauthenticated_max"],
            default.unauthenticated_max,
        ),
        unauthenticated_per_address_max: renamed(
            &mut table,
            ["strangers_per_address_max", "unauthenticated_per_address_max"],
            default.unauthenticated_per_address_max,
        ),
        allowed_origins: allowed_origins.unwrap_or_default(),
        allowed_hosts: allowed_hosts.unwrap_or_default(),
        ..default
    };
    table.finish();
    (also_listen, config)
}

/// A number of connections under its former or its current name; the current one has precedence.
fn renamed(table: &mut Table<'_, '_>, [earlier, present]: [&'static str; 2], default: u64) -> u64 {
    let default = table.integer(earlier, default, &UNAUTHENTICATED);
    table.integer(present, default, &UNAUTHENTICATED)
}

/// An origin in browsers' notation: in lower case, without the scheme's default port.
pub(super) fn origin(text: &str) -> Result<String, String> {
    let lower = text.to_ascii_lowercase();
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._[]:".contains(&byte);
    let parts = lower.split_once("://").filter(|(scheme, host)| {
        let is_scheme = scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
        is_scheme && !scheme.is_empty() && !host.is_empty() && host.bytes().all(is_name)
    });
    let Some((scheme, host)) = parts else {
        let advice = "write \"https://shop.example\": scheme, host and port if it has one, without a path";
        return Err(format!("\"{text}\" is not an origin of web pages; {advice}"));
    };
    let port = match scheme {
        "http" => ":80",
        "https" => ":443",
        _ => "",
    };
    Ok(format!("{scheme}://{}", host.strip_suffix(port).unwrap_or(host)))
}

/// A host name, a domain after `*.`, or `*`.
pub(super) fn host_pattern(text: &str) -> Result<String, String> {
    let name = text.strip_prefix("*.").unwrap_or(text);
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    match text == "*" || (!name.is_empty() && name.bytes().all(fits)) {
        true => Ok(text.to_ascii_lowercase()),
        false => Err(format!(
            "\"{text}\" is not a host name; write \"broker.example\", or \"*.example\" for every name below it"
        )),
    }
}

/// A list of strings.
pub(super) fn texts<T>(
    table: &mut Table<'_, '_>,
    key: &'static str,
    example: &str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Option<Vec<T>> {
    table.read(key, |value| {
        let advice = |found: &DeValue<'_>| {
            format!("expected a list of texts in quotes, found {}; write {key} = [{example}]", show(found))
        };
        let DeValue::Array(items) = value else { return Err(advice(value)) };
        let item = |item: &DeValue<'_>| match item {
            DeValue::String(text) => parse(text),
            other => Err(advice(other)),
        };
        items.iter().map(|one| item(one.get_ref())).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_kept_as_browsers_write_them() {
        for (text, expected) in [
            ("https://Shop.Example", "https://shop.example"),
            ("https://shop.example:443", "https://shop.example"),
            ("http://localhost:80", "http://localhost"),
            ("http://localhost:8080", "http://localhost:8080"),
            ("chrome-extension://abcdef", "chrome-extension://abcdef"),
        ] {
            assert_eq!(origin(text).as_deref(), Ok(expected));
        }
        for text in ["", "*", "null", "shop.example", "https://", "https://a/", "https://a b", "://a"] {
            assert!(origin(text).is_err(), "{text}");
        }
    }

    #[test]
    fn hosts_are_names_or_domains() {
        for text in ["broker.example", "*.Example", "*"] {
            assert_eq!(host_pattern(text), Ok(text.to_ascii_lowercase()));
        }
        for text in ["", "*.", "*x", "a:1", "https://a", "a*b"] {
            assert!(host_pattern(text).is_err(), "{text}");
        }
    }
}
