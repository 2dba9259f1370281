//! `POST messages/act`: deletes, resubmits, moves or dead-letters messages selected by number or by a condition, and
//! makes deferred ones available. Locked messages are skipped.

use axum::body::Body;
use peeklock_access::EntityNode;
use peeklock_admin::Error;
use peeklock_admin::messages::{Place, ask, refused};
use peeklock_engine::runtime::Response as Reply;
use peeklock_engine::{
    Command, DeadLetter, MessageAction, MessageState, Received, Refusal, Right, SequenceNumber, SubQueue,
    Timestamp,
};
use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::filter::Condition;
use super::moving::Target;
use super::{EXAMINED_MAX, Pace, STEP, number, peek};
use crate::answer::{Outcome, found};
use crate::call::{self, BODY_BYTES_MAX, Call};
use crate::{Console, time};

/// Maximum number of messages that one request acts on.
const LIMIT_MAX: usize = 500;
/// A request selects no more messages once their size exceeds this, in bytes.
const CONTENT_BYTES: usize = 4 << 20;
/// Messages processed together; if one of them fails, each is tried separately.
const TOGETHER: usize = 50;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    action: Action,
    #[serde(default)]
    sequence_numbers: Option<Vec<String>>,
    #[serde(default, rename = "where")]
    condition: Option<String>,
    #[serde(default)]
    state: Option<String>,
    #[serde(default)]
    before: Option<String>,
    #[serde(default)]
    to: Option<String>,
    #[serde(default)]
    keep_id: Option<bool>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    from: Option<String>,
    #[serde(default)]
    limit: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    Delete,
    Resubmit,
    Undefer,
    Move,
    DeadLetter,
}

impl Action {
    const fn name(self) -> &'static str {
        match self {
            Self::Delete => "delete-messages",
            Self::Resubmit => "resubmit-messages",
            Self::Undefer => "undefer-messages",
            Self::Move => "move-messages",
            Self::DeadLetter => "dead-letter-messages",
        }
    }
}

/// The operation on each message.
enum Plan {
    Act(MessageAction),
    Send(Box<Target>),
}

/// The selected messages.
struct Chosen {
    messages: Vec<Received>,
    examined: usize,
    next: Option<u64>,
    skipped: Vec<Json>,
}

/// Acts on one page of messages; the caller continues with `from` until `next` is null.
pub(crate) async fn act(console: &Console, call: &Call, body: Body) -> Outcome {
    let (place, grant) = call.place(console, Right::Listen)?;
    let (asked, _room) = call.json::<Asked>(console, body, BODY_BYTES_MAX).await?;
    let _ = call.operation.set(asked.action.name());
    console.admin.check_rates(&place.entity.name, &grant.principal)?;
    let plan = plan(console, call, &place, &asked)?;
    let _content = console.admin.room_for_answer(2 * CONTENT_BYTES)?;
    let mut chosen = choose(&place, &asked).await?;
    let mut done = 0;
    let messages = std::mem::take(&mut chosen.messages);
    for together in messages.chunks(TOGETHER) {
        if carry_out(console, &place, &plan, together).await?.is_ok() {
            done += together.len();
            continue;
        }
        for one in together.chunks(1) {
            match carry_out(console, &place, &plan, one).await? {
                Ok(()) => done += 1,
                Err(refusal) => chosen.skipped.extend(one.iter().map(|message| skipped(message, &refusal))),
            }
        }
    }
    found(json!({
        "done": done,
        "skipped": chosen.skipped,
        "examined": chosen.examined,
        "next": chosen.next.map(|next| next.to_string()),
    }))
}

fn skipped(message: &Received, refusal: &Refusal) -> Json {
    json!({ "sequence_number": message.view.shown_number().0.to_string(), "reason": refusal.to_string() })
}

fn plan(console: &Console, call: &Call, place: &Place, asked: &Asked) -> Result<Plan, Error> {
    if asked.to.is_some() && !matches!(asked.action, Action::Move | Action::Resubmit) {
        return Err(Error::bad_request("'to' is for the actions move and resubmit."));
    }
    Ok(match asked.action {
        Action::Delete => Plan::Act(MessageAction::Delete),
        Action::Undefer => Plan::Act(MessageAction::Undefer),
        Action::DeadLetter => {
            if place.source.sub_queue != SubQueue::Main {
                return Err(Error::bad_request("The messages are dead letters already."));
            }
            let text = |text: &Option<String>| text.as_deref().map(Into::into);
            let why = DeadLetter { reason: text(&asked.reason), description: text(&asked.description) };
            Plan::Act(MessageAction::DeadLetter(why.into()))
        }
        Action::Resubmit | Action::Move => {
            let node = match &asked.to {
                Some(to) => call::node(to)?,
                None if asked.action == Action::Resubmit && place.source.sub_queue != SubQueue::Main => {
                    EntityNode { subscription: None, sub_queue: SubQueue::Main, ..place.entity.clone() }
                }
                None => {
                    let text = "'to' is missing: the queue or topic to which the messages go.";
                    return Err(Error::bad_request(text));
                }
            };
            call.authorize(console, &node.resource(), Right::Send)?;
            let target = call::place(&console.admin.namespace, &node)?;
            Plan::Send(Box::new(Target::new(console, place, target, asked.keep_id)?))
        }
    })
}

/// Selects the messages of a request, by their numbers or by scanning.
async fn choose(place: &Place, asked: &Asked) -> Result<Chosen, Error> {
    let limit = asked.limit.unwrap_or(100);
    if !(1..=LIMIT_MAX).contains(&limit) {
        return Err(Error::bad_request(format!("'limit' must be a whole number from 1 to {LIMIT_MAX}.")));
    }
    match &asked.sequence_numbers {
        Some(_) if asked.condition.is_some() || asked.before.is_some() || asked.state.is_some() => {
            Err(Error::bad_request("'sequence_numbers' can't be combined with 'where', 'before' or 'state'."))
        }
        Some(numbers) => choose_numbered(place, numbers).await,
        None if asked.condition.is_none() && asked.before.is_none() => Err(Error::bad_request(
            "No messages are selected: pass 'sequence_numbers', 'where' or 'before'; \"before\" the present selects all.",
        )),
        None => choose_matching(place, asked, limit).await,
    }
}

async fn choose_numbered(place: &Place, numbers: &[String]) -> Result<Chosen, Error> {
    if numbers.len() > LIMIT_MAX {
        return Err(Error::bad_request(format!("'sequence_numbers' holds at most {LIMIT_MAX} numbers.")));
    }
    let mut wanted = Vec::with_capacity(numbers.len());
    for text in numbers {
        wanted.push(number("sequence_numbers", text)?);
    }
    wanted.sort_unstable();
    wanted.dedup();
    let mut chosen = Chosen { messages: Vec::new(), examined: wanted.len(), next: None, skipped: Vec::new() };
    let mut bytes = 0;
    for number in wanted {
        let refusal = if bytes > CONTENT_BYTES {
            Refusal::MemoryShort
        } else {
            let found = peek(place, number, 1).await?.into_iter().next();
            if let Some(message) = found.filter(|message| message.view.shown_number().0 == number) {
                bytes += message.content.len();
                chosen.messages.push(message);
                continue;
            }
            Refusal::MessageNotFound(number)
        };
        chosen.skipped.push(json!({ "sequence_number": number.to_string(), "reason": refusal.to_string() }));
    }
    Ok(chosen)
}

/// The state of the messages to be selected; `None` for any.
fn wanted_state(asked: &Asked) -> Result<Option<MessageState>, Error> {
    Ok(match asked.state.as_deref() {
        Some("any") => None,
        None if asked.action == Action::Undefer => Some(MessageState::Deferred),
        None | Some("active") => Some(MessageState::Active),
        Some("deferred") => Some(MessageState::Deferred),
        Some("scheduled") => Some(MessageState::Scheduled),
        Some(_) => return Err(Error::bad_request("'state' must be any, active, deferred or scheduled.")),
    })
}

async fn choose_matching(place: &Place, asked: &Asked, limit: usize) -> Result<Chosen, Error> {
    let condition = asked.condition.as_deref().map(Condition::read).transpose()?;
    let before = asked.before.as_deref().map(|text| time::read("before", text)).transpose()?;
    let state = wanted_state(asked)?;
    let is_wanted = |message: &Received| {
        state.is_none_or(|state| state == message.view.state)
            && before.unwrap_or(Timestamp::NEVER) >= message.view.enqueued_at
            && condition.as_ref().is_none_or(|condition| condition.matches(message) == Some(true))
    };
    let mut from = asked.from.as_deref().map(|from| number("from", from)).transpose()?.unwrap_or_default();
    let mut chosen = Chosen { messages: Vec::new(), examined: 0, next: None, skipped: Vec::new() };
    let (mut bytes, mut pace) = (0, Pace::start());
    let has_room = |chosen: &Chosen, bytes| chosen.messages.len() < limit && bytes <= CONTENT_BYTES;
    while chosen.examined < EXAMINED_MAX && has_room(&chosen, bytes) && !pace.is_over() {
        let received = peek(place, from, STEP.min(EXAMINED_MAX - chosen.examined)).await?;
        if received.is_empty() {
            return Ok(chosen);
        }
        for message in received {
            // At least one message is examined, so that the caller gets on.
            if !has_room(&chosen, bytes) || chosen.examined > 0 && pace.is_over() {
                break;
            }
            chosen.examined += 1;
            from = message.view.shown_number().0.saturating_add(1);
            if is_wanted(&message) {
                bytes += message.content.len();
                chosen.messages.push(message);
            }
            pace.step().await;
        }
        tokio::task::yield_now().await;
    }
    chosen.next = Some(from);
    Ok(chosen)
}

/// Acts on all of these messages or on none.
///
/// # Errors
/// The partition does not answer. A refusal is a successful answer.
async fn carry_out(
    console: &Console,
    place: &Place,
    plan: &Plan,
    messages: &[Received],
) -> Result<Result<(), Refusal>, Error> {
    let numbers: Vec<SequenceNumber> = messages.iter().map(|message| message.view.shown_number()).collect();
    let source = place.source;
    let done = match plan {
        Plan::Send(target) => target.take_over(console, place, numbers, messages).await?,
        Plan::Act(action) => {
            let command = Command::ActOnMessages { source, numbers, action: action.clone() };
            match ask(&place.partition, command).await? {
                Reply::Done(done) => done,
                _ => return Err(Error::internal()),
            }
        }
    };
    match done {
        // A retry with fewer messages would have the same result.
        Err(refusal @ (Refusal::Unavailable | Refusal::EntityDeleted | Refusal::EntityDisabled)) => {
            Err(refused(&refusal))
        }
        done => Ok(done),
    }
}
