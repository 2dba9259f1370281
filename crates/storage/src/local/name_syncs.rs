//! Syncs of a directory by several threads.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::filesystem::OpenDirectory;

/// A failed sync of a directory may lose every name changed before it, and only the thread that called it gets the error:
/// a later sync of another thread succeeds without writing that thread's names. So failures are counted, and a thread
/// whose names are older than a failure gets an error as well.
#[derive(Debug, Default)]
pub(super) struct NameSyncs {
    /// Number of failed syncs. The lock is held during a sync, so that no failure is counted too late.
    failed: Mutex<u64>,
}

/// The number of failed syncs before a thread changed the first of its names.
#[derive(Debug, Clone, Copy)]
pub(super) struct NamesBegun(u64);

impl NameSyncs {
    /// To be called before the first change of the names that a [`Self::sync`] is to make durable.
    pub(super) fn begin(&self) -> NamesBegun {
        NamesBegun(*self.lock())
    }

    /// Makes the names of `directory` durable that were changed since `begun`.
    ///
    /// # Errors
    /// Errors of the operating system; an error when another sync has failed since `begun`.
    pub(super) fn sync(&self, directory: &dyn OpenDirectory, begun: NamesBegun) -> io::Result<()> {
        let mut failed = self.lock();
        if *failed != begun.0 {
            return Err(io::Error::other(
                "another sync of the directory failed, which may have lost new names",
            ));
        }
        directory.sync().inspect_err(|_| *failed += 1)
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::filesystem::{Call, Event, SimulatedDisk};
    use super::*;

    #[test]
    fn a_failed_sync_concerns_the_new_names_of_all_threads() {
        let disk = SimulatedDisk::new();
        let filesystem = disk.mount();
        filesystem.create_directory(Path::new("/data")).unwrap();
        let directory = || filesystem.open_directory(Path::new("/data")).unwrap();
        let names = NameSyncs::default();
        let (first, second) = (names.begin(), names.begin());
        filesystem.create(Path::new("/data/first")).unwrap();
        disk.plan(Some(Call::SyncDirectory), "", 0, Event::FailLate(5));
        assert_eq!(names.sync(directory().as_ref(), second).unwrap_err().raw_os_error(), Some(5));

        assert!(names.sync(directory().as_ref(), first).unwrap_err().to_string().contains("another sync"));
        let third = names.begin();
        filesystem.create(Path::new("/data/third")).unwrap();
        names.sync(directory().as_ref(), third).unwrap();
        disk.crash(1);

        assert_eq!(disk.paths(), [Path::new("/data/third")]);
    }
}
