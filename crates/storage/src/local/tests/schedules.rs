//! The transfer of segments between cleaner, keeper, readers and writer, with many orders of their steps.

use std::sync::atomic::{AtomicBool, Ordering};
use std::{io, path::PathBuf};

use shuttle::{sync::Mutex as Turns, thread};

use super::*;
use crate::index::Location;
use crate::local::filesystem::File;
use crate::local::format::{Kind, RecordHeader, Shadows};
use crate::local::handover::{self, CopiedSegment, Steps};
use crate::local::reader::{Files, hold};
use crate::local::segments::{Ranks, SegmentFile};
use crate::local::state::{Placed, State};

/// Number of orders tried of each kind.
const SCHEDULES: usize = 500;
/// Number of interruptions at specific points that are needed to reveal a fault.
const INTERRUPTIONS: usize = 3;
const VALUE_BYTES: u32 = 8;
const ORIGINAL: u32 = 1;
const ACTIVE: u32 = 2;
const COPY: u32 = 3;

/// A file that records whether it was overwritten.
#[derive(Debug)]
struct Life {
    id: u32,
    is_overwritten: Arc<AtomicBool>,
}

impl File for Life {
    fn read_exact_at(&self, _: &mut [u8], _: u64) -> io::Result<()> {
        thread::yield_now();
        assert!(
            !self.is_overwritten.load(Ordering::Relaxed),
            "segment {} was reused under its reader",
            self.id
        );
        Ok(())
    }

    fn write_all_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        self.is_overwritten.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn allocate(&self, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn drop_cached(&self, _: u64, _: u64) {}

    fn len(&self) -> io::Result<u64> {
        Ok(0)
    }
}

fn file(id: u32) -> Arc<SegmentFile> {
    let file = Arc::new(Life { id, is_overwritten: Arc::default() });
    Arc::new(SegmentFile { id, salt: 0, capacity: 4096, path: PathBuf::new(), file })
}

/// The state behind a lock whose next holder is determined by the scheduler.
struct Scheduled {
    state: Turns<State>,
    retired: Turns<Vec<Arc<SegmentFile>>>,
}

impl Steps for Scheduled {
    fn step<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock().unwrap())
    }
}

fn placed(kind: Kind, number: u64, shadows: Shadows) -> Placed {
    let value_len = if kind == Kind::Put { VALUE_BYTES } else { 0 };
    let header = RecordHeader { kind, key: body(number), value_len, shadows };
    Placed { header, offset: offset(ORIGINAL, number), last_number: 0 }
}

fn offset(segment: u32, number: u64) -> u32 {
    1000 * segment + 100 * u32::try_from(number).unwrap()
}

impl Scheduled {
    /// Segment 1 is sealed and holds messages 1 to 3, segment 2 is being appended to.
    fn new() -> Arc<Self> {
        let mut state = State::default();
        state.segments.add(file(ORIGINAL), Ranks::one(ORIGINAL), Some(4096));
        state.segments.add(file(ACTIVE), Ranks::one(ACTIVE), None);
        for number in 1..=3 {
            state.apply(ORIGINAL, &placed(Kind::Put, number, Shadows::Nothing));
        }
        Arc::new(Self { state: Turns::new(state), retired: Turns::default() })
    }

    fn spawn(self: &Arc<Self>, act: impl FnOnce(&Self) + Send + 'static) -> thread::JoinHandle<()> {
        let this = Arc::clone(self);
        thread::spawn(move || act(&this))
    }

    /// The cleaner's work after the copy is in the manifest.
    fn install(&self) {
        let location = |segment, number| Location::new(segment, offset(segment, number), VALUE_BYTES);
        let moves: Vec<_> = (1..=3)
            .map(|number| (body(number), location(ORIGINAL, number), location(COPY, number)))
            .collect();
        let ranks = Ranks { cutoff: ACTIVE, ..Ranks::one(ORIGINAL) };
        let copy = CopiedSegment { file: file(COPY), ranks, end: 4096, removals: Vec::new(), moves: &moves };
        let originals = handover::replace(self, &[ORIGINAL], Some(copy));
        self.retired.lock().unwrap().extend(originals);
    }

    /// One round of the keeper.
    fn keep(&self) {
        let dead = handover::dead_segments(self);
        thread::yield_now();
        let files = handover::forget(self, &dead);
        self.retired.lock().unwrap().extend(files);
        let idle = handover::take_idle(&mut self.retired.lock().unwrap());
        for file in idle {
            file.file.write_all_at(&[], 0).unwrap();
        }
    }

    /// A reader reads a message that is never removed.
    fn read(&self, number: u64) {
        let mut files = Files::default();
        let location = self.step(|state| {
            let location = state.index.get(body(number)).unwrap();
            hold(&mut files, state, location);
            location
        });
        thread::yield_now();
        let file = files.get(&location.segment).unwrap_or_else(|| panic!("{location:?} is not there"));
        assert_eq!(location.offset, offset(file.id, number));
        file.file.read_exact_at(&mut [], 0).unwrap();
    }

    /// The writer removes a message.
    fn remove(&self, number: u64) {
        let removal = placed(Kind::Delete, number, Shadows::Exact(ORIGINAL));
        self.step(|state| state.apply(ACTIVE, &removal));
    }

    /// Bytes of removals kept in the segment after the first, once it is sealed: they are kept as long as the records
    /// they removed may exist.
    fn removals_kept(&self) -> u64 {
        self.step(|state| state.segments.kept_bytes(state.segments.get(ACTIVE).unwrap()))
    }
}

/// Tries random orders, and orders with few switches: some faults appear only if one thread is stopped while another
/// one takes many steps.
fn check(histories: impl Fn() + Send + Sync + Copy + 'static) {
    shuttle::check_random(histories, SCHEDULES);
    shuttle::check_pct(histories, SCHEDULES, INTERRUPTIONS);
}

#[test]
fn readers_find_every_message_whole_while_its_segment_is_replaced_and_reused() {
    check(|| {
        let scheduled = Scheduled::new();
        let threads = [
            scheduled.spawn(Scheduled::install),
            scheduled.spawn(|one| (0..3).for_each(|_| one.keep())),
            scheduled.spawn(|one| (0..2).for_each(|_| one.read(1))),
            scheduled.spawn(|one| one.read(2)),
        ];
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        scheduled.keep();
        (1..=3).for_each(|number| scheduled.read(number));
    });
}

#[test]
fn a_copy_lives_as_long_as_a_message_in_it_and_the_removal_of_another_stays() {
    check(|| {
        let scheduled = Scheduled::new();
        let threads = [
            scheduled.spawn(Scheduled::install),
            scheduled.spawn(|one| (0..3).for_each(|_| one.keep())),
            scheduled.spawn(|one| {
                one.remove(2);
                // From here on the dead put is in the original or in its copy.
                for _ in 0..3 {
                    assert!(one.removals_kept() > 0, "the removal of a message was given up");
                }
            }),
        ];
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        scheduled.keep();
        scheduled.read(1);
        scheduled.remove(1);
        scheduled.remove(3);
        scheduled.keep();
        assert!(scheduled.step(|state| state.segments.get(COPY).is_none()), "a dead copy stays");
    });
}

#[test]
fn a_message_that_is_written_again_while_its_segment_is_replaced_stays_the_new_one() {
    check(|| {
        let scheduled = Scheduled::new();
        let rewritten =
            Placed { offset: offset(ACTIVE, 2), ..placed(Kind::Put, 2, Shadows::Exact(ORIGINAL)) };
        let threads = [
            scheduled.spawn(Scheduled::install),
            scheduled.spawn(|one| (0..2).for_each(|_| one.keep())),
            scheduled.spawn(move |one| {
                one.step(|state| state.apply(ACTIVE, &rewritten));
                one.read(2);
            }),
        ];
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let location = scheduled.step(|state| state.index.get(body(2)).unwrap());
        assert_eq!((location.segment, location.offset), (ACTIVE, offset(ACTIVE, 2)));
    });
}
