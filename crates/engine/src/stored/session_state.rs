//! The state of a session.

use bytes::Bytes;

use super::{frame, legacy};
use crate::{SessionId, Timestamp};

/// The stored form of a session state.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SessionStateRecord {
    /// The session, in the spelling with which the state was set.
    pub(crate) session: SessionId,
    /// When the state was set.
    pub(crate) updated_at: Timestamp,
    /// The state.
    pub(crate) state: Bytes,
}

#[derive(Clone, PartialEq, prost::Message)]
struct StoredSessionState {
    #[prost(string, optional, tag = "1")]
    session: Option<String>,
    #[prost(uint64, tag = "2")]
    updated_at_ms: u64,
    #[prost(bytes = "bytes", tag = "3")]
    state: Bytes,
}

/// Appends the record of a state.
pub(crate) fn append_session_state(session: &str, updated_at: Timestamp, state: &Bytes, to: &mut Vec<u8>) {
    let session = Some(session.to_owned());
    frame::append(&StoredSessionState { session, updated_at_ms: updated_at.0, state: state.clone() }, to);
}

/// Reads the record of a state.
///
/// # Errors
/// The reason why it can't be decoded.
pub(crate) fn read_session_state(bytes: &[u8]) -> Result<SessionStateRecord, String> {
    if !frame::is_tagged(bytes) {
        return legacy::read_session_state(bytes);
    }
    let StoredSessionState { session, updated_at_ms, state } = frame::read(bytes)?;
    // An empty text is a valid session id.
    let session = frame::required(session, "session id")?.into();
    Ok(SessionStateRecord { session, updated_at: Timestamp(updated_at_ms), state })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected() -> SessionStateRecord {
        SessionStateRecord {
            session: "S".into(),
            updated_at: Timestamp(300),
            state: Bytes::from_static(b"xy"),
        }
    }

    #[test]
    fn the_record_is_pinned() {
        let mut record = Vec::new();
        append_session_state("S", Timestamp(300), &Bytes::from_static(b"xy"), &mut record);
        assert_eq!(record, b"\x10\x0a\x0a\x01S\x10\xac\x02\x1a\x02xy");
        assert_eq!(read_session_state(&record), Ok(expected()));
        frame::testing::check_tolerance(&record, read_session_state);
    }

    #[test]
    fn the_record_by_position_stays_readable() {
        assert_eq!(read_session_state(b"\x01\x01S\xac\x02\x02xy"), Ok(expected()));
    }

    #[test]
    fn an_empty_session_id_and_an_empty_state_are_read_back() {
        let mut record = Vec::new();
        append_session_state("", Timestamp(1), &Bytes::new(), &mut record);
        let SessionStateRecord { session, state, .. } = read_session_state(&record).unwrap();
        assert_eq!((&*session, state.len()), ("", 0));
        assert_eq!(read_session_state(b"\x10\x02\x10\x05").unwrap_err(), "it has no session id");
    }
}
