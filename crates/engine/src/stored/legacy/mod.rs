//! Records as earlier versions wrote them: one version byte, then the fields by position (postcard). They are only read.
//!
//! The structs here are frozen: they are what those versions stored, whatever the broker computes with today. The bytes of each
//! version are pinned in the tests beside the records' new forms and here.

mod entity;
mod message;
mod options;
mod property;
mod rule;
mod session_state;
mod small;
mod subscription;

use serde::Deserialize;

pub(super) use self::entity::read_entity;
pub(super) use self::message::read_head;
pub(crate) use self::message::read_trace;
pub(super) use self::session_state::read_session_state;
pub(super) use self::small::{
    read_counters, read_last_use, read_next_partition, read_remembered_id, read_set_back,
};
pub(super) use self::subscription::read_subscription;

/// The version byte of a record.
fn version(bytes: &[u8]) -> Result<u8, String> {
    bytes.first().copied().ok_or_else(|| "the record is empty".to_owned())
}

/// Refuses a version that no version of the broker up to this one has written.
fn unknown<T>(version: u8) -> Result<T, String> {
    Err(format!("format version {version} is unknown"))
}

/// Reads a record of which there was one version.
fn read_version_1<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, String> {
    match version(bytes)? {
        1 => read_fields(bytes),
        other => unknown(other),
    }
}

/// Reads the fields behind the version byte, and nothing more.
fn read_fields<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, String> {
    let fields = bytes.get(1..).unwrap_or_default();
    match postcard::take_from_bytes(fields) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(format!("{} bytes too many", rest.len())),
        Err(error) => Err(error.to_string()),
    }
}
