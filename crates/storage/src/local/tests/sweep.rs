//! One history, repeated: in each run one call of the file system fails in some way, or the power is cut at that call.
//!
//! Afterwards everything acknowledged exists, nothing exists in part, and the store is usable. `PEEKLOCK_STORAGE_SEED`
//! selects calls and errors; `PEEKLOCK_STORAGE_SWEEP=all` tries every error at every call.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::errno::ERRNOS;
use super::*;
use crate::local::{Call, Event};
use crate::samples::{Model, apply};

/// `EIO`: the device's error.
const EIO: i32 = 5;
/// One case in this many runs on a disk that becomes full during the history.
const SMALL_DISK_EVERY: usize = 4;
const SMALL_DISK_BYTES: u64 = 56 << 10;
/// Number of cases unless all are requested.
const CASES: u64 = 300;
/// Syncs of the directory in a history; it varies a little with the threads' order.
const DIRECTORY_SYNCS: u64 = 40;
/// Histories with several events, and the most events in one.
const HISTORIES: u64 = 60;
const EVENTS_MAX: u64 = 4;
/// Longest wait for an answer on any machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The store under test and its expected contents.
struct World {
    disk: SimulatedDisk,
    store: Option<(LocalStore, Arc<dyn Shard>)>,
    model: Model,
    /// Number of batches refused for lack of room.
    refused: u64,
    what: String,
}

impl World {
    fn new(what: &str) -> Self {
        Self {
            disk: SimulatedDisk::new(),
            store: None,
            model: Model::new(),
            refused: 0,
            what: what.to_owned(),
        }
    }

    /// Opens the store, again after each planned event that occurred meanwhile.
    fn open(&mut self) {
        self.store = None;
        loop {
            let planned = self.disk.faults_left();
            match open_with(&self.disk, LocalOptions { reserve_bytes: 0, ..options() }) {
                Ok(opened) => break self.store = Some(opened),
                Err(error) if self.disk.faults_left() == planned => {
                    panic!("{}: {error} without a cause", self.what)
                }
                Err(_) => {}
            }
        }
    }

    async fn contents(&mut self) -> Model {
        for _ in 0..=EVENTS_MAX {
            let (_, shard) = self.store.as_ref().unwrap();
            if let Ok(found) = contents(&**shard, &[QUEUE]).await {
                return found;
            }
            self.open();
        }
        panic!("{}: the store can't be read", self.what)
    }

    async fn commit(&mut self, batch: Batch) {
        let (_, shard) = self.store.as_ref().unwrap();
        let answer = tokio::time::timeout(PATIENCE, shard.submit(batch.clone())).await;
        match answer.unwrap_or_else(|_| panic!("{}: no answer", self.what)) {
            Ok(()) => apply(&mut self.model, &batch),
            Err(error) if is_for_a_while(&error) => {
                shard.resume(QUEUE);
                self.refused += 1;
            }
            Err(Error::TooLarge { reason }) => panic!("{}: {reason}", self.what),
            Err(_) => {
                self.open();
                let found = self.contents().await;
                if found != self.model {
                    apply(&mut self.model, &batch);
                }
                self.check(&found);
            }
        }
    }

    fn check(&self, found: &Model) {
        let lost = self.model.keys().find(|key| !found.contains_key(key));
        let extra = found.keys().find(|key| !self.model.contains_key(key));
        assert_eq!((lost, extra), (None, None), "{}: lost and extra", self.what);
        assert_eq!(*found, self.model, "{}: values", self.what);
    }

    fn clean(&self) {
        let (store, _) = self.store.as_ref().unwrap();
        for _ in 0..3 {
            store.current().clean_now();
        }
    }

    async fn send_and_complete(&mut self, numbers: std::ops::RangeInclusive<u64>, kept: u64) {
        for number in numbers.clone() {
            self.commit(send(number)).await;
        }
        for number in numbers.filter(|number| number % kept != 0) {
            self.commit(complete(number)).await;
        }
    }

    /// Fills, empties and cleans segments, and opens the store after a clean close and after a kill.
    async fn history(&mut self) {
        self.open();
        self.send_and_complete(1..=45, 9).await;
        self.clean();
        self.open();
        self.send_and_complete(46..=80, 7).await;
        self.clean();
        self.disk_kill();
        self.open();
        self.send_and_complete(81..=95, 5).await;
        let (store, _) = self.store.as_ref().unwrap();
        store.close();
        self.open();
    }

    /// Kills the process; planned events stay planned.
    fn disk_kill(&mut self) {
        self.disk.end_process();
        self.store = None;
    }

    /// Checks the conditions that must hold after any event.
    async fn finish(&mut self, seed: u64) {
        self.disk.clear_faults();
        self.disk.set_size_bytes_max(None);
        if seed.is_multiple_of(3) {
            self.disk.kill();
        } else {
            self.disk.crash(seed);
        }
        self.open();
        let found = self.contents().await;
        self.check(&found);
        let (_, shard) = self.store.as_ref().unwrap();
        assert!(send_patiently(&**shard, 1000).await, "{}: not usable", self.what);
        apply(&mut self.model, &send(1000));
        self.commit(complete(1000)).await;
        self.disk.crash(seed + 1);
        self.open();
        let found = self.contents().await;
        self.check(&found);
    }
}

fn events(seed: u64) -> Vec<Event> {
    let mut events: Vec<Event> = ERRNOS.map(Event::Fail).to_vec();
    events.extend([
        Event::FailLate(EIO),
        Event::FailLate(EIO),
        Event::PowerCut(seed),
        Event::PowerCut(seed + 1),
    ]);
    events
}

/// The calls and the event for each.
fn cases(calls: u64, seed: u64) -> Vec<(u64, Event)> {
    let all = (0..calls).flat_map(|call| events(seed + call).into_iter().map(move |event| (call, event)));
    let all: Vec<_> = all.collect();
    if std::env::var("PEEKLOCK_STORAGE_SWEEP").is_ok_and(|which| which == "all") {
        return all;
    }
    let stride = (all.len() as u64 / CASES).max(1) | 1;
    let first = usize::try_from(seed % stride).unwrap();
    all.into_iter().skip(first).step_by(usize::try_from(stride).unwrap()).collect()
}

#[test]
fn any_call_may_fail_once_and_the_power_may_go_at_any() {
    let seed = seed();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let mut world = World::new("without an event");
        world.history().await;
        let calls = world.disk.calls();
        world.finish(seed).await;
        println!("{calls} calls");
        let mut refused = 0;
        for (case, (call, event)) in cases(calls, seed).into_iter().enumerate() {
            let is_small = case % SMALL_DISK_EVERY == 0;
            let what = format!(
                "PEEKLOCK_STORAGE_SEED={seed}: {event:?} at call {call} of {calls}, small disk: {is_small}"
            );
            let mut world = World::new(&what);
            world.disk.set_size_bytes_max(is_small.then_some(SMALL_DISK_BYTES));
            world.disk.plan(None, "", call, event);
            world.history().await;
            world.finish(seed + call).await;
            refused += world.refused;
        }

        assert!(refused > 0, "no disk was full");
    });
}

/// The threads that prepare and clean segments sync the same directory, and only one of them is told of the failure.
#[test]
fn any_sync_of_the_directory_may_fail_once_and_lose_the_names_of_all_threads() {
    let seed = seed();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        for pass in 0..DIRECTORY_SYNCS {
            for is_small in [false, true] {
                let what = format!(
                    "PEEKLOCK_STORAGE_SEED={seed}: sync {pass} of the directory, small disk: {is_small}"
                );
                let mut world = World::new(&what);
                world.disk.set_size_bytes_max(is_small.then_some(SMALL_DISK_BYTES));
                world.disk.plan(Some(Call::SyncDirectory), "", pass, Event::FailLate(EIO));
                world.history().await;
                // Only a power cut loses names; the check begins with a kill at times.
                world.disk.crash(seed + pass);
                world.finish(seed + pass).await;
            }
        }
    });
}

/// Calls that fail, at random; those that change something more often.
fn several(seed: u64, calls: u64) -> Vec<(Option<Call>, u64, Event)> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut below = |end: u64| random.random_range(0..end);
    let near = below(calls);
    let one = |_| {
        let errno = ERRNOS[usize::try_from(below(ERRNOS.len() as u64)).unwrap()];
        let event = if below(2) == 0 { Event::Fail(errno) } else { Event::FailLate(EIO) };
        match below(6) {
            0 => (Some(Call::SyncDirectory), below(DIRECTORY_SYNCS), event),
            1 => (Some(Call::Sync), below(calls / 3), event),
            2 => (Some(Call::Rename), below(DIRECTORY_SYNCS), event),
            3 => (Some(Call::Write), below(calls / 3), event),
            _ => (None, near + below(60), event),
        }
    };
    (0..EVENTS_MAX).map(one).collect()
}

/// The second failure may be one of the reopening after the first, or of another thread meanwhile.
#[test]
fn several_calls_may_fail_and_the_power_goes_at_the_end() {
    let seed = seed();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let mut world = World::new("without an event");
        world.history().await;
        let calls = world.disk.calls();
        for history in 0..HISTORIES {
            let planned = several(seed.wrapping_add(history), calls);
            let is_small = history.is_multiple_of(SMALL_DISK_EVERY as u64);
            let what = format!(
                "PEEKLOCK_STORAGE_SEED={seed}: history {history}, {planned:?}, small disk: {is_small}"
            );
            let mut world = World::new(&what);
            world.disk.set_size_bytes_max(is_small.then_some(SMALL_DISK_BYTES));
            for (call, pass, event) in planned {
                world.disk.plan(call, "", pass, event);
            }
            world.history().await;
            world.finish(seed.wrapping_add(history)).await;
        }
    });
}
