//! Estimated size of a command's writes, which keeps batches below the store's limit.

use peeklock_storage::Limits;

use super::limits::{
    COPY_BYTES_MAX_ESTIMATE, DELETION_BYTES_ESTIMATE, FORWARDED_BYTES_ESTIMATE, RECORD_BYTES_ESTIMATE,
    RULES_BYTES_ESTIMATE,
};
use crate::command::{Descriptor, Writes};
use crate::partition::{CHANGED_BYTES_PER_CALL_MAX, Partition, changes_bytes};
use crate::runtime::growth::{Shortage, check_growth};
use crate::{DELETE_COUNT_MAX, MessageAction, NewMessage, Refusal, Settlement, Timestamp};

/// An upper estimate of a command's writes in bytes, without copies of a topic's messages.
fn own_bytes(writes: Writes<'_>) -> usize {
    match writes {
        Writes::Nothing => 0,
        Writes::Messages { messages, why } => {
            let why_bytes = why.map_or(0, dead_letter_bytes);
            let bytes = |message| message_bytes(message).saturating_add(why_bytes);
            messages.iter().map(bytes).fold(0, usize::saturating_add)
        }
        Writes::Settled { count, settlement } => {
            count.saturating_mul(RECORD_BYTES_ESTIMATE + settlement_bytes(settlement))
        }
        Writes::Records(count) => count * RECORD_BYTES_ESTIMATE,
        Writes::Acted { count, action } => {
            let why_bytes = match action {
                MessageAction::Delete | MessageAction::Undefer => 0,
                MessageAction::DeadLetter(why) => dead_letter_bytes(why),
            };
            count.saturating_mul(RECORD_BYTES_ESTIMATE + why_bytes)
        }
        Writes::Deletions(count_max) => count_max.min(DELETE_COUNT_MAX) as usize * DELETION_BYTES_ESTIMATE,
        Writes::SessionState(bytes) => bytes + RECORD_BYTES_ESTIMATE,
        Writes::Rules => RULES_BYTES_ESTIMATE,
    }
}

/// Upper estimates of a command's writes, in bytes.
#[derive(Debug, Clone, Copy)]
pub(in crate::runtime) struct WriteEstimate {
    /// The writes without copies of a topic's messages.
    pub(in crate::runtime) own_bytes: usize,
    /// Copies of a topic's messages, without what an action changes.
    pub(in crate::runtime) copies_bytes: usize,
    /// The allowance for the parts of copies that an action changes. Commands that are carried out together share one.
    pub(in crate::runtime) changed_bytes: usize,
}

impl WriteEstimate {
    const fn total_bytes(self) -> usize {
        self.own_bytes.saturating_add(self.copies_bytes).saturating_add(self.changed_bytes)
    }
}

/// Checks whether the store can accept a command's writes; returns their estimated size.
pub(in crate::runtime) fn check_writes(
    partition: &Partition,
    now: Timestamp,
    command: &Descriptor<'_>,
    shortage: Option<Shortage>,
    limits: Limits,
) -> Result<WriteEstimate, Refusal> {
    let limit = limits.batch_bytes_max;
    check_growth(partition, command, shortage)?;
    let writes = command.writes;
    let estimate = estimate_writes(partition, now, writes, limit);
    let total = estimate.total_bytes();
    if let Some(largest) = largest_content(writes) {
        let too_large =
            |size, limit| Refusal::MessageTooLarge { size_bytes: size as u64, limit_bytes: limit as u64 };
        if largest > limits.value_bytes_max {
            return Err(too_large(largest, limits.value_bytes_max));
        }
        if total > limit {
            return Err(too_large(total, limit));
        }
    } else if total > limit {
        let text = format!("The request would write {total} bytes at once; the limit is {limit}.");
        return Err(Refusal::InvalidArgument(text));
    }
    Ok(estimate)
}

/// Length of the largest body in a command; `None` for commands without messages.
fn largest_content(writes: Writes<'_>) -> Option<usize> {
    match writes {
        Writes::Messages { messages, .. } => {
            Some(messages.iter().map(|message| message.content.len()).max().unwrap_or(0))
        }
        _ => None,
    }
}

fn message_bytes(message: &NewMessage) -> usize {
    // The properties of a scheduled message that rules see are stored decoded beside its body.
    let scheduled = message.scheduled_enqueue_time.and(message.rule_properties.as_ref());
    let property_bytes = scheduled.map_or(0, |_| message.content.len());
    message.content.len() + property_bytes + variable_bytes(message) + RECORD_BYTES_ESTIMATE
}

/// The size of the variable parts of the message's record, in bytes.
fn variable_bytes(message: &NewMessage) -> usize {
    let along = message.origin.as_ref().map_or(0, |origin| {
        let modified = origin.modified.as_ref().map_or(0, |modified| properties_bytes(modified));
        let changes = origin.changes.as_ref().map_or(0, |changes| changes_bytes(changes));
        let why = origin.dead_letter.as_ref().map_or(0, |why| dead_letter_bytes(why));
        modified + changes + why + FORWARDED_BYTES_ESTIMATE
    });
    along + message.session_id.as_ref().map_or(0, |id| id.len())
}

/// The estimate of a command's writes with the copies of a topic's messages. First assumes the maximum number of copies; only
/// if that exceeds the limit are the rules evaluated in advance, which costs as much as publishing.
fn estimate_writes(
    partition: &Partition,
    now: Timestamp,
    writes: Writes<'_>,
    limit_bytes: usize,
) -> WriteEstimate {
    let mut estimate = WriteEstimate { own_bytes: own_bytes(writes), copies_bytes: 0, changed_bytes: 0 };
    let copies_max = partition.copies_max();
    let Writes::Messages { messages, why: None } = writes else { return estimate };
    if copies_max == 0 {
        return estimate;
    }
    let record_bytes = |message: &NewMessage| COPY_BYTES_MAX_ESTIMATE + variable_bytes(message);
    estimate.changed_bytes = partition.changed_bytes_max().min(changed_bytes_allowed(limit_bytes));
    let most = messages.iter().map(|message| record_bytes(message).saturating_mul(copies_max));
    estimate.copies_bytes = most.fold(0, usize::saturating_add);
    if estimate.total_bytes() > limit_bytes {
        let copies = messages.iter().enumerate().map(|(index, message)| {
            partition.count_copies(now, index, message).saturating_mul(record_bytes(message))
        });
        estimate.copies_bytes = copies.fold(0, usize::saturating_add);
    }
    estimate
}

/// The allowance for changed parts of copies: with a store limit below the engine's allowance, it must not exceed that.
pub(in crate::runtime) fn changed_bytes_allowed(limit_bytes: usize) -> usize {
    CHANGED_BYTES_PER_CALL_MAX.min(limit_bytes / 4)
}

fn properties_bytes(list: &crate::Properties) -> usize {
    list.iter().map(|property| property.name.len() + property.value.len() + 8).sum()
}

fn dead_letter_bytes(why: &crate::DeadLetter) -> usize {
    let text = |text: &Option<std::sync::Arc<str>>| text.as_ref().map_or(0, |text| text.len());
    text(&why.reason) + text(&why.description)
}

/// Bytes that a settlement adds to each message's record.
pub(in crate::runtime) fn settlement_bytes(settlement: &Settlement) -> usize {
    match settlement {
        Settlement::Complete | Settlement::Release => 0,
        Settlement::Abandon { modify }
        | Settlement::Postpone { modify, .. }
        | Settlement::Defer { modify } => properties_bytes(modify),
        Settlement::DeadLetter { why, modify } => dead_letter_bytes(why) + properties_bytes(modify),
    }
}
