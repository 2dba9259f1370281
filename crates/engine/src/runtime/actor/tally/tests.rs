use super::*;
use crate::metrics::SeriesPool;
use crate::{QueuePath, ReceiveMode, ReceiverOptions, SequenceNumber};

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
    let removed = Event::SubscriptionRemoved { queue: SUBSCRIPTION, bodies: Box::default() };
    tallies.note(Timestamp(1), Cause::Other, &[removed], &[]);
    assert!(tallies.held.is_empty() && tallies.links.is_empty() && tallies.subscriptions.is_empty());
    // The subscription's client may close its receiver after the deletion.
    tallies.note(Timestamp(2), Cause::Other, &[Event::ReceiverClosed { receiver }], &[]);
    tallies.publish(|_| None);
    assert!(tallies.subscriptions.is_empty() && tallies.touched.is_empty());
}

#[test]
fn a_lock_of_a_damaged_message_is_measured_no_longer() {
    let mut tallies = with_lock();
    let (number, sub_queue) = (SequenceNumber(1), Some(SubQueue::Main));
    let quarantined = Event::Quarantined { queue: SUBSCRIPTION, number, sub_queue, lock: Some(TOKEN) };
    tallies.note(Timestamp(1), Cause::Other, &[quarantined], &[]);
    assert!(tallies.held.is_empty());
}
