//! `GET messages` and `GET messages/raw`.

use peeklock_admin::Error;
use peeklock_admin::messages::{Place, refused};
use peeklock_engine::{MessageState, Received, Refusal, Right};
use peeklock_message::delivery::{DeliveryFormat, Encoder};
use serde_json::{Value as Json, json};

use super::filter::Condition;
use super::{EXAMINED_MAX, Pace, STEP, number, peek, shown};
use crate::Console;
use crate::answer::{Answer, Outcome, found};
use crate::call::Call;

/// Maximum number of messages on a page.
const TOP_MAX: u64 = 500;
/// Maximum number of bytes returned of a body.
const BODY_BYTES_MAX: u64 = 1 << 20;
/// A page ends with the message at which the total size of bodies exceeds this, in bytes.
const PAGE_BYTES: usize = 4 << 20;

/// The requested page.
struct Wanted {
    state: Option<MessageState>,
    condition: Option<Condition>,
    top: usize,
    body_bytes_max: usize,
}

/// A page under construction.
#[derive(Default)]
struct Page {
    messages: Vec<Json>,
    bytes: usize,
    examined: usize,
    /// Messages for which the condition could not be evaluated.
    failed: usize,
    /// The sequence number at which the next page begins.
    from: u64,
    is_full: bool,
}

/// A page of messages in a queue, subscription or dead-letter queue.
pub(crate) async fn browse(console: &Console, call: &Call) -> Outcome {
    let (place, _) = call.place(console, Right::Listen)?;
    let wanted = wanted(call)?;
    let from = call.text("from").map(|from| number("from", from)).transpose()?.unwrap_or_default();
    let _room = console.admin.room_for_answer(2 * PAGE_BYTES)?;
    let (mut page, mut pace) = (Page { from, ..Page::default() }, Pace::start());
    let mut has_more = true;
    while !page.is_full && page.examined < EXAMINED_MAX && !pace.is_over() {
        let received = peek(&place, page.from, STEP.min(EXAMINED_MAX - page.examined)).await?;
        if received.is_empty() {
            has_more = false;
            break;
        }
        // Memory is reserved only for the excess over a page, such as a single large message.
        let bytes = received.iter().map(|message| message.content.len()).sum::<usize>();
        let _more = console.admin.room_for_answer(bytes.saturating_sub(PAGE_BYTES))?;
        for message in &received {
            page.add(message, &wanted, &place)?;
            if page.is_full || pace.is_over() {
                break;
            }
            pace.step().await;
        }
        tokio::task::yield_now().await;
    }
    found(json!({
        "messages": page.messages,
        "examined": page.examined,
        "failed": page.failed,
        "next": has_more.then(|| page.from.to_string()),
    }))
}

fn wanted(call: &Call) -> Result<Wanted, Error> {
    let state = match call.text("state") {
        None | Some("any") => None,
        Some("active") => Some(MessageState::Active),
        Some("deferred") => Some(MessageState::Deferred),
        Some("scheduled") => Some(MessageState::Scheduled),
        Some(_) => {
            return Err(Error::bad_request(
                "The parameter 'state' must be any, active, deferred or scheduled.",
            ));
        }
    };
    let small = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    Ok(Wanted {
        state,
        condition: call.text("where").map(Condition::read).transpose()?,
        top: small(call.number("top", 50, 1..=TOP_MAX)?),
        body_bytes_max: small(call.number("body_max", 4096, 0..=BODY_BYTES_MAX)?),
    })
}

impl Page {
    fn add(&mut self, message: &Received, wanted: &Wanted, place: &Place) -> Result<(), Error> {
        self.examined += 1;
        self.from = message.view.shown_number().0.saturating_add(1);
        if wanted.state.is_some_and(|state| state != message.view.state) {
            return Ok(());
        }
        if let Some(condition) = &wanted.condition {
            match condition.matches(message) {
                Some(true) => {}
                Some(false) => return Ok(()),
                None => {
                    self.failed += 1;
                    return Ok(());
                }
            }
        }
        self.bytes += wanted.body_bytes_max.min(message.content.len());
        self.messages.push(shown::message(message, place, wanted.body_bytes_max)?);
        self.is_full = self.messages.len() >= wanted.top || self.bytes >= PAGE_BYTES;
        Ok(())
    }
}

/// A message in the AMQP encoding for a receiver.
pub(crate) async fn raw(console: &Console, call: &Call) -> Outcome {
    let (place, _) = call.place(console, Right::Listen)?;
    let text = call.text("sequence_number").unwrap_or_default();
    let number = number("sequence_number", text)?;
    let received = peek(&place, number, 1).await?;
    let message = received.first().filter(|message| message.view.shown_number().0 == number);
    let message = message.ok_or_else(|| refused(&Refusal::MessageNotFound(number)))?;
    let _room = console.admin.room_for_answer(message.content.len())?;
    let format = DeliveryFormat::Browsed { omits_body: false };
    let encoded = Encoder::default().encode_whole(message, format, place.origin);
    Ok(Answer::Bytes(encoded.map_err(|_| Error::internal())?))
}
