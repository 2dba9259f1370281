//! Appends with unknown outcome, stale owners, and logs that lose records.

use super::*;

/// Serves calls of a node until a record is at this place.
fn serve_until_stored(world: &World, node: u32, place: u64) {
    while world.engine.tail(SHARD).last.place < RecordPlace(place) {
        assert!(world.engine.serve(0, |of| of == node) || world.stepper.step(0, |_| true), "no progress");
    }
}

#[test]
fn a_lost_answer_is_decided_by_reading_back() {
    for arrives_late in [false, true] {
        let world = World::new();
        let store = world.node(0);
        let lease = world.acquire(&store);
        world.engine.hold();
        let mut stored = lease.submit(send(1));
        world.settle_tasks();
        serve_until_stored(&world, 0, 2);
        let mut unsent = lease.submit(send(2));
        world.settle_tasks();
        world.engine.cut(0, arrives_late);
        assert!(answer_of(&mut stored).is_none() && answer_of(&mut unsent).is_none());
        assert_eq!(world.run(stored), Ok(()));
        assert_eq!(world.run(unsent), Ok(()));
        assert_eq!(world.contents(&lease).unwrap().len(), 4);
        assert_eq!(lease.loss(), None);
        let again = world.acquire(&store);
        assert_eq!(world.contents(&again).unwrap().len(), 4);
    }
}

#[test]
fn a_record_that_only_the_dead_primary_had_is_sent_again() {
    let world = World::new();
    let store = world.node(0);
    let lease = world.acquire(&store);
    world.engine.hold();
    let commit = lease.submit(send(1));
    world.settle_tasks();
    serve_until_stored(&world, 0, 2);
    world.engine.fail_over(0);
    assert_eq!(world.engine.tail(SHARD).last.place, RecordPlace(1), "the record is gone");
    assert_eq!(world.run(commit), Ok(()));
    let again = world.acquire(&store);
    assert_eq!(world.contents(&again).unwrap().len(), 2);
}

#[test]
fn a_log_that_cannot_be_reached_delays_commits_and_costs_no_lease() {
    let world = World::new();
    let store = world.node(0);
    let lease = world.acquire(&store);
    for _ in 0..3 {
        world.engine.fail_next(Error::Unavailable { reason: "not now".to_owned() });
    }
    let commits: Vec<Commit> = (1..=20).map(|number| lease.submit(send(number))).collect();
    for commit in commits {
        assert_eq!(world.run(commit), Ok(()));
    }
    assert_eq!((lease.loss(), world.contents(&lease).unwrap().len()), (None, 40));
}

#[test]
fn a_stale_owner_is_never_acknowledged_after_a_seizure() {
    let world = World::new();
    let (first, second) = (world.node(0), world.node(1));
    let stale = world.acquire(&first);
    world.commit(&stale, send(1)).unwrap();
    world.engine.hold();
    let commits: Vec<Commit> = (2..=40).map(|number| stale.submit(send(number))).collect();
    world.settle_tasks();
    // Its calls are held up while another node takes over and writes.
    let acquiring = second.clone();
    let (answer, mut answered) = oneshot::channel();
    let task = async move {
        let _ = answer.send(acquiring.acquire(SHARD).await);
    };
    world.stepper.node(1).spawn(task.boxed());
    let owner = loop {
        if let Ok(lease) = answered.try_recv() {
            break lease.unwrap();
        }
        let goes_on = world.stepper.step(0, |_| true)
            || world.engine.serve(0, |node| node == 1)
            || world.stepper.pass(|_| true);
        assert!(goes_on);
    };
    world.engine.release();
    for commit in commits {
        assert!(matches!(world.run(commit), Err(Error::Fenced { .. })));
    }
    assert!(matches!(stale.loss(), Some(Error::Fenced { .. })));
    assert!(matches!(world.commit(&stale, send(50)), Err(Error::Fenced { .. })));
    assert!(matches!(world.read(&stale, vec![head(1)]), Err(Error::Fenced { .. })));
    assert!(owner.epoch() > stale.epoch());
    assert_eq!(world.contents(&owner).unwrap().len(), 2);
}

#[test]
fn an_append_that_slept_while_the_log_was_trimmed_finds_its_place_taken() {
    let world = World::new();
    let (first, second) = (world.node(0), world.node(1));
    let stale = world.acquire(&first);
    world.engine.hold();
    let slept = stale.submit(send(1));
    world.settle_tasks();
    // The append has found its predecessor but is not stored yet.
    assert!(world.engine.serve(0, |node| node == 0));
    world.stepper.kill(0);
    world.engine.hold_node(0);
    world.engine.release();
    let owner = world.acquire(&second);
    for number in 1..=200 {
        world.commit(&owner, send(number)).unwrap();
        world.commit(&owner, complete(number)).unwrap();
    }
    world.rounds(3);
    assert!(world.engine.footprint(SHARD).records < 200, "the log was trimmed");
    let before = (world.engine.tail(SHARD), world.engine.footprint(SHARD));
    world.engine.release_node(0);
    assert_eq!((world.engine.tail(SHARD), world.engine.footprint(SHARD)), before);
    drop(slept);
    assert!(world.contents(&world.acquire(&second)).unwrap().is_empty());
}

/// The owner has dropped bodies of messages that it removed. For the stale one, which does not know of it yet, they are
/// missing.
#[test]
fn a_stale_owner_takes_no_body_that_its_successor_dropped_for_damage() {
    let world = World::with(ClusterOptions { cache_bytes: 0, ..options() });
    let (first, second) = (world.node(0), world.node(1));
    let stale = world.acquire(&first);
    world.commit(&stale, send(1)).unwrap();
    world.commit(&stale, send(2)).unwrap();
    let owner = world.acquire(&second);
    world.commit(&owner, complete(1)).unwrap();
    world.rounds(2);
    assert_eq!((world.engine.body_places(SHARD).len(), stale.loss()), (1, None));
    let missing = world.read(&stale, vec![body(2), body(1)]);
    assert!(matches!(missing, Err(Error::Unavailable { .. })), "{missing:?}");
    let missing = world.run(stale.scan(Space::Body, QUEUE, 0)).map(|page| page.damaged);
    assert!(matches!(missing, Err(Error::Unavailable { .. })), "{missing:?}");
    assert_eq!(world.read(&stale, vec![body(2)]), Ok(vec![Some(value(2, 300))]));
}

#[test]
fn a_stale_owner_notices_when_it_tidies_up() {
    let world = World::new();
    let (first, second) = (world.node(0), world.node(1));
    let stale = world.acquire(&first);
    world.commit(&stale, send(1)).unwrap();
    world.commit(&stale, complete(1)).unwrap();
    let owner = world.acquire(&second);
    world.rounds(2);
    assert!(matches!(stale.loss(), Some(Error::Fenced { .. })));
    assert_eq!(owner.loss(), None);
}

#[test]
fn a_drop_of_an_epoch_that_its_owner_has_left_costs_no_lease() {
    let world = World::new();
    let lease = world.lease(0);
    world.commit(&lease, send(1)).unwrap();
    world.commit(&lease, complete(1)).unwrap();
    world.engine.hold();
    // The keeper requests the dropping of bodies; before the request arrives, an append fails and the log is seized
    // again.
    assert!(world.stepper.pass(|_| true));
    world.settle_tasks();
    world.engine.hold_pending(true);
    world.engine.fail_next(Error::Unavailable { reason: "not now".to_owned() });
    world.commit(&lease, send(2)).unwrap();
    world.engine.hold_pending(false);
    world.rounds(3);
    assert_eq!(lease.loss(), None);
    assert_eq!(world.engine.body_places(SHARD).len(), 1);
    world.commit(&lease, send(3)).unwrap();
}

#[test]
fn a_log_that_forgot_acknowledged_records_is_refused() {
    let world = World::new();
    let store = world.node(0);
    let lease = world.acquire(&store);
    for number in 1..=5 {
        world.commit(&lease, send(number)).unwrap();
    }
    world.engine.lose_tail(SHARD, 2);
    let refused = world.commit(&lease, send(6));
    let Err(Error::Stopped { reason }) = refused else { panic!("{refused:?}") };
    assert!(reason.contains("record 6") && reason.contains("ends at record 4"), "{reason}");
    assert!(matches!(lease.loss(), Some(Error::Corrupt { .. })));
    assert!(matches!(world.try_acquire(&store), Err(Error::Corrupt { .. })), "nor acquired again");
}

#[test]
fn a_log_that_forgot_and_grew_again_is_refused_by_who_remembers() {
    let world = World::new();
    let (first, second) = (world.node(0), world.node(1));
    let lease = world.acquire(&first);
    for number in 1..=5 {
        world.commit(&lease, send(number)).unwrap();
    }
    world.engine.lose_tail(SHARD, 2);
    let owner = world.acquire(&second);
    for number in 6..=9 {
        world.commit(&owner, send(number)).unwrap();
    }
    assert!(matches!(world.commit(&lease, send(10)), Err(Error::Fenced { .. })));
    assert!(matches!(world.try_acquire(&first), Err(Error::Corrupt { .. })));
}

#[test]
fn a_damaged_or_missing_record_keeps_the_shard_closed_and_says_which_one() {
    let world = World::new();
    let store = world.node(0);
    let lease = world.acquire(&store);
    for number in 1..=5 {
        world.commit(&lease, send(number)).unwrap();
    }
    assert!(world.engine.damage(SHARD, RecordPlace(3), false, 12));
    let refused = world.try_acquire(&world.node(1)).unwrap_err();
    assert!(
        matches!(refused, Error::Corrupt { .. }) && refused.to_string().contains("record 3"),
        "{refused}"
    );
}

#[test]
fn a_damaged_body_costs_only_itself() {
    let world = World::with(ClusterOptions { cache_bytes: 0, ..options() });
    let store = world.node(0);
    let lease = world.acquire(&store);
    for number in 1..=3 {
        world.commit(&lease, send(number)).unwrap();
    }
    assert!(world.engine.damage(SHARD, RecordPlace(3), true, 100));
    assert!(matches!(world.read(&lease, vec![body(1), body(2)]), Err(Error::Corrupt { .. })));
    let others = world.read(&lease, vec![body(1), body(3), head(2)]).unwrap();
    assert_eq!(others, [Some(value(1, 300)), Some(value(3, 300)), Some(value(2, 20))]);
    let page = world.run(lease.scan(Space::Body, QUEUE, 0)).unwrap();
    assert_eq!(page.entries.iter().map(|entry| entry.number).collect::<Vec<_>>(), [1, 3]);
    assert_eq!(page.damaged.iter().map(|one| one.number).collect::<Vec<_>>(), [2]);
    assert!(!page.damaged[0].unverified.is_empty());
}
