use std::sync::Arc;

use super::steering::{CONFIRMATION_MS, FRESH_CONFIRMATION_MS, FRESH_MS, SLOW_MS_MAX, WALL_MS_MIN};
use super::*;

const SECOND_MS: u64 = 1_000;
const MINUTE_MS: u64 = 60 * SECOND_MS;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const DAY_MS: u64 = 24 * HOUR_MS;
const YEAR_MS: u64 = 365 * DAY_MS;
/// The 22nd of November 2026.
const NOON: u64 = 1_795_348_800_000;

impl SystemClock {
    fn set_backs(&self) -> SetBacks {
        self.reading().1
    }
}

struct Rig {
    machine: ScriptedMachine,
    clock: SystemClock,
    start: Timestamp,
    passed_ms: u64,
}

impl Rig {
    fn started_at(wall_ms: u64) -> Self {
        let machine = ScriptedMachine::new(wall_ms);
        let clock = SystemClock::over(Arc::new(machine.clone()));
        let start = clock.now();
        Self { machine, clock, start, passed_ms: 0 }
    }

    /// A broker that was started an hour ago; the time is noon.
    fn settled() -> Self {
        let mut rig = Self::started_at(NOON - HOUR_MS);
        rig.pass(HOUR_MS);
        assert_eq!(rig.clock.now(), Timestamp(NOON));
        rig
    }

    /// Advances the machine second by second.
    fn pass(&mut self, duration_ms: u64) {
        let mut left_ms = duration_ms;
        let mut last = self.clock.now();
        while left_ms > 0 {
            let step_ms = left_ms.min(SECOND_MS);
            let before = self.clock.set_backs().count;
            self.machine.pass(step_ms);
            let (now, set_backs) = self.clock.reading();
            assert!(now >= last || set_backs.count > before, "{now:?} after {last:?}");
            last = now;
            left_ms -= step_ms;
        }
        self.passed_ms += duration_ms;
    }

    fn elapsed(&self) -> Timestamp {
        self.start.plus_ms(self.passed_ms)
    }

    fn wall(&self) -> Timestamp {
        Timestamp(self.machine.wall_ms())
    }
}

#[test]
fn a_transient_jump_leaves_no_trace() {
    let (hour, years) = (HOUR_MS.cast_signed(), (10 * YEAR_MS).cast_signed());
    for off_ms in [hour, -hour, years, -years, 5_000, -5_000] {
        let mut rig = Rig::settled();
        rig.machine.disturb(off_ms, 2 * MINUTE_MS);
        for _ in 0..10 {
            rig.pass(MINUTE_MS);
            assert_eq!(rig.clock.now(), rig.elapsed(), "{off_ms}");
        }
    }
}

#[test]
fn jumps_that_follow_each_other_are_not_one_that_lasts() {
    let mut rig = Rig::settled();
    for jump in 1..10 {
        rig.machine.disturb((jump * HOUR_MS).cast_signed(), 2 * MINUTE_MS);
        rig.pass(2 * MINUTE_MS);
    }
    assert_eq!(rig.clock.now(), rig.elapsed());
}

#[test]
fn a_lasting_step_forward_is_taken_over_within_minutes() {
    let mut rig = Rig::settled();
    rig.machine.set_wall(NOON + HOUR_MS);
    rig.pass(CONFIRMATION_MS - SECOND_MS);
    assert_eq!(rig.clock.now(), rig.elapsed(), "not yet confirmed");
    rig.pass(3 * SECOND_MS);
    assert_eq!(rig.clock.now(), rig.wall());
    assert_eq!(rig.clock.set_backs().count, 0);
}

#[test]
fn a_lasting_step_back_by_minutes_slows_time_down() {
    let mut rig = Rig::settled();
    rig.machine.set_wall(NOON - SLOW_MS_MAX);
    rig.pass(CONFIRMATION_MS + 2 * SECOND_MS);
    let before = rig.clock.now();
    rig.pass(MINUTE_MS);
    let paced_ms = rig.clock.now().0 - before.0;
    assert!(paced_ms.abs_diff(MINUTE_MS / 2) <= SECOND_MS, "{paced_ms} ms in a minute");
    rig.pass(2 * SLOW_MS_MAX);
    assert_eq!(rig.clock.now(), rig.wall());
    assert_eq!(rig.clock.set_backs().count, 0);
}

#[test]
fn a_lasting_step_back_by_more_sets_time_back_once() {
    let mut rig = Rig::settled();
    rig.machine.set_wall(NOON - HOUR_MS);
    rig.pass(CONFIRMATION_MS - SECOND_MS);
    assert_eq!(rig.clock.now(), rig.elapsed(), "not yet confirmed");
    rig.pass(3 * SECOND_MS);
    assert_eq!(rig.clock.now(), rig.wall());
    let set_backs = rig.clock.set_backs();
    assert_eq!((set_backs.count, set_backs.total_ms), (1, HOUR_MS));
    assert_eq!(set_backs.last.from.0 - set_backs.last.to.0, HOUR_MS);
    rig.pass(HOUR_MS);
    assert_eq!((rig.clock.now(), rig.clock.set_backs().count), (rig.wall(), 1));
}

#[test]
fn small_differences_are_followed_smoothly() {
    let rig = Rig::settled();
    for step in 0..1_000 {
        // 500 ppm fast, then slow.
        let off = if step < 500 { SECOND_MS + 1 } else { SECOND_MS - 1 };
        let wall = rig.machine.wall_ms();
        rig.machine.pass(SECOND_MS);
        rig.machine.set_wall(wall + off);
        let distance_ms = rig.clock.now().0.abs_diff(rig.machine.wall_ms());
        assert!(distance_ms <= 5, "{distance_ms} ms in step {step}");
    }
    assert_eq!(rig.clock.set_backs().count, 0);
}

/// Suspending the machine stops its processes, but not the boot clock.
#[test]
fn the_time_of_a_suspended_machine_counts() {
    let rig = Rig::settled();
    rig.machine.pass(8 * HOUR_MS);
    assert_eq!(rig.clock.now(), Timestamp(NOON + 8 * HOUR_MS));
}

/// A machine without a battery starts in 1970; NTP sets its clock some seconds later.
#[test]
fn a_start_in_1970_is_corrected_soon() {
    let mut rig = Rig::started_at(12_000);
    assert_eq!(rig.clock.now(), Timestamp(WALL_MS_MIN), "a date that a broker can have");
    rig.pass(20 * SECOND_MS);
    assert_eq!(rig.clock.now(), rig.elapsed());
    rig.machine.set_wall(NOON);
    rig.pass(FRESH_CONFIRMATION_MS + 2 * SECOND_MS);
    assert_eq!(rig.clock.now(), rig.wall());
}

#[test]
fn a_start_in_2036_is_corrected_soon() {
    let mut rig = Rig::started_at(NOON + 10 * YEAR_MS);
    rig.pass(5 * SECOND_MS);
    rig.machine.set_wall(NOON);
    rig.pass(FRESH_CONFIRMATION_MS - SECOND_MS);
    assert_eq!(rig.clock.now(), rig.elapsed());
    rig.pass(3 * SECOND_MS);
    assert_eq!((rig.clock.now(), rig.clock.set_backs().count), (rig.wall(), 1));
}

#[test]
fn a_start_is_fresh_for_minutes_only() {
    let mut rig = Rig::started_at(NOON);
    rig.pass(FRESH_MS);
    rig.machine.set_wall(NOON - HOUR_MS);
    rig.pass(FRESH_CONFIRMATION_MS + 2 * SECOND_MS);
    assert_eq!(rig.clock.now(), rig.elapsed());
}

#[test]
fn a_start_with_an_earlier_clock_continues_from_the_stored_time() {
    for behind_ms in [MINUTE_MS, HOUR_MS, 10 * YEAR_MS] {
        let mut rig = Rig::started_at(NOON);
        rig.clock.go_on_from(Timestamp(NOON + behind_ms));
        assert_eq!(rig.clock.now(), Timestamp(NOON + behind_ms));
        rig.start = rig.clock.now();
        rig.pass(MINUTE_MS);
        let passed_ms = rig.clock.now().0 - rig.start.0;
        let expected_ms = if behind_ms <= SLOW_MS_MAX { MINUTE_MS / 2 } else { MINUTE_MS };
        assert!(passed_ms.abs_diff(expected_ms) <= SECOND_MS, "{behind_ms}: {passed_ms}");
        rig.pass(10 * MINUTE_MS);
        assert_eq!(rig.clock.now(), rig.wall());
        assert_eq!(rig.clock.set_backs().count, u64::from(behind_ms > SLOW_MS_MAX));
    }
}

#[test]
fn a_start_in_1970_with_a_store_continues_from_the_stored_time_until_the_clock_is_set() {
    let mut rig = Rig::started_at(12_000);
    rig.clock.go_on_from(Timestamp(NOON));
    rig.start = rig.clock.now();
    rig.pass(DAY_MS);
    assert_eq!(rig.clock.now(), Timestamp(NOON + DAY_MS), "a clock that is not set corrects nothing");
    rig.machine.set_wall(NOON + 2 * DAY_MS);
    rig.pass(CONFIRMATION_MS + 2 * SECOND_MS);
    assert_eq!((rig.clock.now(), rig.clock.set_backs().count), (rig.wall(), 0));
}

#[tokio::test]
async fn a_sleep_lasts_as_long_as_was_asked_for_although_the_clock_is_set_back() {
    let mut rig = Rig::settled();
    let mut sleep = rig.clock.sleep_until(rig.clock.now().plus_ms(HOUR_MS));
    rig.machine.set_wall(NOON - YEAR_MS);
    rig.pass(HOUR_MS - SECOND_MS);
    assert_eq!(rig.clock.set_backs().count, 1);
    let is_over = |sleep: &mut Pin<Box<dyn Future<Output = ()> + Send>>| {
        sleep.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop())).is_ready()
    };
    assert!(!is_over(&mut sleep));
    rig.pass(SECOND_MS);
    assert!(is_over(&mut sleep));
}

#[test]
fn this_machine_s_clock_shows_wall_time_and_never_goes_back() {
    let clock = SystemClock::new();
    let mut last = clock.now();
    assert!(last.0 > WALL_MS_MIN, "milliseconds since 1970, got {last:?}");
    for _ in 0..1_000 {
        let now = clock.now();
        assert!(now >= last);
        last = now;
    }
}

#[tokio::test]
async fn a_manual_clock_wakes_those_who_are_due_only() {
    let clock = ManualClock::new(Timestamp(1_000));
    let mut early = clock.sleep_until(Timestamp(1_500));
    let mut late = clock.sleep_until(Timestamp(2_500));
    clock.advance(999);
    early.as_mut().await;
    assert_eq!(clock.now(), Timestamp(1_999));
    let pending = tokio::select! { biased; () = late.as_mut() => false, () = std::future::ready(()) => true };
    assert!(pending);
    clock.advance(501);
    late.await;
}
