//! Commits, reads and closing.

use std::sync::Arc;

use super::*;
use crate::cluster::LogLimits;

#[test]
fn waiting_batches_share_records_and_four_are_under_way() {
    let world = World::with(ClusterOptions { record_bytes_max: 64 << 10, ..options() });
    let lease = world.lease(0);
    world.engine.hold();
    // The first has a record of its own; batches submitted while all four records are under way share the next one.
    for number in 1..=4 {
        drop(lease.submit(send(number)));
        world.settle_tasks();
    }
    let commits: Vec<Commit> = (5..=100).map(|number| lease.submit(send(number))).collect();
    world.settle_tasks();
    for commit in commits {
        assert_eq!(world.run(commit), Ok(()));
    }
    assert_eq!(world.engine.footprint(SHARD).records, 5);
}

#[test]
fn commits_resolve_in_the_order_of_their_places_whatever_the_order_of_the_answers() {
    for choice in 0..50 {
        let world = World::new();
        let lease = world.lease(0);
        world.engine.hold();
        let mut commits: Vec<Commit> = (1..=12).map(|number| lease.submit(send(number))).collect();
        let mut resolved = 0;
        while resolved < commits.len() {
            assert!(world.stepper.step(0, |_| true) || world.engine.serve(choice, |_| true));
            let now: Vec<bool> =
                commits[resolved..].iter_mut().map(|commit| answer_of(commit).is_some()).collect();
            let first_waiting = now.iter().position(|is_resolved| !is_resolved).unwrap_or(now.len());
            assert!(now[first_waiting..].iter().all(|is_resolved| !is_resolved), "{now:?}");
            resolved += first_waiting;
        }
    }
}

#[test]
fn a_read_sees_resolved_batches_from_the_cache_and_from_the_log() {
    for cache_bytes in [0, 1 << 20] {
        let world = World::with(ClusterOptions { cache_bytes, ..options() });
        let lease = world.lease(0);
        for number in 1..=300 {
            drop(lease.submit(send(number)));
        }
        world.commit(&lease, Batch::new()).unwrap();
        world.settle();
        let keys: Vec<Key> = (1..=300).rev().map(body).chain([head(7), body(999)]).collect();
        let values = world.read(&lease, keys).unwrap();
        for (at, number) in (1..=300).rev().enumerate() {
            assert_eq!(values[at], Some(value(number, 300)));
        }
        assert_eq!(values[300..], [Some(value(7, 20)), None]);
    }
}

#[test]
fn a_value_that_is_copied_while_it_is_read_is_found_where_it_went() {
    let world = World::with(ClusterOptions { cache_bytes: 0, ..options() });
    let lease = world.lease(0);
    let mut batch = Batch::new();
    (1..=10).for_each(|number| batch.put(body(number), value(number, 300)));
    world.commit(&lease, batch).unwrap();
    world.engine.hold();
    let mut read = lease.read(vec![body(10)]);
    world.settle_tasks();
    // While the read is under way, nine of ten values are removed, the last one is copied, and the row is dropped.
    world.engine.hold_pending(true);
    let mut removal = Batch::new();
    (1..=9).for_each(|number| removal.delete(body(number)));
    world.commit(&lease, removal).unwrap();
    world.rounds(3);
    assert_eq!(world.engine.body_places(SHARD).len(), 1);
    assert!(answer_of(&mut read).is_none());
    world.engine.hold_pending(false);
    assert_eq!(world.run(read), Ok(vec![Some(value(10, 300))]));
}

#[test]
fn a_large_small_value_is_stored_like_a_body_and_read_like_any_other() {
    let world = World::new();
    let store = world.node(0);
    let lease = world.acquire(&store);
    let mut batch = Batch::new();
    batch.put(head(1), value(1, 50_000));
    batch.put(head(2), value(2, 10));
    world.commit(&lease, batch).unwrap();
    let expected = BTreeMap::from([(head(1), value(1, 50_000)), (head(2), value(2, 10))]);
    assert_eq!(world.contents(&lease).unwrap(), expected);
    // The first value shrinks and the second one grows.
    let mut batch = Batch::new();
    batch.put(head(1), value(3, 5));
    batch.put(head(2), value(4, 5_000));
    world.commit(&lease, batch).unwrap();
    let expected = BTreeMap::from([(head(1), value(3, 5)), (head(2), value(4, 5_000))]);
    let again = world.acquire(&store);
    assert_eq!(world.contents(&again).unwrap(), expected);
}

#[test]
fn a_batch_larger_than_a_record_gets_its_own_and_one_larger_than_the_log_takes_is_refused() {
    let world = World::new();
    world.engine.set_limits(LogLimits { heads_bytes_max: 64 << 10, bodies_bytes_max: 64 << 10 });
    let lease = world.lease(0);
    let limits = lease.limits();
    assert!(limits.batch_bytes_max < 64 << 10);
    let mut large = Batch::new();
    large.put(body(1), value(1, limits.value_bytes_max));
    world.commit(&lease, large).unwrap();
    let removal = |numbers: std::ops::Range<u64>| {
        let mut batch = Batch::new();
        numbers.step_by(2).for_each(|number| batch.delete(head(number)));
        batch
    };
    // Each takes 4 bytes; an upper estimate of their size would exceed the limit.
    world.commit(&lease, removal(0..20_000)).unwrap();
    assert!(matches!(world.commit(&lease, removal(0..40_000)), Err(Error::TooLarge { .. })));
    lease.resume(QUEUE);
    world.commit(&lease, send(2)).unwrap();
    let read = world.read(&lease, vec![body(1), body(2)]).unwrap();
    assert_eq!(read, [Some(value(1, limits.value_bytes_max)), Some(value(2, 300))]);
}

#[test]
fn closing_finishes_submitted_batches() {
    let world = World::new();
    let store = world.node(0);
    let lease = world.acquire(&store);
    world.engine.hold();
    let commits: Vec<Commit> = (1..=50).map(|number| lease.submit(send(number))).collect();
    let closing = store.clone();
    world.run(async move { closing.close().await });
    for commit in commits {
        assert_eq!(world.run(commit), Ok(()));
    }
    assert!(matches!(lease.loss(), Some(Error::Stopped { .. })));
    assert!(matches!(world.commit(&lease, send(51)), Err(Error::Stopped { .. })));
    assert!(matches!(world.read(&lease, vec![head(1)]), Err(Error::Stopped { .. })));
    assert!(matches!(world.try_acquire(&store), Err(Error::Stopped { .. })));
    assert_eq!(world.contents(&world.lease(1)).unwrap().len(), 100);
}

#[test]
fn a_dropped_store_loses_its_leases_and_its_tasks_end() {
    let world = World::new();
    let store = world.node(0);
    let lease = world.acquire(&store);
    world.commit(&lease, send(1)).unwrap();
    drop(store);
    assert!(matches!(lease.loss(), Some(Error::Stopped { .. })));
    world.rounds(2);
    assert_eq!(world.stepper.tasks_of(0), 0);
}

#[test]
fn shards_are_apart() {
    let world = World::new();
    let store = world.node(0);
    let first = world.acquire(&store);
    let other = {
        let store = store.clone();
        world.run(async move { store.acquire(ShardId(1)).await }).unwrap()
    };
    world.commit(&first, send(1)).unwrap();
    world.commit(&other, send(2)).unwrap();
    assert_eq!(world.contents(&first).unwrap().keys().copied().collect::<Vec<_>>(), [head(1), body(1)]);
    assert_eq!(world.contents(&other).unwrap().keys().copied().collect::<Vec<_>>(), [head(2), body(2)]);
}

#[test]
fn options_that_do_not_fit_are_refused() {
    for options in [
        ClusterOptions { value_bytes_max: 3, batch_bytes_max: 2, ..options() },
        ClusterOptions { part_bytes: 2 << 20, ..options() },
        ClusterOptions { records_under_way_max: 0, ..options() },
        ClusterOptions { clean_bytes_per_round: 0, ..options() },
    ] {
        let world = World::new();
        let made = ClusterStore::new(world.engine.node(0), options, world.stepper.node(0));
        assert!(matches!(made, Err(Error::Unavailable { .. })));
    }
}

#[test]
fn a_released_shard_is_finished_and_can_be_acquired_again() {
    let world = World::new();
    let lease = world.lease(0);
    world.engine.hold();
    let commits: Vec<Commit> = (1..=20).map(|number| lease.submit(send(number))).collect();
    let store = world.stores.borrow()[0].clone();
    let releasing = store.clone();
    world.run(async move { releasing.release(SHARD).await });
    for commit in commits {
        assert_eq!(world.run(commit), Ok(()), "earlier batches are stored");
    }
    assert!(matches!(lease.loss(), Some(Error::Stopped { .. })), "{:?}", lease.loss());
    world.run(async move { store.release(SHARD).await });
    for node in [1, 0] {
        let lease = world.lease(node);
        world.commit(&lease, send(u64::from(node) + 30)).unwrap();
    }
}

/// Otherwise a node that stands by would keep everything in memory that it has served.
#[test]
fn a_store_keeps_nothing_of_a_shard_that_it_has_given_up() {
    let world = World::new();
    for gives_up in [
        |store: ClusterStore| async move { store.release(SHARD).await }.boxed(),
        |store: ClusterStore| async move { store.abandon(SHARD) }.boxed(),
    ] {
        let store = world.node(0);
        let lease = world.acquire(&store);
        world.commit(&lease, send(1)).unwrap();
        let state = Arc::downgrade(&store.current(SHARD).shared);
        drop(lease);
        assert!(state.upgrade().is_some());
        world.run(gives_up(store.clone()));
        world.settle();
        assert!(state.upgrade().is_none());
        assert_eq!(world.contents(&world.acquire(&store)).unwrap().len(), 2);
        world.run(gives_up(store));
    }
}
