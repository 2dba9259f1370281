//! `[namespace]`: the name of the namespace, and the Service Bus tier whose rules apply.

use peeklock_engine::Tier;

use super::table::Table;

/// Settings of the namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct NamespaceConfig {
    /// Its name; `None` for the first part of the host name that a client uses.
    pub(crate) name: Option<String>,
    /// Its tier.
    pub(crate) tier: Tier,
}

/// Reads the section; `default` is the tier if it names none.
pub(super) fn read(mut table: Table<'_, '_>, default: Tier) -> NamespaceConfig {
    let name = table.text("name", "\"my-namespace\"", parse_name);
    let tier = table.text("tier", "\"premium\"", parse_tier).unwrap_or(default);
    table.finish();
    NamespaceConfig { name, tier }
}

/// Checks the name of a namespace.
///
/// # Errors
/// A message for the end of a sentence about the value.
pub(super) fn parse_name(name: &str) -> Result<String, String> {
    if name.is_empty() { Err("is empty".to_owned()) } else { Ok(name.to_owned()) }
}

/// A tier in TOML's notation: `premium`.
pub(super) fn written(tier: Tier) -> String {
    tier.name().to_lowercase()
}

fn parse_tier(text: &str) -> Result<Tier, String> {
    Tier::ALL
        .into_iter()
        .find(|tier| written(*tier) == text)
        .ok_or_else(|| format!("\"{text}\" is not a tier; write \"premium\", \"standard\" or \"basic\""))
}
