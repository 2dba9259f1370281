use super::state::StateChange;
use super::*;

const MIB: usize = 1 << 20;

#[test]
fn the_memory_of_a_share_is_released_with_it() {
    let budget = Budget::new(64 * MIB);
    let mut share = budget.share(Owner::Incoming);
    share.set(MIB);
    assert_eq!((budget.used_bytes(), budget.used_by(Owner::Incoming)), (MIB, MIB));
    share.set(MIB / 2);
    assert_eq!((budget.used_bytes(), budget.used_by(Owner::Outgoing)), (MIB / 2, 0));
    drop(share);
    assert_eq!((budget.used_bytes(), budget.used_by(Owner::Incoming)), (0, 0));
}

#[test]
fn holders_that_keep_to_the_allowance_stay_within_the_limit_and_leave_room_for_a_newcomer() {
    let budget = Budget::new(64 * MIB);
    let mut shares: Vec<Share> = (0..200).map(|_| budget.share(Owner::Incoming)).collect();
    // Each grows in steps as far as it may, in rotation.
    for _ in 0..2_000 {
        for share in &mut shares {
            let wanted = share.bytes() + STEP_BYTES;
            if wanted <= budget.allowance() {
                share.set(wanted);
            }
        }
    }
    assert!(budget.used_bytes() <= 64 * MIB, "{} bytes are held", budget.used_bytes());
    assert!(budget.allowance() >= UNREPORTED_BYTES_MAX);
    let most = shares.iter().map(Share::bytes).max().unwrap();
    let least = shares.iter().map(Share::bytes).min().unwrap();
    assert!(most - least <= STEP_BYTES, "shares of {least} to {most} bytes");
}

#[test]
fn a_single_holder_may_have_its_largest_share_and_no_more() {
    let budget = Budget::new(64 * MIB);
    let mut share = budget.share(Owner::Incoming);
    while share.bytes() + STEP_BYTES <= budget.allowance() {
        share.set(share.bytes() + STEP_BYTES);
    }
    let largest = budget.largest_share();
    assert!(share.bytes() <= largest && share.bytes() + 2 * STEP_BYTES > largest);
    assert!(budget.try_share(Owner::HttpRequests, budget.free_bytes()).is_none());
    assert!(budget.try_share(Owner::HttpRequests, MIB).is_some());
}

#[test]
fn a_waiting_caller_is_counted_until_it_continues() {
    let budget = Budget::default();
    assert!(!budget.is_contended());
    let waiting = budget.wait();
    assert!(budget.is_contended());
    drop(waiting);
    assert!(!budget.is_contended());
}

#[test]
fn turns_are_taken_in_order() {
    let budget = Budget::default();
    let [first, second, third] = [(); 3].map(|()| budget.queue_for_turn());
    assert_eq!([&first, &second, &third].map(|place| place.is_first()), [true, false, false]);
    drop(second);
    assert!(first.is_first() && !third.is_first());
    third.record_progress();
    assert_eq!(budget.turn_progress(), 0, "it was not its turn");
    first.record_progress();
    assert_eq!(budget.turn_progress(), 1);
    drop(first);
    assert!(third.is_first());
    drop(third);
    assert!(budget.queue_for_turn().is_first());
}

#[test]
fn the_next_in_turn_finds_room_however_many_hold_parts() {
    const LARGE: usize = 16 * MIB;
    let budget = Budget::with_turns(64 * MIB, LARGE);
    let mut shares: Vec<Share> = (0..200).map(|_| budget.share(Owner::Incoming)).collect();
    let mut places = Vec::new();
    while places.len() < shares.len() {
        for share in &mut shares {
            let wanted = share.bytes() + STEP_BYTES;
            if wanted <= budget.allowance() {
                share.set(wanted);
            } else if places.len() < 200 {
                places.push(budget.queue_for_turn());
            }
        }
    }
    assert!(
        budget.free_bytes() >= LARGE - 200 * STEP_BYTES && shares.iter().all(|share| share.bytes() < LARGE)
    );
    assert!(budget.largest_share() >= LARGE, "a single sender needs no turn");
}

#[test]
fn growth_is_refused_at_the_limit_of_the_state_and_accepted_somewhat_below_it() {
    let budget = Budget::beside_state(1000, 0, 3200);
    let state = budget.state();
    assert_eq!((state.measured(3199), state.is_full()), (None, false));
    assert_eq!((state.measured(3200), state.is_full()), (Some(StateChange::Filled), true));
    assert_eq!((state.measured(3100), state.is_full()), (None, true));
    assert_eq!((state.measured(3099), state.is_full()), (Some(StateChange::Emptied), false));
    assert_eq!((state.measured_bytes(), state.limit_bytes()), (3099, 3200));
    assert_eq!(Budget::new(1000).state().measured(usize::MAX - 1), None, "no limit by default");
}
