//! `POST …/messages`: one message, or a batch.

use std::sync::Arc;

use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use peeklock_access::Grant;
use peeklock_engine::runtime::Response as Answer;
use peeklock_engine::{Command, NewMessage, Refusal};
use peeklock_message::copy_blocks::CopyBlocks;
use peeklock_message::submission::{BATCH_MESSAGES_MAX, RequiredProperties};
use smallvec::SmallVec;

use super::broker_properties::{BrokerProperties, MessageSettings};
use super::draft::Draft;
use super::limits::{Limits, Room};
use super::locks::ask;
use super::place::Place;
use super::{batch, body, refusal, user_properties};
use crate::Admin;
use crate::error::Error;

/// Allowed size of a JSON batch beyond twice the size of its messages.
const BATCH_MARGIN_BYTES: u64 = 64 * 1024;

/// Size of the body of a single message from which it is copied outside the runtime's threads.
const ASIDE_FROM_BYTES: usize = 1 << 20;

/// Sends the messages of a request.
///
/// # Errors
/// 400 for an invalid message, 401 if the grant ended while the body arrived, 403 or 413 for a message that is too large,
/// 503 if memory is short.
pub(super) async fn send(
    (admin, grant): (&Admin, &Grant),
    place: &Place,
    request: Request,
) -> Result<Response, Error> {
    let Admin { namespace, limits, access, .. } = admin;
    let (head, body) = request.into_parts();
    let content_type = head.headers.get(CONTENT_TYPE).cloned();
    let is_batch = content_type.as_ref().is_some_and(|value| value == batch::CONTENT_TYPE);
    // Before the body: errors in the head need not wait for it.
    let single = if is_batch { None } else { Some(draft(&head.headers, content_type.as_ref())?) };
    let body_bytes_max = match is_batch {
        true => place.message_bytes_max.saturating_mul(2).saturating_add(BATCH_MARGIN_BYTES),
        false => place.message_bytes_max,
    };
    let (body, room) = body::read(limits, body, body_bytes_max).await?;
    access.confirm(grant)?;
    let room = Arc::new(room);
    let (wanted, now_ms) = (place.wanted, namespace.clock().now().0);
    let (messages, _more) = match single {
        Some(single) => (read_single(&room, Draft { body, ..single }, wanted, now_ms).await?, None),
        None => {
            let (messages, more) = read_batch(limits, &room, body, wanted, now_ms).await?;
            (messages, Some(more))
        }
    };
    check_total(&messages, place.message_bytes_max)?;
    match ask(&place.partition, Command::Send { messages }).await? {
        Answer::Sent(Ok(_)) => Ok(created(content_type)),
        Answer::Sent(Err(refused)) => Err(refusal::error(&refused)),
        _ => Err(Error::internal()),
    }
}

/// Runs work on a body outside the runtime's threads: a large batch takes seconds, in which other connections would
/// wait. The work keeps its memory reserved, because it continues when the client disconnects.
async fn aside<R, T>(reserved: &R, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error>
where
    R: Clone + Send + 'static,
    T: Send + 'static,
{
    let reserved = reserved.clone();
    let work = move || {
        let done = work();
        drop(reserved);
        done
    };
    tokio::task::spawn_blocking(work).await.map_err(|_| Error::internal())
}

/// The documented answer: only the content type of the request.
fn created(content_type: Option<HeaderValue>) -> Response {
    let mut response = StatusCode::CREATED.into_response();
    if let Some(content_type) = content_type {
        response.headers_mut().insert(CONTENT_TYPE, content_type);
    }
    response
}

/// A single message, from the head of the request.
fn draft(headers: &HeaderMap, content_type: Option<&HeaderValue>) -> Result<Draft, Error> {
    let settings = match headers.get("brokerproperties") {
        Some(header) => BrokerProperties::read(&user_properties::text_of(header))?.into_settings()?,
        None => MessageSettings::default(),
    };
    let content_type = content_type.map(user_properties::text_of).or(settings.content_type);
    let settings = MessageSettings { content_type, ..settings };
    Ok(Draft { settings, user: user_properties::read(headers), body: Bytes::new() })
}

async fn read_single(
    room: &Arc<Room>,
    draft: Draft,
    wanted: RequiredProperties,
    now_ms: u64,
) -> Result<SmallVec<[NewMessage; 1]>, Error> {
    let is_large = draft.body.len() > ASIDE_FROM_BYTES;
    let read = move || draft.into_message(wanted, now_ms);
    let message = if is_large { aside(room, read).await?? } else { read()? };
    Ok(SmallVec::from_iter([message]))
}

/// The messages of a batch, and the memory reserved for them beside its body's.
async fn read_batch(
    limits: &Limits,
    room: &Arc<Room>,
    body: Bytes,
    wanted: RequiredProperties,
    now_ms: u64,
) -> Result<(SmallVec<[NewMessage; 1]>, Arc<Room>), Error> {
    let counted = body.clone();
    let parts = aside(room, move || batch::Parts::of(&counted)).await?;
    let more = Arc::new(limits.more(room, parts.memory_bytes(wanted)).await?);
    let held = (Arc::clone(room), Arc::clone(&more));
    let messages = aside(&held, move || parse_batch(&body, parts.messages, wanted, now_ms)).await??;
    Ok((messages, more))
}

fn parse_batch(
    body: &[u8],
    count: usize,
    wanted: RequiredProperties,
    now_ms: u64,
) -> Result<SmallVec<[NewMessage; 1]>, Error> {
    let mut messages = SmallVec::with_capacity(count.min(BATCH_MESSAGES_MAX));
    let mut blocks = CopyBlocks::default();
    batch::read(body, |draft| {
        messages.push(draft.into_message_of(wanted, now_ms, &mut blocks)?);
        Ok(())
    })?;
    Ok(messages)
}

/// A batch may be as large as a single message, as over AMQP.
fn check_total(messages: &[NewMessage], limit_bytes: u64) -> Result<(), Error> {
    let size_bytes = messages.iter().map(|message| message.content.len() as u64).sum();
    if size_bytes > limit_bytes {
        return Err(refusal::error(&Refusal::MessageTooLarge { size_bytes, limit_bytes }));
    }
    Ok(())
}
