//! Finds the messages for a command by browsing, without locking them.

use std::collections::BTreeSet;

use peeklock_client::{Client, Message, MessageState};

use super::selection::Selection;
use super::source::Source;
use super::{Failure, peek};
use crate::cli::table::Table;

const PAGE: u32 = 250;
/// Maximum size of messages processed at a time.
const BATCH_BYTES_MAX: usize = 16 << 20;
/// Rows of the preview.
const ROWS_MAX: usize = 20;

/// The messages found.
pub(super) struct Scan {
    /// Their sequence numbers.
    pub(super) numbers: BTreeSet<i64>,
    /// The size of the largest one, in bytes.
    bytes_max: usize,
    /// The first ones.
    pub(super) preview: Table,
}

impl Scan {
    /// The number of messages.
    pub(super) fn len(&self) -> u64 {
        u64::try_from(self.numbers.len()).unwrap_or(u64::MAX)
    }

    /// How many to process at a time, at most `most`: fewer if messages are large.
    pub(super) fn batch(&self, most: u32) -> u32 {
        let count = BATCH_BYTES_MAX / self.bytes_max.max(1);
        u32::try_from(count).unwrap_or(most).clamp(1, most)
    }
}

/// Browses a whole queue, or a session of it, for messages in a state.
pub(super) async fn scan(
    client: &mut Client,
    source: Source<'_>,
    selection: &Selection,
    state: MessageState,
) -> Result<Scan, Failure> {
    let shows_reasons = source.address.sub_queue != super::address::SubQueue::Main;
    let mut found = Scan { numbers: BTreeSet::new(), bytes_max: 0, preview: peek::heading(shows_reasons) };
    let mut from = 0;
    loop {
        let page = client.peek(&source.path(), from, PAGE, source.session).await;
        let page = page.map_err(|error| source.about(error))?;
        if page.messages.is_empty() {
            return Ok(found);
        }
        for encoded in &page.messages {
            let message = Message::decode(encoded)?;
            from = message.sequence_number().saturating_add(1);
            // A dead letter keeps its former state in an annotation.
            let is_state = shows_reasons || message.state() == state;
            if is_state && selection.matches(&message)? {
                if found.numbers.len() < ROWS_MAX {
                    found.preview.row(peek::row(&message, shows_reasons));
                }
                found.bytes_max = found.bytes_max.max(encoded.len());
                found.numbers.insert(message.sequence_number());
            }
        }
    }
}
