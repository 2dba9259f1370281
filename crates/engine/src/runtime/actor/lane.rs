//! Deliveries on their way out, in order.
//!
//! A delivery leaves when the commit it depends on is durable and its content is here. One whose content has to be
//! read from the disk holds up the deliveries behind it, which keeps each receiver's order; answers to requests do
//! not pass here, so a cold read never delays an acknowledgement.
//!
//! Contents are read only as the process's memory budget has room, which bounds what receivers get whatever credit they
//! have given. While there is none, deliveries wait here, without their contents.

use std::collections::VecDeque;
use std::task::Context;

use peeklock_budget::turn::Place;
use peeklock_budget::{Budget, FREE_OF_CHARGE_BYTES, Owner, Share, Waiting};
use peeklock_storage::{Error, PartitionId, Shard};

use super::commits::CommitNumber;
use super::limits::{READ_BYTES_AHEAD_MAX, READ_KEYS_MAX, TURN_CONTENT_BYTES_MIN};
use super::reads::{Allowance, Content, Reads, Source};
use crate::layout::body_key;
use crate::runtime::damage::Unreadable;
use crate::{BodyRef, Delivery, ReceiverId};

/// What comes out of the lane.
#[derive(Debug)]
pub(super) enum Ready {
    Delivery(Box<Delivery>),
    /// Its content is missing or damaged, for this reason.
    Unreadable(Box<Delivery>, Unreadable),
    Drained(ReceiverId),
}

#[derive(Debug)]
enum Item {
    Delivery {
        after: CommitNumber,
        delivery: Box<Delivery>,
        content: State,
        /// Whether the content had to be read.
        was_cold: bool,
    },
    Drained {
        after: CommitNumber,
        receiver: ReceiverId,
    },
}

/// Of a delivery's content.
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
    /// How many items have left: the number of `items.front()`.
    left: u64,
    /// Numbers of the items that await a content, in order.
    awaiting: VecDeque<u64>,
    /// Contents not asked for yet with their bytes, in order: those of the last of `awaiting`.
    wanted: VecDeque<(BodyRef, u32)>,
    reads: Reads,
    budget: Budget,
    /// Bytes of the contents that were asked for and have not left.
    held_bytes: usize,
    /// The same, as the budget knows it.
    share: Share,
    /// There while contents can't be asked for because others hold the memory.
    short: Option<Waiting>,
    /// There while the next content is larger than what may be asked for.
    place: Option<Place>,
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

    /// How many items have left so far.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// What [`Self::left`] will be once everything in the lane has left.
    pub(super) fn end(&self) -> u64 {
        self.left + self.items.len() as u64
    }

    /// Adds a delivery whose content is known.
    pub(super) fn push(&mut self, after: CommitNumber, delivery: Box<Delivery>) {
        self.items.push_back(Item::Delivery { after, delivery, content: State::Here, was_cold: false });
    }

    /// Adds a delivery whose content must be read first.
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

    /// Asks the store for contents, as far ahead as the limits allow; true when others are to have their turn before the next.
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
            // Several reads are under way at a time; one content is always allowed, whatever its size.
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

    /// Stands in line for a large content that is larger than the allowance; true when it is its turn and there is room.
    fn has_turn(&mut self, content_bytes: usize) -> bool {
        if content_bytes < TURN_CONTENT_BYTES_MIN || self.held_bytes > 0 {
            self.place = None;
            return false;
        }
        let place = self.place.get_or_insert_with(|| self.budget.line_up());
        place.is_first() && content_bytes <= self.budget.free_bytes()
    }

    /// How many contents go together into a read of about `most` bytes, at least one, and their bytes.
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

    /// Whether contents can't be asked for because others hold the memory; nobody says when that is over.
    pub(super) fn is_short_of_memory(&self) -> bool {
        self.short.is_some()
    }

    /// Takes in what arrived; false when nothing did. The error means that the store is dead.
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

    /// Where the item with this number is now.
    fn position(&self, number: u64) -> usize {
        usize::try_from(number.wrapping_sub(self.left)).unwrap_or(usize::MAX)
    }

    /// The next item that may leave.
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

    /// A content that was asked for leaves; what it takes goes along with it, if it is not little.
    fn let_go(&mut self, delivery: &Delivery) -> Option<Share> {
        let bytes = delivery.message.view.content_bytes as usize;
        self.held_bytes -= bytes;
        self.share.set(self.held_bytes);
        (bytes >= FREE_OF_CHARGE_BYTES).then(|| {
            let mut share = self.budget.share(Owner::Deliveries);
            share.set(bytes);
            share
        })
    }
}
