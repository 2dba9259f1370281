//! `[namespace]`: what the namespace is called, and the tier of Service Bus whose rules hold in it.

use peeklock_engine::Tier;

use super::table::Table;

/// What holds for the whole namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct NamespaceConfig {
    /// Its name; `None` for the first part of the host name that a client uses.
    pub(crate) name: Option<String>,
    /// Its tier.
    pub(crate) tier: Tier,
}

/// Reads the section.
pub(super) fn read(mut table: Table<'_, '_>) -> NamespaceConfig {
    let name = table.text("name", "\"my-namespace\"", parse_name);
    let tier = table.text("tier", "\"premium\"", parse_tier).unwrap_or_default();
    table.finish();
    NamespaceConfig { name, tier }
}

/// The name of a namespace.
///
/// # Errors
/// A message that ends a sentence about the value.
pub(super) fn parse_name(name: &str) -> Result<String, String> {
    if name.is_empty() { Err("is empty".to_owned()) } else { Ok(name.to_owned()) }
}

/// A tier as TOML writes it: `premium`.
pub(super) fn written(tier: Tier) -> String {
    tier.name().to_lowercase()
}

fn parse_tier(text: &str) -> Result<Tier, String> {
    Tier::ALL
        .into_iter()
        .find(|tier| written(*tier) == text)
        .ok_or_else(|| format!("\"{text}\" is no tier; write \"premium\", \"standard\" or \"basic\""))
}
