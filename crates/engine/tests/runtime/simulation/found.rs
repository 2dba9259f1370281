//! Histories that the simulation once judged wrongly or that the broker once failed, as they were found.

use peeklock_engine::{ReceiveMode, SubQueue};

use super::play_on_disk;
use super::steps::{DiskStep, How, Place, Step};

/// The message is durable, but its topic takes part in a joint step when the power fails, so it was not answered.
#[test]
fn a_message_that_was_stored_and_not_answered_may_be_there_after_a_restart() {
    let transact = |to: &[usize], completes| Step::Transact { to: to.to_vec(), completes };
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
