//! `[amqp]`: AMQP's address, time-outs, and limits of one connection.

use std::ops::RangeInclusive;

use peeklock_amqp::endpoint;
use peeklock_amqp::servicebus::sasl::MECHANISMS;
use peeklock_amqp::servicebus::{CAPABILITIES, IdleLimits};

use super::table::Table;
use super::{AuthorizationConfig, ListenAddress, duration};

const SECOND_MS: u64 = 1_000;
/// Below 5 s the .NET SDK refuses to connect.
const IDLE_TIME_OUT_MS: RangeInclusive<u64> = 5 * SECOND_MS..=3_600 * SECOND_MS;
const OPEN_TIME_OUT_MS: RangeInclusive<u64> = SECOND_MS..=600 * SECOND_MS;
const DRAIN_TIME_OUT_MS: RangeInclusive<u64> = 0..=600 * SECOND_MS;
const FRAME_BYTES: RangeInclusive<u64> = 4 << 10..=1 << 20;
const CONNECTIONS: RangeInclusive<u64> = 1..=1_000_000;
const SESSIONS: RangeInclusive<u64> = 1..=65_536;
const LINKS: RangeInclusive<u64> = 1..=65_535;
const REASSEMBLY_BYTES: RangeInclusive<u64> = 1 << 20..=4 << 30;

/// Settings of AMQP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AmqpConfig {
    /// Whether clients may skip SASL.
    pub(crate) sasl_optional: bool,
    /// A connection silent for this long is closed.
    pub(crate) idle_time_out_ms: u64,
    /// When unused links and connections without links end.
    pub(crate) idle: IdleLimits,
    /// A connection that is not opened by then is closed.
    pub(crate) open_time_out_ms: u64,
    /// How long connections may take to finish when the broker stops.
    pub(crate) drain_time_out_ms: u64,
    /// Largest frame accepted.
    pub(crate) frame_bytes_max: u64,
    /// Maximum number of connections.
    pub(crate) connections_max: u64,
    /// AMQP sessions per connection.
    pub(crate) sessions_max: u64,
    /// Links per connection.
    pub(crate) links_max: u64,
    /// Total size of partly received messages per connection, in bytes; `None` to derive it from the memory.
    pub(crate) reassembly_bytes_max: Option<u64>,
}

impl Default for AmqpConfig {
    fn default() -> Self {
        let endpoint = endpoint::Config::default();
        Self {
            sasl_optional: true,
            idle_time_out_ms: endpoint.idle_time_out_ms.map_or(*IDLE_TIME_OUT_MS.end(), u64::from),
            idle: IdleLimits::default(),
            open_time_out_ms: endpoint.open_time_out_ms,
            drain_time_out_ms: 2 * SECOND_MS,
            frame_bytes_max: u64::from(endpoint.max_frame_size),
            connections_max: 10_000,
            sessions_max: endpoint.sessions_max as u64,
            links_max: endpoint.links_max as u64,
            reassembly_bytes_max: None,
        }
    }
}

impl AmqpConfig {
    /// The limits and identity of each connection, which may hold `reassembly_bytes_max` bytes of partly received
    /// messages.
    pub(crate) fn endpoint(
        &self,
        authorization: &AuthorizationConfig,
        reassembly_bytes_max: u64,
    ) -> endpoint::Config {
        let mut mechanisms: Vec<String> = MECHANISMS.map(str::to_owned).to_vec();
        mechanisms.retain(|mechanism| authorization.offers(mechanism));
        let default = endpoint::Config::default();
        endpoint::Config {
            max_frame_size: u32::try_from(self.frame_bytes_max).unwrap_or(default.max_frame_size),
            channel_max: u16::try_from(self.sessions_max - 1).unwrap_or(u16::MAX),
            idle_time_out_ms: u32::try_from(self.idle_time_out_ms).ok(),
            sasl_mechanisms: mechanisms,
            sasl_optional: self.sasl_optional,
            links_max: usize::try_from(self.links_max).unwrap_or(usize::MAX),
            sessions_max: usize::try_from(self.sessions_max).unwrap_or(usize::MAX),
            reassembly_bytes_max: usize::try_from(reassembly_bytes_max).unwrap_or(usize::MAX),
            offered_capabilities: CAPABILITIES.map(str::to_owned).to_vec(),
            open_time_out_ms: self.open_time_out_ms,
            ..default
        }
    }
}

/// Reads the section: the address, which flags may override, and the rest.
pub(crate) fn read(mut table: Table<'_, '_>) -> (Option<ListenAddress>, AmqpConfig) {
    let listen = table.text("listen", "\"127.0.0.1:5672\"", str::parse);
    let default = AmqpConfig::default();
    let config = AmqpConfig {
        sasl_optional: table.boolean("sasl_optional", default.sasl_optional),
        idle_time_out_ms: table.duration_ms("idle_time_out", default.idle_time_out_ms, &IDLE_TIME_OUT_MS),
        idle: IdleLimits {
            link_ms: open_duration_ms(&mut table, "link_idle_time_out"),
            no_link_ms: open_duration_ms(&mut table, "no_link_time_out"),
        },
        open_time_out_ms: table.duration_ms("open_time_out", default.open_time_out_ms, &OPEN_TIME_OUT_MS),
        drain_time_out_ms: table.duration_ms("drain_time_out", default.drain_time_out_ms, &DRAIN_TIME_OUT_MS),
        frame_bytes_max: table.size_bytes("frame_size_max", default.frame_bytes_max, &FRAME_BYTES),
        connections_max: table.integer("connections_max", default.connections_max, &CONNECTIONS),
        sessions_max: table.integer("sessions_max", default.sessions_max, &SESSIONS),
        links_max: table.integer("links_max", default.links_max, &LINKS),
        reassembly_bytes_max: table.size_bytes_or_automatic(
            "reassembly_size_max",
            "32 MiB",
            &REASSEMBLY_BYTES,
        ),
    };
    table.misplaced("require_token", "tokens are verified now; write required = true under [authorization]");
    table.misplaced("plain_enabled", "passwords are verified now; write it under [authorization]");
    table.finish();
    (listen, config)
}

/// A duration of a second or more that may be unlimited, which is the default.
fn open_duration_ms(table: &mut Table<'_, '_>, key: &'static str) -> Option<u64> {
    let parse = |text: &str| duration::parse_open(text, SECOND_MS, || duration::too_short(text, SECOND_MS));
    table.text(key, "\"unlimited\"", parse).flatten()
}
