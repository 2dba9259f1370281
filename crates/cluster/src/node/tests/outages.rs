//! A table that nodes can't reach for a while.

use std::time::Duration;

use super::world::{World, ms};
use crate::Settings;

#[test]
fn a_table_out_of_reach_is_a_pause_and_the_lease_stays() {
    let mut world = World::new(8, 2, &Settings::default());
    world.run_for(ms(5_000));
    let [owner] = world.owners(0)[..] else { panic!() };
    let lost_before = world.processes[owner].lost;
    // The first node that is back renews; the other has not seen it silent for long enough since.
    for process in &mut world.processes {
        process.cut_until = world.now + ms(25_000);
        process.under_way.clear();
    }
    world.run_for(ms(20_000));
    assert!(world.owners(0).is_empty(), "without renewals nothing is handed out");
    world.run_for(ms(30_000));
    assert_eq!(world.owners(0).len(), 1);
    assert!(world.processes[owner].lost <= lost_before + 1);
}

/// A fail-over of the database may take longer than a lease lasts. A take-over would close the clients' connections.
#[test]
fn after_the_table_was_out_of_reach_its_holder_has_precedence_while_it_lives() {
    for seed in 0..50 {
        let mut world = World::new(seed, 2, &Settings::default());
        world.losses = 0.0;
        world.run_for(ms(5_000));
        let [owner] = world.owners(0)[..] else { panic!("nobody serves after 5 s") };
        let outage = |world: &mut World| {
            let cut_until = world.now + ms(20_000);
            world.processes.iter_mut().for_each(|process| process.cut_until = cut_until);
            world.run_for(ms(20_000));
        };
        outage(&mut world);
        world.run_for(ms(10_000));
        assert_eq!((world.owners(0), world.processes[owner].lost), (vec![owner], 0), "seed {seed}");
        world.processes[owner].stopped_until = Duration::MAX;
        outage(&mut world);
        world.run_for(ms(10_000));
        assert_eq!(world.owners(0), [1 - owner], "seed {seed}");
    }
}

#[test]
fn a_lease_that_can_not_be_renewed_is_given_up_and_gained_again_if_nobody_took_it() {
    for nodes in [1, 2] {
        let mut world = World::new(23, nodes, &Settings::default());
        world.run_for(ms(5_000));
        let [owner] = world.owners(0)[..] else { panic!() };
        let lost_before = world.processes[owner].lost;
        world.processes[owner].cut_until = world.now + ms(60_000);
        world.processes[owner].under_way.clear();
        world.run_for(ms(25_000));
        assert_eq!(world.processes[owner].lost, lost_before, "a pause");
        world.run_for(ms(10_000));
        assert_eq!(world.processes[owner].lost, lost_before + 1);
        world.run_for(ms(60_000));
        assert_eq!(world.owners(0), [nodes - 1 - owner], "the only node again, or the other one still");
    }
}
