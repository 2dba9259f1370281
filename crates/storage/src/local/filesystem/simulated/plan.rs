//! Planned failures: the call at which each occurs, and its effect.

use std::path::Path;

/// A call of the file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Creation of a directory.
    MakeDirectory,
    /// Opening of a directory for its sync.
    OpenDirectory,
    /// Sync of a directory.
    SyncDirectory,
    /// Listing of a directory.
    List,
    /// Locking of a file.
    Lock,
    /// Creation or truncation of a file.
    Create,
    /// Opening of an existing file.
    Open,
    /// Renaming of a file.
    Rename,
    /// Creation of a second name for a file.
    Link,
    /// Query of a file's number of names.
    Links,
    /// Query of a file's identity.
    Identity,
    /// Removal of a file.
    Remove,
    /// Query of the disk's free bytes.
    FreeBytes,
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Sync of a file.
    Sync,
    /// Reservation of disk blocks.
    Allocate,
    /// Change of a file's length.
    SetLength,
    /// Query of a file's length.
    Length,
}

/// The effect of a planned failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The call changes nothing and fails with this `errno`.
    Fail(i32),
    /// The call takes effect, a write or an allocation by half, and fails with this `errno`. A sync of a file marks
    /// its pages as clean and writes some of them at most, see [`super::Fault::SyncLost`].
    FailLate(i32),
    /// The power is cut before the call; the seed determines the losses.
    PowerCut(u64),
}

/// Planned events that have not occurred yet.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Number of calls so far.
    pub(super) calls: u64,
    planned: Vec<Planned>,
}

#[derive(Debug)]
struct Planned {
    /// Any call if `None`.
    call: Option<Call>,
    /// Part of the call's path.
    name: String,
    /// Number of matching calls that are not affected.
    pass: u64,
    event: Event,
}

impl Plan {
    pub(super) fn add(&mut self, call: Option<Call>, name: &str, pass: u64, event: Event) {
        self.planned.push(Planned { call, name: name.to_owned(), pass, event });
    }

    pub(super) fn clear(&mut self) {
        self.planned.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.planned.len()
    }

    /// Counts a call and returns the event planned for it.
    pub(super) fn next(&mut self, call: Call, path: &Path) -> Option<Event> {
        self.calls += 1;
        let name = path.to_string_lossy();
        let mut due = None;
        for (at, planned) in self.planned.iter_mut().enumerate() {
            let is_meant = planned.call.is_none_or(|meant| meant == call) && name.contains(&planned.name);
            match planned.pass.checked_sub(u64::from(is_meant)) {
                Some(pass) => planned.pass = pass,
                None => due = due.or(Some(at)),
            }
        }
        due.map(|at| self.planned.remove(at).event)
    }
}
