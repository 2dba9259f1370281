use super::*;
use crate::metrics::SeriesPool;
use crate::partition::reasons::{DELIVERIES_EXCEEDED, EXPIRED};
use crate::runtime::forwarder::why_undeliverable;
use crate::{DeadLetter, MessageState, QueuePath, ReceiveMode, ReceiverOptions, Refusal, SequenceNumber};

const SUBSCRIPTION: QueueId = QueueId(2);
const TOKEN: LockToken = LockToken(7);

fn with_lock() -> Tallies {
    let mut tallies = Tallies::new(QueueId(1), SeriesPool::new(10).entity());
    let locked = Event::Locked {
        queue: SUBSCRIPTION,
        number: SequenceNumber(1),
        sub_queue: SubQueue::Main,
        token: TOKEN,
        until: Timestamp(1),
        receiver: None,
        in_session: false,
        counts: true,
    };
    tallies.note(Timestamp(0), Cause::Other, &[locked], &[]);
    assert_eq!(tallies.held.len(), 1);
    tallies
}

#[test]
fn nothing_is_remembered_of_a_subscription_that_is_deleted() {
    let mut tallies = with_lock();
    let receiver = ReceiverId(3);
    let options = ReceiverOptions { source: QueuePath::main(SUBSCRIPTION), mode: ReceiveMode::PeekLock };
    tallies.note(Timestamp(0), Cause::Other, &[Event::ReceiverOpened { receiver, options }], &[]);
    assert_eq!(tallies.links.len(), 1);
    let removed =
        Event::SubscriptionRemoved { queue: SUBSCRIPTION, bodies: Box::default(), unnamed: Box::default() };
    tallies.note(Timestamp(1), Cause::Other, &[removed], &[]);
    assert!(tallies.held.is_empty() && tallies.links.is_empty() && tallies.subscriptions.is_empty());
    // The subscription's client may close its receiver after the deletion.
    tallies.note(Timestamp(2), Cause::Other, &[Event::ReceiverClosed { receiver }], &[]);
    tallies.publish(|_| None);
    assert!(tallies.subscriptions.is_empty() && tallies.touched.is_empty());
}

#[test]
fn links_of_a_deleted_subscription_leave_the_sum_of_those_without_series() {
    let pool = SeriesPool::new(0);
    let (topic, subscription) = (pool.entity(), pool.entity());
    let mut tallies = Tallies::new(QueueId(1), topic);
    let find = |_| Some(Arc::clone(&subscription));
    let options = ReceiverOptions { source: QueuePath::main(SUBSCRIPTION), mode: ReceiveMode::PeekLock };
    let opened = Event::ReceiverOpened { receiver: ReceiverId(3), options };
    let watched = Event::Watched { watcher: ReceiverId(4), queue: SUBSCRIPTION, sends: true };
    tallies.note(Timestamp(0), Cause::Other, &[opened, watched], &[]);
    tallies.publish(find);
    assert_eq!(pool.others().links(), (1, 1));
    let removed =
        Event::SubscriptionRemoved { queue: SUBSCRIPTION, bodies: Box::default(), unnamed: Box::default() };
    tallies.note(Timestamp(1), Cause::Other, &[removed], &[]);
    tallies.publish(|_| None);
    assert_eq!(pool.others().links(), (0, 0));
}

#[test]
fn a_lock_of_a_damaged_message_is_measured_no_longer() {
    let mut tallies = with_lock();
    let (number, sub_queue) = (SequenceNumber(1), Some(SubQueue::Main));
    let quarantined = Event::Quarantined { queue: SUBSCRIPTION, number, sub_queue, lock: Some(TOKEN) };
    tallies.note(Timestamp(1), Cause::Other, &[quarantined], &[]);
    assert!(tallies.held.is_empty());
}

/// Totals after a locked message was dead-lettered into this sub-queue.
fn dead_lettered(sub_queue: SubQueue, why: DeadLetter) -> crate::metrics::Totals {
    let mut tallies = with_lock();
    let mut record = Record::new(Timestamp(0), None, 0);
    record.set_place(sub_queue, MessageState::Active);
    record.edit_extra(|extra| extra.dead_letter = Some(Arc::new(why)));
    let (number, from, change) = (SequenceNumber(1), SubQueue::DeadLetter, Change::DeadLettered);
    let moved = Event::Changed { queue: SUBSCRIPTION, number, from, record, lock: Some(TOKEN), change };
    tallies.note(Timestamp(1), Cause::Other, &[moved], &[]);
    std::mem::take(&mut tallies.of(SUBSCRIPTION).totals)
}

#[test]
fn a_transfer_dead_letter_is_not_counted_again_under_its_first_reason() {
    for reason in [EXPIRED, DELIVERIES_EXCEEDED] {
        let why = DeadLetter { reason: Some(reason.into()), description: None };
        let totals = dead_lettered(SubQueue::TransferDeadLetter, why);
        assert_eq!(totals.dead_lettered_forwarding, 1, "{reason}");
        let others = (totals.expired, totals.dead_lettered_ttl, totals.dead_lettered_max_delivery);
        assert_eq!((others, totals.locks_expired), ((0, 0, 0), 0), "{reason}");
    }
}

#[test]
fn every_refusal_by_a_target_counts_as_forwarding() {
    let refusals = [
        Refusal::EntityDeleted,
        Refusal::EntityDisabled,
        Refusal::EntityFull { limit_bytes: 1 },
        Refusal::MessageTooLarge { size_bytes: 2, limit_bytes: 1 },
        Refusal::NotAllowed("something else"),
    ];
    for refusal in refusals {
        let totals = dead_lettered(SubQueue::DeadLetter, why_undeliverable(&refusal).unwrap());
        assert_eq!(totals.dead_lettered_forwarding, 1, "{refusal}");
    }
}
