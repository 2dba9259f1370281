//! Records of earlier versions: one version byte, then the fields by position (postcard). They are only read, except for
//! tombstones.
//!
//! The structs are frozen: they match the stored records of those versions, independently of the broker's present types. The
//! bytes of each version are pinned by tests here and next to the records' new forms.

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
pub(crate) use self::message::{append_tombstone, read_tombstone};
pub(super) use self::session_state::read_session_state;
pub(super) use self::small::{
    read_counters, read_last_use, read_next_partition, read_remembered_id, read_set_back,
};
pub(super) use self::subscription::read_subscription;

/// The version byte of a record.
fn version(bytes: &[u8]) -> Result<u8, String> {
    bytes.first().copied().ok_or_else(|| "the record is empty".to_owned())
}

/// Refuses an unknown version.
fn unknown<T>(version: u8) -> Result<T, String> {
    Err(format!("format version {version} is unknown"))
}

/// Reads a record with a single version.
fn read_version_1<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, String> {
    match version(bytes)? {
        1 => read_fields(bytes),
        other => unknown(other),
    }
}

/// Reads the fields after the version byte, which must extend to the end of the bytes.
fn read_fields<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, String> {
    let fields = bytes.get(1..).unwrap_or_default();
    match postcard::take_from_bytes(fields) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(format!("{} bytes too many", rest.len())),
        Err(error) => Err(error.to_string()),
    }
}
