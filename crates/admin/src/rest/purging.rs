//! `POST …/messages/purge`: deletes messages without delivering them. An extension of Peeklock: Service Bus has it over
//! AMQP only.

use axum::Json;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use peeklock_engine::runtime::{Namespace, Response as Answer};
use peeklock_engine::{Command, Timestamp};
use percent_encoding::percent_decode_str;
use serde_json::json;

use super::locks::ask;
use super::place::Place;
use super::{date, refusal};
use crate::error::Error;

/// Messages deleted at a time: writes of other queues and topics wait for one such step, so it is smaller than the
/// maximum of one request over AMQP.
const STEP: u32 = 500;

/// The parameters of a purge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Purge {
    /// At most this many messages.
    count_max: u64,
    /// Enqueued at this time or before; `None` for now.
    until: Option<Timestamp>,
}

/// Deletes messages batch by batch, each by one command, so that other clients' commands can run in between. Messages
/// that arrive after the start are kept. When the client disconnects, no further batch is deleted.
///
/// # Errors
/// 400 for a malformed request, 410 when the entity is deleted meanwhile.
pub(super) async fn purge(namespace: &Namespace, place: &Place, head: &Parts) -> Result<Response, Error> {
    let Purge { count_max, until } = read(head.uri.query().unwrap_or_default())?;
    let enqueued_until = until.unwrap_or_else(|| namespace.clock().now());
    let mut deleted = 0_u64;
    while deleted < count_max {
        let count_max = u32::try_from(count_max - deleted).unwrap_or(STEP).min(STEP);
        let source = place.source;
        let command = Command::DeleteMessages { source, count_max, enqueued_until, receiver: None };
        match ask(&place.partition, command).await? {
            Answer::Deleted(Ok(0)) => break,
            Answer::Deleted(Ok(count)) => deleted += u64::from(count),
            Answer::Deleted(Err(refused)) => return Err(refusal::error(&refused)),
            _ => return Err(Error::internal()),
        }
    }
    Ok(Json(json!({ "deleted": deleted })).into_response())
}

fn read(query: &str) -> Result<Purge, Error> {
    let mut purge = Purge { count_max: u64::MAX, until: None };
    for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
        let value = percent_decode_str(value).decode_utf8_lossy();
        if name.eq_ignore_ascii_case("count") {
            let count = value.parse().ok().filter(|count| *count > 0);
            purge.count_max =
                count.ok_or_else(|| Error::bad_request("'count' must be a whole number of at least 1."))?;
        } else if name.eq_ignore_ascii_case("until") {
            let until = date::read(&value)
                .ok_or_else(|| Error::bad_request("'until' must be a time, such as 2026-01-31T12:00:00Z."))?;
            purge.until = Some(Timestamp(until));
        }
    }
    Ok(purge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_until_now_is_the_default() {
        let all = Purge { count_max: u64::MAX, until: None };
        assert_eq!(read(""), Ok(all));
        assert_eq!(read("api-version=2021-05"), Ok(all));
        let until = Some(Timestamp(784_111_777_500));
        for query in
            ["Count=7&Until=1994-11-06T08:49:37.5Z", "until=1994-11-06T09%3A49%3A37.5%2B01%3A00&count=7"]
        {
            assert_eq!(read(query), Ok(Purge { count_max: 7, until }), "{query}");
        }
    }

    #[test]
    fn invalid_counts_and_times_are_refused() {
        for query in
            ["count=0", "count=-1", "count=1.5", "count=", "count=all", "until=", "until=5", "until=soon"]
        {
            assert!(read(query).is_err(), "{query}");
        }
    }
}
