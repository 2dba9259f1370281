//! How a session's state looks in the store: beside the messages in the `Head` space, under numbers of its own.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::super::encoding::{append, read};
use super::StoredState;
use crate::{Event, SessionId, Timestamp};

/// What the `Head` space holds for each session with a state. A change needs a new version, and the old one stays
/// readable.
#[derive(Serialize, Deserialize)]
struct Stored<'a> {
    #[serde(borrow)]
    session: Cow<'a, str>,
    updated_at: Timestamp,
    #[serde(borrow)]
    state: &'a [u8],
}

/// Appends the stored form of the state that an event set; nothing for any other event.
pub(in crate::partition) fn append_state(event: &Event, to: Vec<u8>) -> Vec<u8> {
    match event {
        Event::SessionStateSet { session, state: Some(state), at, .. } => {
            append(&Stored { session: Cow::Borrowed(&**session), updated_at: *at, state }, to)
        }
        _ => to,
    }
}

/// Reads the stored form of the state with this number: whose it is, and what.
pub(super) fn read_state(number: u64, bytes: &[u8]) -> Result<(SessionId, StoredState), String> {
    let stored: Stored<'_> = read(bytes)?;
    let bytes = bytes::Bytes::copy_from_slice(stored.state);
    let id = SessionId::from(&*stored.session);
    let spelling = Arc::clone(id.text());
    Ok((id, StoredState { number, spelling, bytes, updated_at: stored.updated_at }))
}
