//! `GET receivers`, `locks` and `sessions`: the receivers of a queue, and locks with their expiry.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use peeklock_admin::Error;
use peeklock_admin::messages::{Place, ask, refused};
use peeklock_engine::runtime::Response as Reply;
use peeklock_engine::{
    Command, Listed, ListedRow, Listing, LockToken, ReceiveMode, ReceiverId, Right, SequenceNumber, Timestamp,
};
use peeklock_errors::ErrorKind;
use serde_json::{Value as Json, json};
use uuid::Uuid;

use crate::answer::{Outcome, found};
use crate::call::Call;
use crate::{Console, time};

/// Maximum number of rows on a page.
const TOP_MAX: u64 = 1_000;

/// A page of one of the three lists.
pub(crate) async fn get(console: &Console, call: &Call) -> Outcome {
    let (place, _) = call.place(console, Right::Manage)?;
    let top = usize::try_from(call.number("top", 100, 1..=TOP_MAX)?).unwrap_or(1);
    let listing = match call.route.as_str() {
        "receivers" => Listing::Receivers(receiver_cursor(call.text("from"))?),
        "sessions" => Listing::Sessions(session_cursor(call.text("from"))?),
        _ => lock_cursor(call.text("from"))?,
    };
    let is_of_locks = matches!(listing, Listing::Locks(_));
    let Listed { rows, next } = list(&place, listing, top).await?;
    let next = match next {
        Some(next) => Some(cursor(&next)),
        // Messages in sessions are locked with their session.
        None if is_of_locks && place.origin.sessions => Some(cursor(&Listing::SessionLocks(None))),
        None => None,
    };
    let shown: Vec<Json> = rows.into_iter().map(row).collect();
    let mut page = json!({ "next": next });
    if let Some(page) = page.as_object_mut() {
        page.insert(call.route.clone(), Json::from(shown));
    }
    found(page)
}

/// The state of one session.
pub(crate) async fn session_state(console: &Console, call: &Call) -> Outcome {
    let (place, _) = call.place(console, Right::Manage)?;
    // The empty id is valid.
    let id = call.text("id").unwrap_or_default();
    let Listed { rows, .. } = list(&place, Listing::Session(id.into()), 1).await?;
    let Some(ListedRow::Session { id, state, .. }) = rows.into_iter().next() else {
        let text = "There is no such session: it has no messages, no state and no receiver.";
        return Err(Error::of(ErrorKind::EntityNotFound, text));
    };
    let state = state.map(|state| {
        json!({
            "bytes": state.len(),
            "text": std::str::from_utf8(&state).ok(),
            "base64": STANDARD.encode(&state),
        })
    });
    found(json!({ "id": id, "state": state }))
}

async fn list(place: &Place, listing: Listing, top: usize) -> Result<Listed, Error> {
    match ask(&place.partition, Command::List { source: place.source, listing, top }).await? {
        Reply::Listed(Ok(listed)) => Ok(listed),
        Reply::Listed(Err(refusal)) => Err(refused(&refusal)),
        _ => Err(Error::internal()),
    }
}

fn row(row: ListedRow) -> Json {
    let receiver_id = |id: ReceiverId| id.0.to_string();
    match row {
        ListedRow::Receiver { id, mode, selects, session, credit } => json!({
            "id": receiver_id(id),
            "mode": match mode {
                ReceiveMode::PeekLock => "peek_lock",
                ReceiveMode::ReceiveAndDelete => "receive_and_delete",
                ReceiveMode::Forward => "forward",
            },
            "selector": selects,
            "session": session,
            "credit": credit,
        }),
        ListedRow::Lock { number, token, until, session, receiver } => json!({
            "sequence_number": number.0.to_string(),
            "lock_token": Uuid::from_u128(token.0).to_string(),
            "locked_until": time::json(until),
            "session": session,
            "receiver": receiver.map(receiver_id),
        }),
        ListedRow::Session { id, messages, holder, state } => json!({
            "id": id,
            "messages": messages,
            "locked_until": holder.map(|(_, until)| time::json(until)),
            "receiver": holder.map(|(receiver, _)| receiver_id(receiver)),
            "state_bytes": state.map_or(0, |state| state.len()),
        }),
    }
}

/// The position at which the next page of a listing begins, as text.
fn cursor(listing: &Listing) -> String {
    match listing {
        Listing::Receivers(after) => after.map_or_else(String::new, |id| id.0.to_string()),
        // The empty key is valid, and an empty cursor is none.
        Listing::Sessions(after) => after.as_deref().map_or_else(String::new, |key| format!("K{key}")),
        Listing::Locks(None) | Listing::Session(_) => String::new(),
        Listing::Locks(Some((until, number, token))) => format!("L.{}.{}.{:x}", until.0, number.0, token.0),
        Listing::SessionLocks(None) => "S".to_owned(),
        Listing::SessionLocks(Some((key, number))) => format!("S.{}.{key}", number.0),
    }
}

fn receiver_cursor(text: Option<&str>) -> Result<Option<ReceiverId>, Error> {
    text.map(|text| text.parse().map(ReceiverId).map_err(|_| bad_cursor())).transpose()
}

fn session_cursor(text: Option<&str>) -> Result<Option<Arc<str>>, Error> {
    text.map(|text| text.strip_prefix('K').map(Arc::from).ok_or_else(bad_cursor)).transpose()
}

fn lock_cursor(text: Option<&str>) -> Result<Listing, Error> {
    let Some(text) = text else { return Ok(Listing::Locks(None)) };
    if text == "S" {
        return Ok(Listing::SessionLocks(None));
    }
    let parsed = match text.split_once('.') {
        Some(("L", rest)) => read_lock(rest).map(|at| Listing::Locks(Some(at))),
        Some(("S", rest)) => rest.split_once('.').and_then(|(number, key)| {
            Some(Listing::SessionLocks(Some((key.into(), SequenceNumber(number.parse().ok()?)))))
        }),
        _ => None,
    };
    parsed.ok_or_else(bad_cursor)
}

fn read_lock(text: &str) -> Option<(Timestamp, SequenceNumber, LockToken)> {
    let mut parts = text.split('.');
    let (until, number, token) = (parts.next()?, parts.next()?, parts.next()?);
    let token = u128::from_str_radix(token, 16).ok()?;
    Some((Timestamp(until.parse().ok()?), SequenceNumber(number.parse().ok()?), LockToken(token)))
}

fn bad_cursor() -> Error {
    Error::bad_request("'from' must be the 'next' of the previous page.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_of_locks_are_read_back() {
        for listing in [
            Listing::Locks(Some((Timestamp(5), SequenceNumber(6), LockToken(7)))),
            Listing::SessionLocks(None),
            Listing::SessionLocks(Some(("a.b".into(), SequenceNumber(u64::MAX)))),
        ] {
            assert_eq!(lock_cursor(Some(&cursor(&listing))).unwrap(), listing);
        }
        for key in ["", "a.b"] {
            let listing = Listing::Sessions(Some(key.into()));
            assert_eq!(session_cursor(Some(&cursor(&listing))).unwrap(), Some(key.into()));
        }
        for text in ["x", "L.1.2", "L.1.2.z", "S.x.y", "S.1"] {
            assert!(lock_cursor(Some(text)).is_err(), "{text}");
        }
    }
}
