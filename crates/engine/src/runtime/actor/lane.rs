//! Outgoing deliveries, in order.
//!
//! A delivery leaves when the commit it depends on is durable and its body is loaded. A delivery whose body has to be read
//! from the disk holds up the deliveries behind it, which keeps each receiver's order. Replies do not pass through the
//! lane, so a cold read never delays an acknowledgement.
//!
//! Bodies are read only while the process's memory budget has room, which bounds the memory of deliveries regardless of the
//! receivers' credit. Otherwise deliveries wait in the lane without their bodies.

use std::collections::VecDeque;
use std::task::Context;

use peeklock_budget::turn::QueuePosition;
use peeklock_budget::{Budget, Owner, Share, UNREPORTED_BYTES_MAX, Waiting};
use peeklock_storage::{Error, PartitionId, Shard};

use super::commits::CommitNumber;
use super::limits::{READ_BYTES_AHEAD_MAX, READ_KEYS_MAX, TURN_CONTENT_BYTES_MIN};
use super::reads::{Allowance, Content, Reads, Source};
use crate::layout::body_key;
use crate::runtime::damage::Unreadable;
use crate::{BodyRef, Delivery, ReceiverId};

/// An item that leaves the lane.
#[derive(Debug)]
pub(super) enum Ready {
    Delivery(Box<Delivery>),
    /// A delivery whose body is missing or damaged, with the reason.
    Unreadable(Box<Delivery>, Unreadable),
    Drained(ReceiverId),
}

#[derive(Debug)]
enum Item {
    Delivery {
        after: CommitNumber,
        delivery: Box<Delivery>,
        content: State,
        /// Whether the body had to be read from the store.
        was_cold: bool,
    },
    Drained {
        after: CommitNumber,
        receiver: ReceiverId,
    },
}

/// State of a delivery's body.
#[derive(Debug, PartialEq, Eq)]
enum State {
    Here,
    Awaited,
    Unreadable(Unreadable),
}

/// See the module.
#[derive(Debug)]
pub(super) struct DeliveryLane {
    partition: PartitionId,
    items: VecDeque<Item>,
    /// Number of items that have left; also the number of `items.front()`.
    left: u64,
    /// Numbers of the items that await a body, in order.
    awaiting: VecDeque<u64>,
    /// Bodies whose read was not started, with their size in bytes, in order; they belong to the last entries of
    /// `awaiting`.
    wanted: VecDeque<(BodyRef, u32)>,
    reads: Reads,
    budget: Budget,
    /// Bytes of the bodies whose read was started and that have not left.
    held_bytes: usize,
    /// The same number, as reported to the memory budget.
    share: Share,
    /// Set while reads can't start because other tasks hold the memory.
    short: Option<Waiting>,
    /// Set while the next body is larger than the allowance.
    place: Option<QueuePosition>,
    arrived: Vec<Content>,
}

impl DeliveryLane {
    pub(super) fn new(partition: PartitionId, budget: &Budget) -> Self {
        Self {
            budget: budget.clone(),
            held_bytes: 0,
            share: budget.share(Owner::Deliveries),
            short: None,
            place: None,
            partition,
            items: VecDeque::new(),
            left: 0,
            awaiting: VecDeque::new(),
            wanted: VecDeque::new(),
            reads: Reads::default(),
            arrived: Vec::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// The value of [`Self::left`] once everything now in the lane has left.
    pub(super) fn end(&self) -> u64 {
        self.left + self.items.len() as u64
    }

    /// Adds a delivery whose body is loaded.
    pub(super) fn push(&mut self, after: CommitNumber, delivery: Box<Delivery>) {
        self.items.push_back(Item::Delivery { after, delivery, content: State::Here, was_cold: false });
    }

    /// Adds a delivery whose body must be read first.
    pub(super) fn push_cold(&mut self, after: CommitNumber, delivery: Box<Delivery>) {
        self.awaiting.push_back(self.end());
        let view = &delivery.message.view;
        self.wanted.push_back((view.body, view.content_bytes));
        self.items.push_back(Item::Delivery { after, delivery, content: State::Awaited, was_cold: true });
    }

    /// Adds the end of a drain.
    pub(super) fn push_drained(&mut self, after: CommitNumber, receiver: ReceiverId) {
        self.items.push_back(Item::Drained { after, receiver });
    }

    /// Starts reads of bodies, as far ahead as the limits allow; true if the actor must yield before it starts more.
    pub(super) fn start_reads(&mut self, shard: &dyn Shard, allowance: &mut Allowance) -> bool {
        self.short = None;
        while let Some((_, first_bytes)) = self.wanted.front() {
            let first_bytes = *first_bytes as usize;
            let room = self.budget.allowance().saturating_sub(self.held_bytes);
            if first_bytes > room && !self.has_turn(first_bytes) {
                self.short = Some(self.budget.wait());
                return false;
            }
            self.place = None;
            // Several reads are under way at a time; a single body is always allowed, whatever its size.
            let ahead = READ_BYTES_AHEAD_MAX.saturating_sub(self.reads.bytes());
            if first_bytes > ahead && !self.reads.is_empty() {
                return false;
            }
            let (count, bytes) = self.next_read(room.min(ahead).min(READ_BYTES_AHEAD_MAX / 4));
            let key = |(body, _): (BodyRef, u32)| body_key(self.partition, body);
            let keys = self.wanted.drain(..count).map(key).collect();
            self.reads.start(shard, keys, bytes, allowance);
            self.held_bytes += bytes;
            self.share.set(self.held_bytes);
            if allowance.is_used_up() {
                return true;
            }
        }
        false
    }

    /// Queues for memory for a body larger than the allowance; true if it is first in line and there is room.
    fn has_turn(&mut self, content_bytes: usize) -> bool {
        if content_bytes < TURN_CONTENT_BYTES_MIN || self.held_bytes > 0 {
            self.place = None;
            return false;
        }
        let place = self.place.get_or_insert_with(|| self.budget.queue_for_turn());
        place.is_first() && content_bytes <= self.budget.free_bytes()
    }

    /// Number and total bytes of the bodies for the next read: about `most` bytes, at least one body.
    fn next_read(&self, most: usize) -> (usize, usize) {
        let (mut count, mut bytes) = (0, 0_usize);
        for (_, more) in self.wanted.iter().take(READ_KEYS_MAX) {
            let with = bytes.saturating_add(*more as usize);
            if count > 0 && with > most {
                break;
            }
            (count, bytes) = (count + 1, with);
        }
        (count, bytes)
    }

    /// Whether reads can't start because other tasks hold the memory. The end of this state is not signalled, so it must be
    /// polled.
    pub(super) fn is_short_of_memory(&self) -> bool {
        self.short.is_some()
    }

    /// Accepts bodies that arrived; false if none did. The error means that the shard is lost.
    pub(super) fn poll(&mut self, context: &mut Context<'_>, source: Source<'_>) -> Result<bool, Error> {
        let mut arrived = std::mem::take(&mut self.arrived);
        let progress = self.reads.poll(context, source, &mut arrived)?;
        for value in arrived.drain(..) {
            self.fill(value);
        }
        self.arrived = arrived;
        Ok(progress)
    }

    fn fill(&mut self, value: Content) {
        let Some(number) = self.awaiting.pop_front() else { return };
        let position = self.position(number);
        let Some(Item::Delivery { delivery, content, .. }) = self.items.get_mut(position) else { return };
        match value {
            Ok(value) => {
                *content = State::Here;
                delivery.message.content = value;
            }
            Err(reason) => *content = State::Unreadable(reason),
        }
    }

    /// The position in `items` of the item with this number.
    fn position(&self, number: u64) -> usize {
        usize::try_from(number.wrapping_sub(self.left)).unwrap_or(usize::MAX)
    }

    /// Takes out the next item that may leave.
    pub(super) fn pop(&mut self, durable: CommitNumber) -> Option<Ready> {
        let leaves = match self.items.front()? {
            Item::Delivery { after, content, .. } => *after <= durable && *content != State::Awaited,
            Item::Drained { after, .. } => *after <= durable,
        };
        if !leaves {
            return None;
        }
        self.left += 1;
        Some(match self.items.pop_front()? {
            Item::Delivery { delivery, content: State::Unreadable(reason), .. } => {
                self.let_go(&delivery);
                Ready::Unreadable(delivery, reason)
            }
            Item::Delivery { mut delivery, was_cold, .. } => {
                if was_cold {
                    delivery.share = self.let_go(&delivery);
                }
                Ready::Delivery(delivery)
            }
            Item::Drained { receiver, .. } => Ready::Drained(receiver),
        })
    }

    /// Takes a body that leaves off the lane's memory; a large one gets a share of its own, which the delivery carries.
    fn let_go(&mut self, delivery: &Delivery) -> Option<Share> {
        let bytes = delivery.message.view.content_bytes as usize;
        self.held_bytes -= bytes;
        self.share.set(self.held_bytes);
        (bytes >= UNREPORTED_BYTES_MAX).then(|| {
            let mut share = self.budget.share(Owner::Deliveries);
            share.set(bytes);
            share
        })
    }
}
