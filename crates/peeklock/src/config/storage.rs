//! `[storage]`: the store of messages, data directory or database, and its sizes.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use super::database::{DatabaseUrl, Durability, StorageEngine};
use super::problem::Collector;
use super::size;
use super::table::Table;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const SEGMENT_BYTES: RangeInclusive<u64> = MIB..=GIB;
const RESERVE_BYTES: RangeInclusive<u64> = MIB..=1024 * GIB;
const CLEANING_BYTES_PER_SECOND: RangeInclusive<u64> = MIB..=64 * GIB;
const DAY_MS: u64 = 24 * 3600 * 1000;
const SCRUB_INTERVAL_MS: RangeInclusive<u64> = 0..=365 * DAY_MS;
const SCRUB_BYTES_PER_SECOND: RangeInclusive<u64> = MIB..=GIB;
const BODY_CACHE_BYTES: RangeInclusive<u64> = 0..=1024 * GIB;
/// Minimum number of segments for cleaning: the one being written, two prepared, some being cleaned.
const SEGMENTS_MIN: u64 = 6;
/// Minimum size of a replicated store.
const REPLICATED_BYTES_MIN: u64 = 64 * MIB;
/// Settings that apply to files only.
const LOCAL_KEYS: [&str; 5] = ["segment_size", "reserve", "cleaning_rate", "scrub_interval", "scrub_rate"];

/// Settings of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StorageConfig {
    /// The kind of store.
    pub(crate) engine: StorageEngine,
    /// The database of a replicated store.
    pub(crate) url: Option<DatabaseUrl>,
    /// What makes its second copy.
    pub(crate) durability: Durability,
    /// Size of a segment file.
    pub(crate) segment_bytes: u64,
    /// Maximum size of the data directory or of the log in the database; `None` leaves the limit to the file system or
    /// database.
    pub(crate) size_bytes_max: Option<u64>,
    /// Bytes of the file system that are kept free.
    pub(crate) reserve_bytes: u64,
    /// Rate at which live records are copied out of mostly dead segments.
    pub(crate) clean_bytes_per_second: u64,
    /// Interval at which sealed segments are read again to find damage, in milliseconds; 0: never.
    pub(crate) scrub_interval_ms: u64,
    /// Maximum rate of that reading.
    pub(crate) scrub_bytes_per_second: u64,
    /// Memory for recently written message bodies, for all queues.
    pub(crate) body_cache_bytes: u64,
}

impl Default for StorageConfig {
    fn default() -> Self {
        Self {
            engine: StorageEngine::default(),
            url: None,
            durability: Durability::default(),
            segment_bytes: 64 * MIB,
            size_bytes_max: None,
            reserve_bytes: 256 * MIB,
            clean_bytes_per_second: 128 * MIB,
            scrub_interval_ms: 7 * DAY_MS,
            scrub_bytes_per_second: 16 * MIB,
            body_cache_bytes: 32 * MIB,
        }
    }
}

impl StorageConfig {
    /// Uses this database, if there is one, which also selects the engine.
    pub(super) fn at(self, url: Option<DatabaseUrl>) -> Self {
        if url.is_some() { Self { engine: StorageEngine::Postgres, url, ..self } } else { self }
    }

    /// Refuses a replicated store without a URL.
    ///
    /// # Errors
    /// A message with the missing setting.
    pub(super) fn check(&self) -> Result<(), String> {
        match (self.engine, &self.url) {
            (StorageEngine::Postgres, None) => Err(format!(
                "storage.url is missing: engine = \"postgres\" needs to know the database; write url = {URL_EXAMPLE}, or url_file \
                 for a file that holds it, or set PEEKLOCK_STORAGE_URL"
            )),
            _ => Ok(()),
        }
    }
}

const URL_EXAMPLE: &str = "\"postgres://peeklock@pg-1,pg-2,pg-3/peeklock?target_session_attrs=read-write\"";

/// Reads the section: the data directory, which flags may override, and the rest.
pub(super) fn read(mut table: Table<'_, '_>, notes: &Collector<'_>) -> (Option<PathBuf>, StorageConfig) {
    let data_dir = table.text("data_dir", "\"./data\"", |path| match path {
        "" => Err("is empty; write data_dir = \"./data\"".to_owned()),
        // The URL may contain a password.
        path if DatabaseUrl::is_like(path) => Err("is the URL of a database; write it as url".to_owned()),
        _ => Ok(PathBuf::from(path)),
    });
    let default = StorageConfig::default();
    let engine = table.text("engine", "\"local\"", str::parse).unwrap_or_default();
    let url = read_url(&mut table, engine);
    let durability = table.text("durability", "\"standby\"", str::parse).unwrap_or_default();
    let segment_bytes = table.size_bytes("segment_size", default.segment_bytes, &SEGMENT_BYTES);
    let config = StorageConfig {
        engine,
        url,
        durability,
        segment_bytes,
        size_bytes_max: read_size_max(&mut table, engine, segment_bytes),
        reserve_bytes: table.size_bytes("reserve", default.reserve_bytes, &RESERVE_BYTES),
        clean_bytes_per_second: table.size_bytes(
            "cleaning_rate",
            default.clean_bytes_per_second,
            &CLEANING_BYTES_PER_SECOND,
        ),
        scrub_interval_ms: table.duration_ms("scrub_interval", default.scrub_interval_ms, &SCRUB_INTERVAL_MS),
        scrub_bytes_per_second: table.size_bytes(
            "scrub_rate",
            default.scrub_bytes_per_second,
            &SCRUB_BYTES_PER_SECOND,
        ),
        body_cache_bytes: table.size_bytes("body_cache", default.body_cache_bytes, &BODY_CACHE_BYTES),
    };
    note_without_effect(&mut table, &config, notes);
    table.finish();
    (data_dir, config)
}

/// The URL from one of the two keys; messages never contain it.
fn read_url(table: &mut Table<'_, '_>, engine: StorageEngine) -> Option<DatabaseUrl> {
    let optional = |text: &str| if text.is_empty() { Ok(None) } else { text.parse().map(Some) };
    let url = table.secret("url", optional).flatten();
    let path = table.text("url_file", "\"/run/secrets/database-url\"", |path| Ok(path.to_owned()));
    let path = path.filter(|path| !path.is_empty());
    let file = path.and_then(|path| {
        let url: DatabaseUrl = table.contents("url_file", &path, |text| text.trim_end().parse())?;
        Some(url.in_file(path.into()))
    });
    let key = if url.is_some() { "url" } else { "url_file" };
    let is_double = url.is_some() && file.is_some();
    let url = url.or(file);
    if url.is_some()
        && let Some((_, place)) = table.value(if is_double { "url_file" } else { key })
    {
        if is_double {
            table.report(&place, "url_file", "url sets it already; remove one of them");
        } else if engine == StorageEngine::Local {
            table.report(
                &place,
                key,
                "there is no database with engine = \"local\"; write engine = \"postgres\" as well",
            );
        }
    }
    url
}

fn read_size_max(table: &mut Table<'_, '_>, engine: StorageEngine, segment_bytes: u64) -> Option<u64> {
    let (bytes_min, what) = match engine {
        StorageEngine::Local => (
            SEGMENTS_MIN * segment_bytes,
            format!("{SEGMENTS_MIN} segments of {}", size::display(segment_bytes)),
        ),
        StorageEngine::Postgres => (REPLICATED_BYTES_MIN, "a log needs".to_owned()),
    };
    let read = table.text("size_max", "\"10 GiB\"", |text| {
        if text.eq_ignore_ascii_case("unlimited") {
            return Ok(None);
        }
        let bytes = size::parse_in(text, &(0..=u64::MAX))?;
        if bytes < bytes_min {
            let smaller = if engine == StorageEngine::Local { ", or a smaller segment_size" } else { "" };
            return Err(format!(
                "\"{text}\" is less than {what}; write at least \"{}\"{smaller}",
                size::display(bytes_min)
            ));
        }
        Ok(Some(bytes))
    });
    read.flatten()
}

/// Notes settings for files that have no effect on a database.
fn note_without_effect(table: &mut Table<'_, '_>, config: &StorageConfig, notes: &Collector<'_>) {
    let default = StorageConfig::default();
    let differs = [
        config.segment_bytes != default.segment_bytes,
        config.reserve_bytes != default.reserve_bytes,
        config.clean_bytes_per_second != default.clean_bytes_per_second,
        config.scrub_interval_ms != default.scrub_interval_ms,
        config.scrub_bytes_per_second != default.scrub_bytes_per_second,
    ];
    if config.engine == StorageEngine::Local {
        return;
    }
    for (key, _) in LOCAL_KEYS.into_iter().zip(differs).filter(|(_, differs)| *differs) {
        if let Some((_, place)) = table.value(key) {
            notes.report(
                &place,
                format!("[storage] {key}: has no effect with engine = \"postgres\", which has no files"),
            );
        }
    }
}
