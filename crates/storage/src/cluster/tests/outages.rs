//! Outages of the log: commits wait, and sends are refused only while an outage is long.

use super::*;
use crate::Pressure;

fn pressure(lease: &Lease) -> Pressure {
    *lease.pressure().borrow()
}

/// Fails all appends until about this time has passed.
fn fail_for(world: &World, seconds: u64) {
    let until = world.stepper.now() + std::time::Duration::from_secs(seconds);
    while world.stepper.now() < until {
        world.engine.fail_next(Error::Unavailable { reason: "not now".to_owned() });
        world.settle();
        assert!(world.stepper.pass(|_| true));
    }
}

#[test]
fn a_log_that_can_t_be_written_for_long_is_failing_until_it_is_written() {
    let world = World::new();
    let lease = world.lease(0);
    world.engine.fail_next(Error::Unavailable { reason: "not now".to_owned() });
    let commit = lease.submit(send(1));
    fail_for(&world, 25);
    assert_eq!(pressure(&lease), Pressure::Normal, "a fail-over is only a pause");
    fail_for(&world, 10);
    assert_eq!(pressure(&lease), Pressure::Failing);
    assert_eq!(world.run(commit), Ok(()));
    assert_eq!((pressure(&lease), lease.loss()), (Pressure::Normal, None));
}

#[test]
fn short_outages_in_a_row_are_not_a_long_one() {
    let world = World::new();
    let lease = world.lease(0);
    for number in 1..=4 {
        world.engine.fail_next(Error::Unavailable { reason: "not now".to_owned() });
        let commit = lease.submit(send(number));
        fail_for(&world, 20);
        assert_eq!(world.run(commit), Ok(()));
        assert_eq!(pressure(&lease), Pressure::Normal, "{number}");
    }
}

/// Nothing is appended after the refusal that would show that the log can be written.
#[test]
fn an_outage_ends_with_the_refusal_of_what_waited() {
    let world = World::new();
    let lease = world.lease(0);
    world.commit(&lease, send(1)).unwrap();
    world.engine.fail_next(Error::Full { reason: "no room".to_owned() });
    assert!(matches!(world.commit(&lease, send(2)), Err(Error::Full { .. })));
    lease.resume(QUEUE);
    world.rounds(60);
    assert_eq!((pressure(&lease), lease.loss()), (Pressure::Normal, None));
}
