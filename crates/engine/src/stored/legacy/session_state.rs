//! States of sessions.

use bytes::Bytes;
use serde::Deserialize;

use super::read_version_1;
use crate::Timestamp;
use crate::stored::session_state::SessionStateRecord;

#[derive(Deserialize)]
struct Version1<'a> {
    session: &'a str,
    updated_at_ms: u64,
    state: &'a [u8],
}

pub(in crate::stored) fn read_session_state(bytes: &[u8]) -> Result<SessionStateRecord, String> {
    let Version1 { session, updated_at_ms, state } = read_version_1(bytes)?;
    let state = Bytes::copy_from_slice(state);
    Ok(SessionStateRecord { session: session.into(), updated_at: Timestamp(updated_at_ms), state })
}
