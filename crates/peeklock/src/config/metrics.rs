//! `[metrics]`: access to `/metrics`, and its number of series.

use std::fs;
use std::ops::RangeInclusive;

use peeklock_engine::Secret;

use super::table::Table;

/// Entities with series of their own; 0 for none.
const ENTITIES: RangeInclusive<u64> = 0..=100_000;
const ENTITIES_DEFAULT: u64 = 1_000;
/// An easily guessed token gives false security.
const TOKEN_CHARS_MIN: usize = 16;

/// Settings of metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MetricsConfig {
    /// The token that scrapers on other machines present as `Authorization: Bearer …`, if any.
    pub(crate) token: Option<Secret>,
    /// Whether scrapers on this machine need no token.
    pub(crate) open_on_loopback: bool,
    /// Number of queues, topics and subscriptions with series of their own; all others are summed up in one.
    pub(crate) entities_max: u64,
}

impl Default for MetricsConfig {
    fn default() -> Self {
        Self { token: None, open_on_loopback: true, entities_max: ENTITIES_DEFAULT }
    }
}

/// Reads the section. Messages never contain the token.
pub(super) fn read(mut table: Table<'_, '_>) -> MetricsConfig {
    let default = MetricsConfig::default();
    let token = table.text("token", "\"a long random text\"", check).flatten();
    let file = table.text("token_file", "\"/run/secrets/metrics\"", |path| {
        if path.is_empty() {
            return Ok(None);
        }
        let text = fs::read_to_string(path).map_err(|error| format!("{path} can't be read: {error}"))?;
        check(text.trim_end())?.map(Some).ok_or_else(|| format!("{path} holds no token"))
    });
    let file = file.flatten();
    if token.is_some()
        && file.is_some()
        && let Some((_, place)) = table.value("token_file")
    {
        table.report(&place, "token_file", "there is a token already; remove one of token and token_file");
    }
    let config = MetricsConfig {
        token: token.or(file),
        open_on_loopback: table.boolean("open_on_loopback", default.open_on_loopback),
        entities_max: table.integer("entities_max", default.entities_max, &ENTITIES),
    };
    table.finish();
    config
}

/// Checks a token; an empty one means none.
fn check(token: &str) -> Result<Option<Secret>, String> {
    if token.is_empty() {
        return Ok(None);
    }
    if token.chars().count() < TOKEN_CHARS_MIN {
        return Err(format!("has fewer than {TOKEN_CHARS_MIN} characters"));
    }
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("may have visible ASCII characters only, because it is sent in an HTTP header".to_owned());
    }
    Ok(Some(Secret::new(token)))
}
