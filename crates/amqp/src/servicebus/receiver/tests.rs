use peeklock_access::ResolvedNode;
use peeklock_engine::runtime::{EntityRef, PartitionHandle};
use peeklock_engine::{QueueId, QueueOptions};
use proptest::prelude::*;

use super::*;

fn receiver() -> Receiver {
    let Ok(ResolvedNode::Entity(address)) = ResolvedNode::of("q") else { panic!("an entity") };
    let (partition, _) = PartitionHandle::new();
    let options = Arc::new(QueueOptions::default().into());
    let found = EntityRef { partition, queue: QueueId(1), options };
    let entity = Arc::new(Entity::new(address, String::new(), found));
    Receiver::new(LinkId(0), entity, ReceiveMode::PeekLock)
}

fn hand_over(receiver: &mut Receiver, messages: u64, bytes: usize) {
    for number in 0..messages {
        receiver.handed_over(LockToken(number.into()), bytes, 0);
    }
}

#[test]
fn small_credit_is_passed_on_at_once() {
    let mut receiver = receiver();
    let window = Window::share(1, usize::MAX);
    let grant = receiver.set_credit(10, false, window).unwrap();
    assert_eq!((grant.limit.messages, grant.drain), (10, false));
    assert_eq!(receiver.set_credit(10, false, window), None, "nothing new");
    assert_eq!(receiver.set_credit(11, false, window).unwrap().limit.messages, 11);
    assert_eq!(receiver.set_credit(0, false, window).unwrap().limit.messages, 0, "credit may shrink");
}

#[test]
fn large_credit_is_passed_on_as_the_peer_reads() {
    let mut receiver = receiver();
    let window = Window::share(1, usize::MAX);
    assert_eq!(receiver.set_credit(u64::MAX, false, window).unwrap().limit.messages, WINDOW_MESSAGES);
    hand_over(&mut receiver, WINDOW_MESSAGES, 10);
    assert_eq!(receiver.transmitted(0, window), None, "nothing read, nothing granted");
    let half = WINDOW_MESSAGES / 2;
    let grant = receiver.transmitted(half, window).unwrap();
    assert_eq!(grant.limit.messages, half + WINDOW_MESSAGES);
    assert_eq!(receiver.transmitted(half + 1, window), None, "grants come in halves of the window");
}

#[test]
fn bytes_bound_the_deliveries_to_a_peer_that_does_not_read() {
    let mut receiver = receiver();
    let window = Window::share(4, usize::MAX);
    let grant = receiver.set_credit(1000, false, window).unwrap();
    assert_eq!(grant.limit.bytes, WINDOW_BYTES / 4);
    hand_over(&mut receiver, 2, 1_000_000);
    assert_eq!(receiver.transmitted(0, window), None);
    let grant = receiver.transmitted(1, window).unwrap();
    assert_eq!(grant.limit.bytes, WINDOW_BYTES / 4 + 1_000_000);
}

#[test]
fn ten_thousand_links_get_one_message_each() {
    let mut receiver = receiver();
    let window = Window::share(10_000, usize::MAX);
    let grant = receiver.set_credit(500, false, window).unwrap();
    assert_eq!(grant.limit, CreditLimit { messages: 1, bytes: WINDOW_BYTES / 10_000 });
    hand_over(&mut receiver, 1, 1_000_000);
    assert_eq!(receiver.transmitted(0, window), None);
    assert_eq!(receiver.transmitted(1, window).unwrap().limit.messages, 2);
}

#[test]
fn a_drain_of_an_empty_queue_completes() {
    let mut receiver = receiver();
    let window = Window::share(1, usize::MAX);
    assert!(receiver.set_credit(5, true, window).unwrap().drain);
    hand_over(&mut receiver, 2, 10);
    assert!(receiver.drained());
    assert!(receiver.set_credit(7, false, window).is_some(), "new credit counts from there");
}

#[test]
fn a_drain_longer_than_the_window_continues_when_the_window_moves() {
    let mut receiver = receiver();
    let window = Window::share(usize::try_from(WINDOW_MESSAGES / 2).unwrap(), usize::MAX);
    receiver.set_credit(3, true, window);
    hand_over(&mut receiver, 2, 10);
    assert!(!receiver.drained(), "stopped by the window, not by the queue");
    assert!(receiver.needs_attention());
    let grant = receiver.transmitted(2, window).unwrap();
    assert!(grant.drain);
    hand_over(&mut receiver, 1, 10);
    assert!(receiver.drained(), "all credit is used");
}

#[test]
fn a_drain_of_large_messages_continues_when_they_are_written() {
    let mut receiver = receiver();
    let window = Window::share(1, usize::MAX);
    receiver.set_credit(100, true, window);
    hand_over(&mut receiver, 5, 1_000_000);
    assert!(!receiver.drained(), "stopped by the window, not by the queue");
    assert!(receiver.needs_attention());
    assert_eq!(receiver.transmitted(0, window), None);
    let grant = receiver.transmitted(5, window).unwrap();
    assert_eq!((grant.limit.messages, grant.drain), (100, true));
    assert!(receiver.drained(), "nothing is left");
}

#[test]
fn credit_after_a_drain_that_is_under_way_is_said_again() {
    let mut receiver = receiver();
    let window = Window::share(1, usize::MAX);
    receiver.set_credit(5, true, window);
    assert!(receiver.set_credit(5, false, window).is_some(), "the drain voids credit granted before");
    assert!(!receiver.drained(), "the peer no longer drains");
    assert_eq!(receiver.set_credit(5, false, window), None);
}

#[test]
fn unsent_deliveries_are_identified_by_their_locks() {
    let mut receiver = receiver();
    let window = Window::share(1, usize::MAX);
    receiver.set_credit(5, false, window);
    hand_over(&mut receiver, 3, 10);
    receiver.transmitted(1, window);
    assert_eq!(receiver.untransmitted().collect::<Vec<_>>(), [LockToken(1), LockToken(2)]);
}

#[test]
fn after_a_withdrawal_the_window_opens_as_the_peer_reads() {
    let mut receiver = receiver();
    let window = Window::share(1, usize::MAX);
    receiver.set_credit(10, false, window);
    hand_over(&mut receiver, 6, 10);
    assert_eq!(receiver.transmitted(2, window), None);
    assert_eq!(receiver.withdrawn(4, false)[..], [2, 3, 4, 5].map(LockToken));
    assert_eq!(receiver.stop().limit.messages, 6, "nothing more, as the engine counts");
    assert_eq!(receiver.transmitted(2, window).unwrap().limit.messages, 7, "one message first");
    hand_over(&mut receiver, 1, 10);
    assert_eq!(receiver.transmitted(3, window).unwrap().limit.messages, 9, "then two");
    hand_over(&mut receiver, 2, 10);
    assert_eq!(receiver.transmitted(5, window).unwrap().limit.messages, 14, "all that the peer will take");
}

#[test]
fn a_withdrawal_asks_for_no_second_answer_to_a_drain() {
    let mut receiver = receiver();
    let window = Window::share(1, usize::MAX);
    receiver.set_credit(10, true, window);
    hand_over(&mut receiver, 4, 10);
    receiver.transmitted(1, window);
    receiver.withdrawn(3, false);
    assert_eq!((receiver.stop().drain, receiver.drains_in_flight()), (false, 1));
    assert!(!receiver.drained(), "the drain that the stop replaced");
    let grant = receiver.transmitted(1, window).unwrap();
    assert_eq!((grant.drain, receiver.drains_in_flight()), (true, 1));
}

/// Its credit is returned when the rest is sent: on this link, a message would wait without credit.
#[test]
fn what_is_withdrawn_after_a_drain_does_not_come_back() {
    let mut receiver = receiver();
    let window = Window::share(1, usize::MAX);
    receiver.set_credit(10, true, window);
    hand_over(&mut receiver, 4, 10);
    receiver.transmitted(1, window);
    assert!(receiver.drained());
    receiver.withdrawn(2, false);
    receiver.stop();
    assert_eq!(receiver.transmitted(2, window), None);
    assert_eq!(receiver.set_credit(4, false, window).unwrap().limit.messages, 6, "as the engine counts");
}

#[test]
fn messages_not_removed_are_not_sent_and_not_counted() {
    let mut receiver = Receiver { deletes: true, ..receiver() };
    let window = Window::share(1, usize::MAX);
    receiver.set_credit(5, false, window);
    hand_over(&mut receiver, 5, 10);
    assert_eq!(receiver.reserve(3)[..], [0, 1, 2].map(LockToken));
    assert_eq!(receiver.reserve(1)[..], [LockToken(3)]);
    assert_eq!(receiver.release_reserved(3, &[0, 2], false)[..], [2, 0].map(LockToken));
    assert_eq!(receiver.untransmitted().collect::<Vec<_>>(), [LockToken(4)]);
    assert_eq!(receiver.release_reserved(1, &[], false)[..], []);
    let grant = receiver.transmitted(2, window).unwrap();
    assert_eq!(grant.limit.messages, 7, "two more in place of those that did not leave");
}

/// An engine with an endless queue of messages of 100 bytes, and a peer that reads at given times.
struct Model {
    receiver: Receiver,
    window: Window,
    limit: CreditLimit,
    draining: bool,
    /// Answers to drains that the link has not heard.
    answers: u32,
    /// Messages delivered, as the engine counts.
    handed: u64,
    /// Messages written, as the link counts.
    written: u64,
    given_back: u64,
    /// Whether the last drain is complete.
    is_drained: bool,
}

impl Model {
    fn apply(&mut self, grant: Option<Grant>) {
        if let Some(grant) = grant {
            self.answers += u32::from(self.draining);
            (self.limit, self.draining) = (grant.limit, grant.drain);
            self.end_drain();
        }
    }

    fn is_at_limit(&self) -> bool {
        self.handed >= self.limit.messages || self.handed * 100 >= self.limit.bytes
    }

    fn end_drain(&mut self) {
        if self.draining && self.is_at_limit() {
            self.draining = false;
            self.limit.messages = self.handed;
            self.answers += 1;
        }
    }

    fn hear(&mut self) {
        while self.answers > 0 {
            self.answers -= 1;
            self.is_drained |= self.receiver.drained();
            let grant = self.receiver.transmitted(self.written, self.window);
            self.apply(grant);
        }
    }

    /// Answers precede later deliveries.
    fn deliver(&mut self, messages_max: u64) {
        self.hear();
        for _ in 0..messages_max {
            if self.is_at_limit() {
                break;
            }
            self.receiver.handed_over(LockToken(0), 100, 0);
            self.handed += 1;
        }
        self.end_drain();
    }

    /// Messages delivered and not written.
    fn waiting(&self) -> u64 {
        self.handed - self.given_back - self.written
    }

    /// Withdraws messages that could not be written in time.
    fn give_back(&mut self) {
        let waiting = self.waiting();
        self.receiver.withdrawn(usize::try_from(waiting).unwrap(), false);
        self.given_back += waiting;
        let stop = self.receiver.stop();
        self.apply(Some(stop));
        let grant = self.receiver.transmitted(self.written, self.window);
        self.apply(grant);
    }

    fn write_all(&mut self) {
        self.written += self.waiting();
        let grant = self.receiver.transmitted(self.written, self.window);
        self.apply(grant);
    }
}

proptest! {
    /// In any order of credit, drains, deliveries and writes: waiting messages never exceed the window by more than one, and a
    /// peer that reads gets all messages it gave credit for.
    #[test]
    fn windows_bound_and_never_stall(
        steps in prop::collection::vec((0u8..6, 1u64..50), 1..100),
        links in 1usize..9000,
    ) {
        let window = Window::share(links, usize::MAX);
        let limit = CreditLimit::default();
        let (receiver, draining, answers) = (receiver(), false, 0);
        let mut model =
            Model { receiver, window, limit, draining, answers, handed: 0, written: 0, given_back: 0, is_drained: false };
        let mut credit = 0;
        for (step, amount) in steps {
            match step {
                0 | 4 => {
                    credit += amount;
                    model.is_drained = false;
                    let grant = model.receiver.set_credit(credit, step == 4, window);
                    model.apply(grant);
                }
                1 => model.deliver(amount),
                2 if model.waiting() > 0 => {
                    model.give_back();
                    if model.is_drained {
                        credit = model.handed - model.given_back;
                    }
                }
                5 => model.hear(),
                _ => model.write_all(),
            }
            prop_assert!(model.waiting() <= window.messages);
            prop_assert!(model.waiting() * 100 < window.bytes + 100);
        }
        for _ in 0..=credit {
            model.deliver(u64::MAX);
            model.write_all();
        }
        prop_assert_eq!(model.handed - model.given_back, credit);
    }
}
