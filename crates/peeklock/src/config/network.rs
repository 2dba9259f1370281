//! `[network]`: more addresses, and patience with peers that have not shown who they are.

use std::ops::RangeInclusive;

use toml::de::DeValue;

use super::ListenAddress;
use super::table::{Table, show};

const STRANGERS: RangeInclusive<u64> = 1..=1_000_000;

/// What all addresses have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NetworkConfig {
    /// More addresses to listen on.
    pub(crate) also_listen: Vec<ListenAddress>,
    /// Peers at a time that have not shown who they are.
    pub(crate) strangers_max: u64,
    /// Of these, from one address.
    pub(crate) strangers_per_address_max: u64,
}

impl Default for NetworkConfig {
    fn default() -> Self {
        Self { also_listen: Vec::new(), strangers_max: 4_096, strangers_per_address_max: 1_024 }
    }
}

/// Reads the section: the addresses, which flags may overrule, and the rest.
pub(super) fn read(mut table: Table<'_, '_>) -> (Option<Vec<ListenAddress>>, NetworkConfig) {
    let also_listen = texts(&mut table, "also_listen", "\"0.0.0.0:5671\"", str::parse);
    let default = NetworkConfig::default();
    let config = NetworkConfig {
        strangers_max: table.integer("strangers_max", default.strangers_max, &STRANGERS),
        strangers_per_address_max: table.integer(
            "strangers_per_address_max",
            default.strangers_per_address_max,
            &STRANGERS,
        ),
        ..default
    };
    table.finish();
    (also_listen, config)
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
