//! Checkpoints and the records read by a take-over.

use super::*;

fn fill(world: &World, lease: &Lease, numbers: std::ops::RangeInclusive<u64>) {
    let commits: Vec<Commit> = numbers.map(|number| lease.submit(send(number))).collect();
    for commit in commits {
        assert_eq!(world.run(commit), Ok(()));
    }
}

#[test]
fn a_checkpoint_bounds_the_read_of_a_takeover_and_nothing_is_missing() {
    let world = World::new();
    let store = world.node(0);
    let lease = world.acquire(&store);
    fill(&world, &lease, 1..=400);
    for number in (1..=400).filter(|number| number % 4 != 0) {
        drop(lease.submit(complete(number)));
    }
    world.rounds(3);
    assert!(world.engine.tail(SHARD).mark.is_some(), "no checkpoint");
    let expected = world.contents(&lease).unwrap();
    assert_eq!(expected.len(), 200);
    let taken_over = world.lease(1);
    assert_eq!(world.contents(&taken_over).unwrap(), expected);
    fill(&world, &taken_over, 401..=410);
    assert_eq!(world.contents(&world.acquire(&store)).unwrap().len(), 220);
}

#[test]
fn the_log_stays_short_while_messages_pass_through() {
    let world = World::new();
    let lease = world.lease(0);
    for number in 1..=3_000_u64 {
        drop(lease.submit(send(number)));
        if number > 20 {
            drop(lease.submit(complete(number - 20)));
        }
        if number % 100 == 0 {
            world.rounds(1);
        }
    }
    world.rounds(5);
    let footprint = world.engine.footprint(SHARD);
    assert!(footprint.heads_bytes < 3 * world.options.checkpoint_bytes, "{footprint:?}");
    assert!(footprint.bodies_bytes < 3 * 20 * 330, "{footprint:?}");
    assert_eq!(world.contents(&lease).unwrap().len(), 40);
}

#[test]
fn commits_go_on_between_the_parts_of_a_checkpoint() {
    let world = World::new();
    let store = world.node(0);
    let lease = world.acquire(&store);
    fill(&world, &lease, 1..=300);
    // A checkpoint of many parts begins; during every other pause, entries change on both sides of its current
    // position.
    for number in 301..=400 {
        assert!(world.stepper.pass(|_| true));
        world.settle_tasks();
        let mut batch = send(number);
        batch.delete(head(number - 300));
        batch.delete(body(601 - number));
        batch.put(head(250), value(number, 30));
        batch.delete_range(Space::Body, QUEUE, 100..=110);
        world.commit(&lease, batch).unwrap();
    }
    world.rounds(2);
    assert!(world.engine.tail(SHARD).mark.is_some(), "no checkpoint");
    let expected = world.contents(&lease).unwrap();
    assert_eq!(world.contents(&world.acquire(&store)).unwrap(), expected);
}

#[test]
fn a_checkpoint_that_was_broken_off_does_not_count() {
    for steps in 0..60 {
        let world = World::new();
        let lease = world.lease(0);
        fill(&world, &lease, 1..=100);
        let expected = world.contents(&lease).unwrap();
        world.engine.hold();
        for _ in 0..steps {
            let _ = world.stepper.step(0, |_| true)
                || world.engine.serve(0, |_| true)
                || world.stepper.pass(|_| true);
        }
        world.stepper.kill(0);
        world.engine.release();
        let taken_over = world.lease(1);
        assert_eq!(world.contents(&taken_over).unwrap(), expected, "{steps} steps");
        world.rounds(3);
        let again = world.lease(0);
        assert_eq!(world.contents(&again).unwrap(), expected, "{steps} steps");
    }
}

#[test]
fn values_that_died_during_a_checkpoint_are_dropped_by_the_next_owner() {
    let mut marked = 0;
    for steps in 0..80 {
        let world = World::new();
        let lease = world.lease(0);
        fill(&world, &lease, 1..=200);
        world.engine.hold();
        // The keeper has begun its round, in which nothing was dead.
        assert!(world.stepper.pass(|_| true));
        world.settle_tasks();
        for number in 1..=200 {
            drop(lease.submit(complete(number)));
        }
        for _ in 0..10 * steps {
            let _ = world.stepper.step(0, |_| true)
                || world.engine.serve(0, |_| true)
                || world.stepper.pass(|_| true);
        }
        world.stepper.kill(0);
        world.engine.release();
        let taken_over = world.lease(1);
        marked += usize::from(world.engine.tail(SHARD).mark.is_some());
        let is_empty = world.contents(&taken_over).unwrap().is_empty();
        world.rounds(3);
        let rows = world.engine.footprint(SHARD).rows;
        assert!(!is_empty || rows == 0, "after {steps} steps {rows} records keep unreferenced bodies");
    }
    assert!(marked > 0, "no checkpoint was completed");
}

#[test]
fn no_body_is_read_by_a_take_over() {
    let world = World::new();
    let lease = world.lease(0);
    fill(&world, &lease, 1..=200);
    world.rounds(2);
    let before = world.engine.bodies_read();
    let taken_over = world.lease(1);
    let found = world.run(taken_over.scan(Space::Head, QUEUE, 0)).unwrap();
    assert_eq!((found.entries.len(), world.engine.bodies_read()), (200, before));
}
