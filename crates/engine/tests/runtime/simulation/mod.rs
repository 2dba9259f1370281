//! Random histories with crashes, full disks and slow reads, watched by auditors. A failure prints its seed and
//! shrinks; `PROPTEST_CASES` sets how many are tried.
//!
//! - `steps` is what may happen, `strategies` how often it does, `world` lets it happen, `messages` is what is common to all places.
//! - `options` of queues change.
//! - `rules` are those of the topic, and the copies that come of them.
//! - `topic`, `sessions`, `temporary` and `forwarding` do what is special to each, and know what must be true there.
//! - `rot` changes what is on the disk, and knows what that may cost.
//! - `transactions` happen as a whole or not at all.
//! - `acting` is what administrators do with stored messages by number.
//! - `clock` lets the wall clock of the machine be off, and knows what the broker's must show.
//! - `end` looks at what is left, in the broker and in the store.

mod acting;
mod answers;
mod clock;
mod end;
mod forwarding;
mod found;
mod messages;
mod options;
mod rot;
mod rules;
mod sessions;
mod steps;
mod storage;
mod strategies;
mod temporary;
mod topic;
mod topic_in_doubt;
mod transactions;
mod world;

use proptest::prelude::*;

use peeklock_storage::MemoryStore;

use self::steps::{Area, Step};
use self::storage::{Machine, Storage};
use self::strategies::{steps, steps_on_disk};
use self::world::World;

fn play(history: &[Step]) {
    play_on(Storage::Memory(MemoryStore::new()), history);
}

fn play_on_disk(history: &[Step]) {
    play_on(Storage::Log(Machine::default()), history);
}

fn play_on(storage: Storage, history: &[Step]) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mut world = World::start(storage).await;
        for step in history {
            world.step(step).await;
        }
        world.end().await;
    });
}

/// The whole broker over the real log on a disk that fails: the same claims, whatever the disk does.
mod whatever_the_disk_does {
    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn queues_keep_accepted_messages(history in steps_on_disk(&[Area::Queues])) {
            play_on_disk(&history);
        }

        #[test]
        fn subscriptions_receive_matching_messages(history in steps_on_disk(&[Area::Topic])) {
            play_on_disk(&history);
        }

        #[test]
        fn sessions_keep_order_and_state(history in steps_on_disk(&[Area::Sessions, Area::Temporary])) {
            play_on_disk(&history);
        }

        #[test]
        fn transactions_happen_as_a_whole(history in steps_on_disk(&[Area::Transactions, Area::Topic])) {
            play_on_disk(&history);
        }

        #[test]
        fn forwarded_messages_arrive_once(history in steps_on_disk(&[Area::Forwarding])) {
            play_on_disk(&history);
        }
    }
}

/// Everywhere: nothing accepted is lost, nothing completed comes back, nothing refused is there, no sequence number is
/// given out twice, first deliveries keep their order, and what is stored at the end is what is left.
mod whatever_happens {
    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn queues_keep_what_they_accepted(history in steps(&[Area::Queues])) {
            play(&history);
        }

        /// Each subscription gets what its rules said when the message was published, in the order of the topic.
        #[test]
        fn subscriptions_get_what_they_had_coming(history in steps(&[Area::Topic])) {
            play(&history);
        }

        /// One holder each, who gets all in order and finds the state that was set last.
        #[test]
        fn sessions_stay_whole(history in steps(&[Area::Sessions])) {
            play(&history);
        }

        /// It goes only when idle for long enough or when asked for, as a whole, and nothing of it shows up in the next of its name.
        #[test]
        fn a_temporary_queue_goes_as_a_whole(history in steps(&[Area::Temporary])) {
            play(&history);
        }

        /// Each is in one place, comes in the order of its source, and is lost only by its own end.
        #[test]
        fn forwarded_messages_arrive_once(history in steps(&[Area::Forwarding])) {
            play(&history);
        }

        #[test]
        fn transactions_happen_as_a_whole(history in steps(&[Area::Transactions, Area::Topic])) {
            play(&history);
        }

        #[test]
        fn one_does_not_disturb_the_other(
            history in steps(&[
                Area::Queues, Area::Topic, Area::Sessions, Area::Temporary, Area::Forwarding, Area::Transactions,
            ])
        ) {
            play(&history);
        }
    }
}
