//! Histories that the simulation once judged wrongly or that the broker once failed, as they were found.

use peeklock_engine::{ReceiveMode, SubQueue};
use peeklock_storage::local::Event;

use super::forwarding::network::Node;
use super::play_on_disk;
use super::steps::{Act, DiskStep, ForwardStep, How, Place, Step, TopicStep};

/// A transaction that sends to these queues and completes up to so many messages.
fn transact(to: &[usize], completes: usize) -> Step {
    let to = to.iter().copied().map(Place::Queue).collect();
    Step::Transact { to, delay_ms: None, settles: vec![How::Complete; completes] }
}

/// The message is durable, but its topic takes part in a joint commit when the power fails, so it was not answered.
#[test]
fn a_message_that_was_stored_and_not_answered_may_be_there_after_a_restart() {
    let send = |to| Step::Send { to, flavours: vec![0], delay_ms: None };
    let commit = |batches| Step::Commit { batches, refused: None };
    play_on_disk(&[
        transact(&[], 0),
        send(Place::Topic),
        send(Place::Topic),
        commit(2),
        Step::CrashBehind { behind_ms: 1 },
        Step::Receive {
            from: Place::Subscription(0),
            sub_queue: SubQueue::Main,
            mode: ReceiveMode::PeekLock,
            credit: 2,
        },
        transact(&[0], 0),
        transact(&[0], 0),
        transact(&[], 0),
        send(Place::Queue(0)),
        transact(&[0], 0),
        Step::Read,
        send(Place::Topic),
        Step::FullOnce,
        Step::Settle { which: 0, how: How::Complete },
        transact(&[0], 0),
        commit(2),
        transact(&[0], 1),
        Step::Disk(DiskStep::Keep),
        commit(3),
        Step::Crash { seed: 0 },
    ]);
}

/// A deletion is refused; the declaration after it finds the subscription and is answered once the topic has been reloaded;
/// the power fails before the responses are read. The response to the deletion says that it did not happen.
#[test]
fn a_deletion_that_found_no_room_is_not_in_doubt_after_a_power_cut() {
    let send = |to| Step::Send { to, flavours: vec![0], delay_ms: None };
    let commit = |batches| Step::Commit { batches, refused: None };
    // The power fails while the queue is reloaded, after the topic: tries each file-system call.
    for pass in 0..READ_BACK_CALLS_MAX {
        play_on_disk(&[
            send(Place::Queue(0)),
            commit(1),
            send(Place::Topic),
            send(Place::Queue(0)),
            Step::Topic(TopicStep::Delete { name: 1 }),
            send(Place::Queue(0)),
            Step::FullOnce,
            commit(1),
            Step::FullOnce,
            commit(1),
            Step::Topic(TopicStep::Declare { name: 1 }),
            Step::Disk(DiskStep::Plan { call: None, pass, event: Event::PowerCut(1) }),
            commit(2),
        ]);
    }
}

/// Maximum number of file-system calls that reload a topic and a queue.
const READ_BACK_CALLS_MAX: u64 = 24;

/// A rule is added and a message is published under it once the topic has been reloaded; both are answered, and the power
/// fails
/// before the responses are read.
#[test]
fn a_message_meets_the_change_that_was_answered_before_it_also_when_others_are_in_doubt() {
    let publish = |flavour| Step::Send { to: Place::Topic, flavours: vec![flavour], delay_ms: None };
    let commit = |batches| Step::Commit { batches, refused: None };
    play_on_disk(&[
        publish(1),
        Step::Disk(DiskStep::Plan { call: None, pass: 29, event: Event::PowerCut(0) }),
        Step::Receive {
            from: Place::Subscription(2),
            sub_queue: SubQueue::Main,
            mode: ReceiveMode::ReceiveAndDelete,
            credit: 1,
        },
        publish(1),
        publish(1),
        Step::Advance { duration_ms: 60_000 },
        commit(3),
        commit(1),
        publish(0),
        publish(0),
        Step::FullOnce,
        publish(0),
        Step::Disk(DiskStep::Keep),
        publish(0),
        publish(0),
        publish(0),
        Step::Disk(DiskStep::FailReads(1, 5)),
        commit(3),
        Step::Topic(TopicStep::AddRule { name: 0, rule: 1 }),
        Step::Disk(DiskStep::Keep),
        publish(0),
        commit(3),
        publish(0),
        commit(2),
    ]);
}

/// A scheduled message is due while its topic can't be reloaded; after the restart the clock hasn't reached that time again.
#[test]
fn a_scheduled_message_that_is_due_in_a_topic_that_can_not_be_read_back_may_wait_after_a_restart() {
    let publish = |delay_ms| Step::Send { to: Place::Topic, flavours: vec![0], delay_ms };
    let commit = |batches| Step::Commit { batches, refused: None };
    play_on_disk(&[
        Step::Disk(DiskStep::FailReads(2, 5)),
        publish(None),
        publish(Some(1)),
        publish(None),
        publish(None),
        publish(None),
        commit(2),
        Step::FullOnce,
        Step::Disturb { off_ms: -1_000, for_ms: 101 },
        commit(3),
        publish(None),
    ]);
}

/// A message scheduled on a topic is due while the store is full: it stays scheduled until the log's keeper has freed space.
#[test]
fn a_scheduled_message_that_is_due_while_the_store_is_full_may_wait_and_comes_when_there_is_room() {
    let publish = |delay_ms| Step::Send { to: Place::Topic, flavours: vec![0], delay_ms };
    let commit = |batches| Step::Commit { batches, refused: None };
    play_on_disk(&[
        commit(3),
        publish(Some(1_000)),
        commit(1),
        Step::Send { to: Place::Queue(0), flavours: vec![0], delay_ms: None },
        Step::FullOnce,
        commit(1),
        Step::Advance { duration_ms: 60_000 },
        commit(3),
        Step::Topic(TopicStep::RemoveRule { name: 0, rule: 0 }),
        commit(3),
        Step::Disk(DiskStep::Keep),
        Step::Disk(DiskStep::Keep),
        commit(3),
        publish(None),
        commit(1),
    ]);
}

fn forward(to: Node, count: usize) -> Step {
    Step::Forward(ForwardStep::Send { to, ids: vec![0; count], delay_ms: None, ttl_ms: None })
}

/// Nothing is submitted while the store is full, so only the keeper's own rounds detect that it has space again.
#[test]
fn forwarding_goes_on_when_a_store_that_was_full_has_room_again() {
    let commit = || Step::Commit { batches: 1, refused: None };
    play_on_disk(&[
        Step::Advance { duration_ms: 60_000 },
        forward(Node::First, 1),
        commit(),
        forward(Node::First, 300),
        commit(),
        Step::FullOnce,
        commit(),
        forward(Node::First, 300),
    ]);
}

/// An id expires too early if the clock was behind at a start.
#[test]
fn a_duplicate_may_be_forgotten_too_early_by_the_lag_of_the_clock_at_a_start() {
    play_on_disk(&[
        forward(Node::Unique, 1),
        Step::Commit { batches: 1, refused: None },
        Step::Advance { duration_ms: 20_625 },
        Step::Crash { seed: 0 },
        Step::Disturb { off_ms: -1_000, for_ms: 101 },
        Step::Crash { seed: 0 },
        forward(Node::Ids, 1),
    ]);
}

/// A message that matches no rule needs no commit: its response overtook those of changes that had just become durable.
#[test]
fn answers_leave_in_the_order_of_their_commands() {
    let send = |to, flavour| Step::Send { to, flavours: vec![flavour], delay_ms: None };
    let commit = |batches| Step::Commit { batches, refused: None };
    let receive =
        |from| Step::Receive { from, sub_queue: SubQueue::Main, mode: ReceiveMode::PeekLock, credit: 1 };
    super::play(&[
        receive(Place::Queue(0)),
        receive(Place::Subscription(0)),
        transact(&[0], 0),
        transact(&[0], 0),
        send(Place::Topic, 0),
        send(Place::Queue(0), 0),
        transact(&[0], 0),
        commit(1),
        transact(&[], 0),
        Step::Topic(TopicStep::Delete { name: 2 }),
        transact(&[], 0),
        transact(&[0], 0),
        Step::FullOnce,
        Step::Topic(TopicStep::RemoveRule { name: 0, rule: 0 }),
        transact(&[0], 0),
        commit(2),
        transact(&[0], 1),
        transact(&[], 0),
        send(Place::Topic, 1),
        transact(&[], 0),
    ]);
}

/// The message of a transaction that was requested after the deletion arrived before it, in the same millisecond.
#[test]
fn a_deletion_may_take_the_message_of_a_transaction_that_went_before_it() {
    let send = |to| Step::Send { to, flavours: vec![0], delay_ms: None };
    let commit = |batches| Step::Commit { batches, refused: None };
    super::play(&[
        send(Place::Topic),
        send(Place::Queue(0)),
        send(Place::Queue(0)),
        send(Place::Queue(1)),
        commit(3),
        Step::DeleteTemporary,
        send(Place::Queue(1)),
        Step::FullOnce,
        commit(1),
        Step::Delete { from: Place::Queue(1), count: 1 },
        transact(&[1], 0),
        send(Place::Queue(0)),
        send(Place::Queue(0)),
    ]);
}

/// The segment opened for a large batch is being filled: it is as large as the batch and not cleaned yet.
#[test]
fn a_large_batch_does_not_count_against_the_bound_of_the_disk_before_its_segment_is_sealed() {
    let expiring = ForwardStep::Send { to: Node::Pages, ids: vec![0; 302], delay_ms: None, ttl_ms: Some(1) };
    play_on_disk(&[
        Step::Forward(expiring),
        forward(Node::First, 1),
        Step::Commit { batches: 1, refused: None },
        Step::CrashBehind { behind_ms: 1 },
        Step::Advance { duration_ms: 1 },
        forward(Node::First, 1),
        Step::Forward(ForwardStep::Turns { there: false, to: None }),
        Step::Read,
    ]);
}

/// The topic was reloading its state when the power failed: that reload belongs to a dead process and never ends.
#[test]
fn a_deferred_message_is_asked_for_at_the_broker_that_runs_now() {
    let send = |to, flavours: &[usize]| Step::Send { to, flavours: flavours.to_vec(), delay_ms: None };
    let commit = |batches| Step::Commit { batches, refused: None };
    let receive = |credit| Step::Receive {
        from: Place::Subscription(0),
        sub_queue: SubQueue::Main,
        mode: ReceiveMode::PeekLock,
        credit,
    };
    play_on_disk(&[
        transact(&[], 0),
        send(Place::Topic, &[0, 0]),
        commit(1),
        Step::CrashBehind { behind_ms: 300_001 },
        receive(2),
        send(Place::Queue(1), &[0]),
        Step::Read,
        Step::Settle { which: 0, how: How::Defer },
        send(Place::Queue(0), &[0]),
        commit(1),
        send(Place::Queue(0), &[0]),
        send(Place::Queue(0), &[0]),
        send(Place::Topic, &[0]),
        send(Place::Queue(0), &[0]),
        send(Place::Queue(0), &[0]),
        Step::Topic(TopicStep::Delete { name: 1 }),
        Step::FullOnce,
        Step::Advance { duration_ms: 60_000 },
        commit(2),
        transact(&[0], 1),
        receive(1),
        Step::CrashBehind { behind_ms: 1 },
        Step::TakeDeferred { which: 0, mode: ReceiveMode::PeekLock },
    ]);
}

/// A topic whose batch was refused for lack of space is reloaded. A request to make a deferred message available waits for
/// that,
/// and a transaction that moves the message, requested later, comes first.
#[test]
fn a_transaction_may_overtake_a_request_that_waits_for_a_topic_to_be_read_back() {
    let commit = |batches, refused| Step::Commit { batches, refused };
    let send =
        |flavours: &[usize]| Step::Send { to: Place::Topic, flavours: flavours.to_vec(), delay_ms: None };
    let receive = |subscription, mode, credit| Step::Receive {
        from: Place::Subscription(subscription),
        sub_queue: SubQueue::Main,
        mode,
        credit,
    };
    play_on_disk(&[
        Step::Topic(TopicStep::Delete { name: 0 }),
        send(&[0; 4]),
        receive(2, ReceiveMode::ReceiveAndDelete, 2),
        receive(1, ReceiveMode::PeekLock, 3),
        commit(3, None),
        Step::Settle { which: 22391, how: How::Complete },
        Step::Settle { which: 51747, how: How::Defer },
        Step::Topic(TopicStep::AddRule { name: 1, rule: 3 }),
        commit(2, None),
        Step::Topic(TopicStep::Declare { name: 0 }),
        send(&[2, 2, 1]),
        send(&[1, 1, 2, 2, 0]),
        Step::Topic(TopicStep::AddRule { name: 1, rule: 8 }),
        commit(4, Some(2)),
        Step::Undefer { which: 44907 },
        Step::Act {
            from: Place::Subscription(1),
            sub_queue: SubQueue::Main,
            picks: vec![7003, 13053, 4736],
            act: Act::Move(1),
        },
    ]);
}

/// The latest stored time is in damaged attributes when the broker starts with a wall clock that is behind: a message has an
/// earlier time than the one before it, which can be read again later.
#[test]
fn a_message_whose_time_could_not_be_read_may_be_newer_than_the_next() {
    let send = |flavours| Step::Send { to: Place::Queue(0), flavours, delay_ms: None };
    play_on_disk(&[
        send(vec![0]),
        Step::Advance { duration_ms: 60_000 },
        Step::Commit { batches: 2, refused: Some(1) },
        Step::Disk(DiskStep::Keep),
        Step::Disk(DiskStep::RotHead(0, 0)),
        Step::CrashBehind { behind_ms: 83_750_483 },
        send(vec![1, 0, 0]),
    ]);
}
