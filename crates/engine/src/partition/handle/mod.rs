//! One file per command.

mod act;
mod cancel;
mod credit;
mod deferred;
mod delete;
mod entity;
mod forward;
mod key_partition;
mod listing;
mod options;
mod peek;
mod quarantine;
mod receiver;
mod renew;
mod rule;
mod select;
mod send;
mod session;
mod session_list;
mod session_lock;
mod session_state;
mod settle;
mod subscription;

pub(super) use self::peek::SessionBrowsing;
#[cfg(test)]
pub(super) use self::rule::RULES_BYTES_MAX;
pub(super) use self::session_list::SessionListing;
use super::queue::Queue;
use super::step::Step;
use crate::{QueuePath, Refusal, SequenceNumber, SubQueue};

/// Maximum number of sequence numbers or lock tokens in one all-or-nothing command.
const LIST_MAX: usize = 10_000;

impl Step<'_> {
    /// The queue or subscription of a source, for reading. Of a topic itself, only the transfer dead letters can be read
    /// (`TopicClient.FormatTransferDeadLetterPath` of the older .NET client; ServiceBusExplorer 100).
    fn readable(&self, source: QueuePath) -> Result<&Queue, Refusal> {
        let QueuePath { queue: id, sub_queue } = source;
        if self.is_topic() && id == self.state().entity.id && sub_queue != SubQueue::TransferDeadLetter {
            return Err(Refusal::NotAllowed(
                "A topic has no receivers: receive or peek from one of its subscriptions.",
            ));
        }
        let queue = self.state().queue(id).ok_or(Refusal::EntityDeleted)?;
        self.check_receive_allowed(id)?;
        Ok(queue)
    }
}

/// Refuses an empty list or one that is too long.
fn check_list_length(length: usize) -> Result<(), Refusal> {
    match length {
        0 => Err(Refusal::InvalidArgument("The list is empty.".to_owned())),
        1..=LIST_MAX => Ok(()),
        _ => Err(Refusal::InvalidArgument(format!(
            "The list has {length} elements, at most {LIST_MAX} are allowed."
        ))),
    }
}

/// Refuses an empty list, one that is too long, or one that contains a number twice.
fn check_numbers(numbers: &[SequenceNumber]) -> Result<(), Refusal> {
    check_list_length(numbers.len())?;
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    let twice = sorted.windows(2).find_map(|pair| match pair {
        [one, other] if one == other => Some(one.0),
        _ => None,
    });
    match twice {
        Some(number) => {
            Err(Refusal::InvalidArgument(format!("The list names sequence number {number} twice.")))
        }
        None => Ok(()),
    }
}
