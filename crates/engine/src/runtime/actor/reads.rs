//! Contents on their way from the disk, in the order asked for.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use peeklock_storage::{Error, Key, Read, Shard};

use super::commits::is_dead;
use crate::runtime::damage::Unreadable;

/// A content, or why there is none.
pub(super) type Content = Result<Bytes, Unreadable>;

/// Reads under way. A read that meets damage is repeated key by key, so that one bad content does not hide its
/// neighbours.
#[derive(Debug, Default)]
pub(super) struct Reads {
    queue: VecDeque<Reading>,
    bytes: usize,
}

#[derive(Debug)]
struct Reading {
    read: Read,
    keys: Vec<Key>,
    bytes: usize,
}

impl Reads {
    /// Asks for several contents at once, of so many bytes together.
    pub(super) fn start(&mut self, shard: &dyn Shard, keys: Vec<Key>, bytes: usize) {
        self.bytes += bytes;
        self.queue.push_back(Reading { read: shard.read(keys.clone()), keys, bytes });
    }

    /// Whether no content is asked for that is not here yet.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Bytes of the contents asked for and not yet here.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Appends what arrived to `contents`, in order. Says whether anything arrived; the error means that the store is
    /// dead.
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
        shard: &dyn Shard,
        contents: &mut Vec<Content>,
    ) -> Result<bool, Error> {
        let before = contents.len();
        while let Some(front) = self.queue.front_mut() {
            let Poll::Ready(result) = Pin::new(&mut front.read).poll(context) else { break };
            let Some(Reading { keys, bytes, .. }) = self.queue.pop_front() else { break };
            self.bytes -= bytes;
            match result {
                Ok(mut values) => {
                    values.resize(keys.len(), None);
                    contents.extend(
                        values
                            .into_iter()
                            .map(|value| value.ok_or_else(|| Unreadable::new("the content is missing"))),
                    );
                }
                Err(error) if is_dead(&error) => return Err(error),
                Err(error) => self.retry_or_give_up(shard, keys, error, contents),
            }
        }
        Ok(contents.len() > before)
    }

    fn retry_or_give_up(
        &mut self,
        shard: &dyn Shard,
        keys: Vec<Key>,
        error: Error,
        contents: &mut Vec<Content>,
    ) {
        if keys.len() <= 1 {
            contents.extend(keys.first().map(|_| Err(Unreadable::from(error))));
            return;
        }
        for key in keys.into_iter().rev() {
            self.queue.push_front(Reading { read: shard.read(vec![key]), keys: vec![key], bytes: 0 });
        }
    }
}
