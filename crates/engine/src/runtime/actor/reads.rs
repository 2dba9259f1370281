//! Reads of bodies from the store, answered in the order requested.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use peeklock_storage::{Error, Key, Read, Shard};

use super::limits::{READ_AT_ONCE_BYTES_MAX, READ_AT_ONCE_BYTES_MIN};
use crate::runtime::Clock;
use crate::runtime::damage::Unreadable;
use crate::runtime::retry_backoff::RetryBackoff;

/// A body, or why it can't be read.
pub(super) type Content = Result<Bytes, Unreadable>;

/// The store for reads, and the clock for pauses between attempts.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) shard: &'a dyn Shard,
    pub(super) clock: &'a dyn Clock,
}

/// Bytes that the store may still return synchronously in this turn: the actor copies them, which delays others.
#[derive(Debug)]
pub(super) struct Allowance {
    left_bytes: usize,
}

impl Allowance {
    pub(super) const fn of_a_turn() -> Self {
        Self { left_bytes: READ_AT_ONCE_BYTES_MAX }
    }

    pub(super) const fn is_used_up(&self) -> bool {
        self.left_bytes == 0
    }

    fn use_up(&mut self, bytes: usize) {
        self.left_bytes = self.left_bytes.saturating_sub(bytes.max(READ_AT_ONCE_BYTES_MIN));
    }
}

/// Reads under way. A read that the device fails is repeated after pauses, a bounded number of times; one that fails
/// because the store can't be reached is repeated until it succeeds. A read that fails for good is repeated key by key, so
/// that one bad body does not hide its neighbours.
#[derive(Debug, Default)]
pub(super) struct Reads {
    queue: VecDeque<Reading>,
    bytes: usize,
}

#[derive(Debug)]
struct Reading {
    keys: Vec<Key>,
    bytes: usize,
    backoff: RetryBackoff,
    state: State,
}

enum State {
    Asked(Read),
    Pausing(Pin<Box<dyn Future<Output = ()> + Send>>),
}

impl fmt::Debug for State {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Asked(_) => "Asked",
            Self::Pausing(_) => "Pausing",
        })
    }
}

impl Reading {
    fn new(shard: &dyn Shard, keys: Vec<Key>, bytes: usize) -> Self {
        Self { state: State::Asked(shard.read(keys.clone())), keys, bytes, backoff: RetryBackoff::default() }
    }

    fn poll(
        &mut self,
        context: &mut Context<'_>,
        shard: &dyn Shard,
    ) -> Poll<Result<Vec<Option<Bytes>>, Error>> {
        if let State::Pausing(pause) = &mut self.state {
            std::task::ready!(pause.as_mut().poll(context));
            self.state = State::Asked(shard.read(self.keys.clone()));
        }
        match &mut self.state {
            State::Asked(read) => Pin::new(read).poll(context),
            State::Pausing(_) => Poll::Pending,
        }
    }
}

impl Reads {
    /// Starts a read of several bodies, `bytes` bytes together. If the store answers at once, that uses up the allowance.
    pub(super) fn start(
        &mut self,
        shard: &dyn Shard,
        keys: Vec<Key>,
        bytes: usize,
        allowance: &mut Allowance,
    ) {
        self.bytes += bytes;
        let reading = Reading::new(shard, keys, bytes);
        if matches!(&reading.state, State::Asked(read) if read.is_answered()) {
            allowance.use_up(bytes);
        }
        self.queue.push_back(reading);
    }

    /// Whether all started reads have arrived.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Bytes of the bodies whose read was started and that have not arrived.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Appends bodies that arrived to `contents`, in order. Returns whether any arrived; the error means that the shard is
    /// lost.
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
        source: Source<'_>,
        contents: &mut Vec<Content>,
    ) -> Result<bool, Error> {
        let before = contents.len();
        while let Some(front) = self.queue.front_mut() {
            let Poll::Ready(result) = front.poll(context, source.shard) else { break };
            let Some(reading) = self.queue.pop_front() else { break };
            self.bytes -= reading.bytes;
            match result {
                Ok(mut values) => {
                    values.resize(reading.keys.len(), None);
                    contents.extend(
                        values
                            .into_iter()
                            .map(|value| value.ok_or_else(|| Unreadable::new("the content is missing"))),
                    );
                }
                Err(error) if error.is_loss() => return Err(error),
                Err(error) => self.retry_or_give_up(source, reading, error, contents),
            }
        }
        Ok(contents.len() > before)
    }

    fn retry_or_give_up(
        &mut self,
        source: Source<'_>,
        mut reading: Reading,
        error: Error,
        contents: &mut Vec<Content>,
    ) {
        if reading.backoff.allows_for(&error) {
            if reading.backoff.is_fresh() {
                tracing::warn!(%error, "message bodies can't be read; trying again after a pause");
            }
            let until = source.clock.now().plus_ms(reading.backoff.next_pause_ms());
            reading.state = State::Pausing(source.clock.sleep_until(until));
            reading.bytes = 0;
            self.queue.push_front(reading);
        } else if reading.keys.len() > 1 {
            for key in reading.keys.into_iter().rev() {
                let one = Reading::new(source.shard, vec![key], 0);
                self.queue.push_front(Reading { backoff: reading.backoff, ..one });
            }
        } else {
            contents.extend(reading.keys.first().map(|_| Err(Unreadable::from(error))));
        }
    }
}
