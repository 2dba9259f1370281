//! Random histories with crashes, full disks and slow reads, checked by auditors. A failure prints its seed and
//! shrinks; `PROPTEST_CASES` sets the number of histories.
//!
//! - `steps` are the possible steps, `strategies` their frequencies; `world` executes them; `messages` is common to all
//!   places.
//! - `options`: options of queues change.
//! - `rules`: the topic's rules, and the copies that they make.
//! - `topic`, `sessions`, `temporary` and `forwarding`: the steps and invariants of each.
//! - `rot`: corrupts bytes on the disk, and knows which effects are allowed.
//! - `transactions`: take effect completely or not at all.
//! - `acting`: administrators' actions on stored messages by number.
//! - `clock`: makes the machine's wall clock wrong, and checks the broker's.
//! - `end`: final checks of the broker and the store.

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
use self::strategies::{steps, steps_on_disk, steps_on_rotting_disk};
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

/// The whole broker over the real log on a failing disk: the same invariants hold.
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

        /// Nothing else is lost, and what the damaged attributes may refer to stays in the store.
        #[test]
        fn damaged_attributes_cost_only_their_message(history in steps_on_rotting_disk()) {
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

/// In every area no accepted message is lost, no completed one comes back, no refused one is present, no sequence number is
/// assigned twice, first deliveries keep their order, and the store finally contains exactly what is left.
mod whatever_happens {
    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn queues_keep_every_accepted_message(history in steps(&[Area::Queues])) {
            play(&history);
        }

        /// Each subscription gets the copies that its rules required when the message was published, in the order of the
        /// topic.
        #[test]
        fn subscriptions_get_every_matching_message(history in steps(&[Area::Topic])) {
            play(&history);
        }

        /// Each has one receiver at a time, which gets all messages in order and the state that was set last.
        #[test]
        fn sessions_stay_whole(history in steps(&[Area::Sessions])) {
            play(&history);
        }

        /// It is deleted only when idle for long enough or on request, as a whole, and nothing of it appears in the next of
        /// its name.
        #[test]
        fn a_temporary_queue_is_deleted_as_a_whole(history in steps(&[Area::Temporary])) {
            play(&history);
        }

        /// Each message is in one place, arrives in the order of its source, and is removed only by completion, expiry or a
        /// deletion.
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
