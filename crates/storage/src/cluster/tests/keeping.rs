//! Dropping and copying bodies.

use super::*;

/// Ten messages in each record.
fn batches(world: &World, lease: &Lease, records: u64) {
    for record in 0..records {
        let mut batch = Batch::new();
        for number in 10 * record..10 * record + 10 {
            batch.put(head(number), value(number, 20));
            batch.put(body(number), value(number, 300));
        }
        world.commit(lease, batch).unwrap();
    }
}

#[test]
fn bodies_go_when_nothing_in_them_lives() {
    let world = World::new();
    let lease = world.lease(0);
    batches(&world, &lease, 10);
    assert_eq!(world.engine.footprint(SHARD).rows, 10);
    let mut removal = Batch::new();
    removal.delete_range(Space::Body, QUEUE, 0..=49);
    world.commit(&lease, removal).unwrap();
    world.rounds(2);
    assert_eq!(world.engine.footprint(SHARD).rows, 5);
}

#[test]
fn values_being_removed_are_not_copied() {
    let world = World::new();
    let lease = world.lease(0);
    let mut sent = 0;
    for _ in 0..30 {
        for _ in 0..20 {
            sent += 1;
            let mut batch = send(sent);
            if sent > 15 {
                batch.delete(head(sent - 15));
                batch.delete(body(sent - 15));
            }
            drop(lease.submit(batch));
        }
        world.rounds(1);
    }
    assert_eq!(world.engine.bodies_read(), 0);
    assert_eq!(world.contents(&lease).unwrap().len(), 30);
}

#[test]
fn live_values_are_copied_out_of_mostly_dead_bodies() {
    let world = World::new();
    let store = world.node(0);
    let lease = world.acquire(&store);
    batches(&world, &lease, 20);
    for number in (0..200).filter(|number| number % 10 != 3) {
        drop(lease.submit(complete(number)));
    }
    world.rounds(4);
    let expected: Vec<u64> = (0..20).map(|record| 10 * record + 3).collect();
    let footprint = world.engine.footprint(SHARD);
    assert!(footprint.bodies_bytes < 2 * 20 * 320, "{footprint:?}");
    assert!(footprint.rows < 20, "{footprint:?}");
    for is_taken_over in [false, true] {
        let lease = if is_taken_over { world.acquire(&store) } else { lease.clone() };
        let found = world.contents(&lease).unwrap();
        let bodies = found.iter().filter(|(key, _)| key.space == Space::Body);
        assert_eq!(bodies.map(|(key, _)| key.number).collect::<Vec<_>>(), expected);
        assert!(found.iter().all(|(key, found)| *found == value(key.number, found.len())));
    }
}

#[test]
fn a_copy_never_brings_back_a_value_removed_or_replaced_meanwhile() {
    // The removal arrives at each possible step of a keeper's round.
    for steps in 0..80 {
        let world = World::new();
        let store = world.node(0);
        let lease = world.acquire(&store);
        batches(&world, &lease, 2);
        for number in (0..20).filter(|number| number % 10 > 2) {
            drop(lease.submit(complete(number)));
        }
        world.rounds(1);
        assert_eq!(world.engine.body_places(SHARD), [2, 3].map(RecordPlace), "nothing is copied yet");
        world.engine.hold();
        assert!(world.stepper.pass(|_| true));
        for _ in 0..steps {
            let _ = world.stepper.step(0, |_| true) || world.engine.serve(0, |_| true);
        }
        let mut batch = Batch::new();
        batch.delete(body(0));
        batch.put(body(1), value(77, 40));
        batch.put(body(11), value(78, 40));
        batch.delete(body(12));
        world.commit(&lease, batch).unwrap();
        world.rounds(2);
        let expected = [(1, 77, 40), (2, 2, 300), (10, 10, 300), (11, 78, 40)];
        let expected = expected.map(|(number, of, len)| (body(number), value(of, len)));
        for is_taken_over in [false, true] {
            let lease = if is_taken_over { world.acquire(&store) } else { lease.clone() };
            let mut found = world.contents(&lease).unwrap();
            found.retain(|key, _| key.space == Space::Body);
            assert_eq!(found, BTreeMap::from(expected.clone()), "{steps} steps");
        }
    }
}

#[test]
fn a_row_larger_than_one_read_is_copied_piece_by_piece() {
    let world = World::with(ClusterOptions { clean_bytes_per_round: 64 << 20, ..options() });
    let store = world.node(0);
    let lease = world.acquire(&store);
    let mut batch = Batch::new();
    (0..40).for_each(|number| batch.put(body(number), value(number, 100_000)));
    batch.put(body(40), value(40, 3 << 20));
    batch.put(body(41), value(41, 2 << 20));
    world.commit(&lease, batch).unwrap();
    let mut removal = Batch::new();
    (0..=40).filter(|number| number % 8 != 0).for_each(|number| removal.delete(body(number)));
    removal.delete(body(40));
    world.commit(&lease, removal).unwrap();
    world.rounds(3);
    let footprint = world.engine.footprint(SHARD);
    assert!(footprint.bodies_bytes < 3 << 20, "{footprint:?}");
    let found = world.contents(&world.acquire(&store)).unwrap();
    assert_eq!(found.keys().map(|key| key.number).collect::<Vec<_>>(), [0, 8, 16, 24, 32, 41]);
    assert!(found.iter().all(|(key, found)| *found == value(key.number, found.len())));
}

#[test]
fn damaged_bodies_are_not_copied() {
    let world = World::new();
    let lease = world.lease(0);
    batches(&world, &lease, 1);
    assert!(world.engine.damage(SHARD, RecordPlace(2), true, 50));
    for number in 1..9 {
        drop(lease.submit(complete(number)));
    }
    world.rounds(4);
    assert_eq!(world.engine.body_places(SHARD), [RecordPlace(2)], "it stays where it is");
    assert_eq!(lease.loss(), None);
}

#[test]
fn figures_tell_live_from_dead_bodies_while_the_shard_is_leased() {
    let world = World::new();
    let store = world.node(0);
    let figures = store.figures(SHARD);
    assert_eq!(figures.bytes(), None);
    let lease = world.acquire(&store);
    for number in 1..=4 {
        let mut batch = Batch::new();
        batch.put(body(number), value(number, 2_000));
        world.commit(&lease, batch).unwrap();
    }
    let before = figures.bytes().unwrap();
    assert!(
        (8_000..8_200).contains(&before.live) && before.allocated > before.live + before.dead,
        "{before:?}"
    );
    world.commit(&lease, complete(1)).unwrap();
    let after = figures.bytes().unwrap();
    assert!((6_000..6_200).contains(&after.live), "{after:?}");
    let rival = world.node(1);
    world.acquire(&rival);
    assert!(world.commit(&lease, send(9)).is_err());
    assert_eq!(figures.bytes(), None, "another node has it");
}
