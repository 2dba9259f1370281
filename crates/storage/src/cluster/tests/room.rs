//! Lack of room and recovery from it.

use super::*;
use crate::Pressure;
use crate::cluster::simulated::RESERVE_BYTES;

fn bounded() -> ClusterOptions {
    ClusterOptions { size_bytes_max: Some(64 << 10), ..options() }
}

/// Sends messages until one is refused; returns the last accepted number.
fn fill(world: &World, lease: &Lease) -> u64 {
    for number in 1..10_000 {
        match world.commit(lease, send(number)) {
            Ok(()) => {}
            Err(Error::Full { .. }) => {
                lease.resume(QUEUE);
                return number - 1;
            }
            Err(other) => panic!("{other}"),
        }
    }
    panic!("never full");
}

/// Like [`fill`], on an engine with little room beyond its reserve.
fn fill_engine(world: &World, lease: &Lease) -> u64 {
    world.rounds(1);
    let used = world.engine.footprint(SHARD).bytes();
    world.engine.set_bytes_max(Some(used + RESERVE_BYTES + (64 << 10)));
    let accepted = fill(world, lease);
    assert!(accepted > 100, "{accepted}");
    accepted
}

fn pressure(lease: &Lease) -> Pressure {
    *lease.pressure().borrow()
}

#[test]
fn a_full_shard_refuses_messages_takes_removals_and_recovers() {
    let world = World::with(bounded());
    let lease = world.lease(0);
    for round in 0..3 {
        let accepted = fill(&world, &lease);
        assert_eq!(pressure(&lease), Pressure::Full);
        let footprint = world.engine.footprint(SHARD);
        let stored = footprint.bytes();
        assert!(stored < (66 << 10) && accepted > 100, "round {round}: {accepted} messages, {footprint:?}");
        for number in 1..=accepted {
            world.commit(&lease, complete(number)).unwrap();
        }
        world.rounds(4);
        assert_eq!(pressure(&lease), Pressure::Normal, "round {round}");
    }
}

#[test]
fn a_full_shard_that_is_mostly_garbage_cleans_itself() {
    let world = World::with(bounded());
    let store = world.node(0);
    let lease = world.acquire(&store);
    let accepted = fill(&world, &lease);
    for number in (1..=accepted).filter(|number| number % 4 != 0) {
        world.commit(&lease, complete(number)).unwrap();
    }
    world.rounds(6);
    assert_eq!(pressure(&lease), Pressure::Normal);
    world.commit(&lease, send(20_000)).unwrap();
    let again = world.acquire(&store);
    assert_eq!(world.contents(&again).unwrap().len() as u64, 2 * (accepted / 4 + 1));
}

#[test]
fn a_full_shard_is_full_after_a_take_over() {
    let world = World::with(bounded());
    let lease = world.lease(0);
    let accepted = fill(&world, &lease);
    let taken_over = world.lease(1);
    assert_eq!(pressure(&taken_over), Pressure::Full);
    world.commit(&taken_over, complete(1)).unwrap();
    assert_eq!(world.contents(&taken_over).unwrap().len() as u64, 2 * (accepted - 1));
}

#[test]
fn an_engine_without_room_is_pressure_and_asked_again_after_a_while() {
    let world = World::new();
    let lease = world.lease(0);
    world.commit(&lease, send(1)).unwrap();
    let footprint = world.engine.footprint(SHARD);
    world.engine.set_bytes_max(Some(footprint.bytes() + 200));
    let behind = lease.submit(complete(1));
    let refused = lease.submit(send(2));
    let built_on_it = lease.submit(complete(2));
    assert_eq!(world.run(behind), Ok(()));
    assert!(matches!(world.run(refused), Err(Error::Full { .. })));
    assert!(matches!(world.run(built_on_it), Err(Error::Full { .. })));
    assert_eq!(pressure(&lease), Pressure::Full);
    lease.resume(QUEUE);
    world.commit(&lease, complete(3)).unwrap();
    world.engine.set_bytes_max(None);
    world.rounds(8);
    assert_eq!((pressure(&lease), lease.loss()), (Pressure::Normal, None));
    world.commit(&lease, send(4)).unwrap();
}

/// Removals use the reserve, and free room for messages again.
#[test]
fn removals_find_room_on_an_engine_that_is_full_of_waiting_messages() {
    let world = World::new();
    let lease = world.lease(0);
    let accepted = fill_engine(&world, &lease);
    for number in 1..=accepted {
        world.commit(&lease, complete(number)).unwrap();
    }
    world.rounds(40);
    assert_eq!((pressure(&lease), lease.loss()), (Pressure::Normal, None));
    world.commit(&lease, send(20_000)).unwrap();
}

#[test]
fn a_take_over_finds_room_on_an_engine_without_any() {
    let world = World::new();
    let lease = world.lease(0);
    world.commit(&lease, send(1)).unwrap();
    world.rounds(1);
    world.engine.set_bytes_max(Some(world.engine.footprint(SHARD).bytes() + RESERVE_BYTES));
    let taken_over = world.lease(1);
    world.commit(&taken_over, complete(1)).unwrap();
    // While the reserve is partly used, messages wait until there is room for all of it.
    world.rounds(1);
    assert_eq!(pressure(&taken_over), Pressure::Full);
    world.engine.set_bytes_max(None);
    world.rounds(8);
    assert_eq!((pressure(&taken_over), taken_over.loss()), (Pressure::Normal, None));
}

/// Messages never use the reserve for removals, however often they are retried.
#[test]
fn messages_do_not_take_the_reserve() {
    let world = World::new();
    let lease = world.lease(0);
    let accepted = fill_engine(&world, &lease);
    for _ in 0..20 {
        world.rounds(8);
        if world.commit(&lease, send(20_000)).is_err() {
            lease.resume(QUEUE);
        }
    }
    for number in 1..=accepted {
        world.commit(&lease, complete(number)).unwrap();
    }
}

#[test]
fn an_engine_that_sets_no_room_aside_is_asked_for_room_nevertheless() {
    let world = World::new();
    world.engine.refuse_reserve(Error::Unavailable { reason: "permission denied".to_owned() });
    let lease = world.lease(0);
    world.rounds(1);
    world.commit(&lease, send(1)).unwrap();
    world.engine.fail_next(Error::Full { reason: "no room".to_owned() });
    assert!(matches!(world.commit(&lease, send(2)), Err(Error::Full { .. })));
    lease.resume(QUEUE);
    world.rounds(120);
    assert_eq!((pressure(&lease), lease.loss()), (Pressure::Normal, None));
    world.commit(&lease, send(2)).unwrap();
}

#[test]
fn a_partition_without_a_refusal_is_not_held_up_by_one_with() {
    let world = World::new();
    let lease = world.lease(0);
    world.engine.fail_next(Error::Full { reason: "no room".to_owned() });
    let refused = lease.submit(send(1));
    let mut other = Batch::new();
    other.put(Key::new(Space::Head, PartitionId(8), 1), value(1, 5));
    let other = lease.submit(other);
    assert!(matches!(world.run(refused), Err(Error::Full { .. })));
    assert_eq!(world.run(other), Ok(()));
}
