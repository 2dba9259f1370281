//! Names of files and directories: the visible ones, the synced ones, and the changes in between.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::inode::SeededRandom;

/// The names on the disk.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) files: BTreeMap<PathBuf, u64>,
    pub(super) directories: BTreeSet<PathBuf>,
    synced_files: BTreeMap<PathBuf, u64>,
    synced_directories: BTreeSet<PathBuf>,
    /// Changes since their directory was last synced, in order.
    unsynced: Vec<NameChange>,
}

#[derive(Debug, Clone)]
pub(super) enum NameChange {
    MakeDirectory(PathBuf),
    Create(PathBuf, u64),
    Rename(PathBuf, PathBuf, u64),
    Remove(PathBuf),
}

impl NameChange {
    fn apply(&self, files: &mut BTreeMap<PathBuf, u64>, directories: &mut BTreeSet<PathBuf>) {
        match self {
            Self::MakeDirectory(path) => {
                directories.insert(path.clone());
            }
            Self::Create(path, inode) => {
                files.insert(path.clone(), *inode);
            }
            Self::Rename(from, to, inode) => {
                if files.get(from) == Some(inode) {
                    files.remove(from);
                }
                files.insert(to.clone(), *inode);
            }
            Self::Remove(path) => {
                files.remove(path);
            }
        }
    }

    fn path(&self) -> &Path {
        match self {
            Self::MakeDirectory(path)
            | Self::Create(path, _)
            | Self::Rename(_, path, _)
            | Self::Remove(path) => path,
        }
    }
}

impl Names {
    pub(super) fn change(&mut self, change: NameChange) {
        change.apply(&mut self.files, &mut self.directories);
        self.unsynced.push(change);
    }

    pub(super) fn sync(&mut self, directory: &Path) {
        for change in self.take_unsynced(directory) {
            change.apply(&mut self.synced_files, &mut self.synced_directories);
        }
    }

    /// Drops unsynced changes of files in `directory` without writing them: they remain visible until the next power
    /// cut. New directories stay unsynced changes, since a process that finds them existing can't create them again.
    pub(super) fn lose(&mut self, directory: &Path) {
        let is_directory = |change: &NameChange| matches!(change, NameChange::MakeDirectory(_));
        let kept: Vec<_> = self.take_unsynced(directory).into_iter().filter(is_directory).collect();
        self.unsynced.extend(kept);
    }

    fn take_unsynced(&mut self, directory: &Path) -> Vec<NameChange> {
        let is_inside = |change: &mut NameChange| change.path().parent() == Some(directory);
        self.unsynced.extract_if(.., is_inside).collect()
    }

    /// Keeps either the first or any of the unsynced changes.
    pub(super) fn crash(&mut self, dice: &mut SeededRandom) {
        let changes = std::mem::take(&mut self.unsynced);
        let is_ordered = dice.below(2) == 0;
        let kept = dice.below(changes.len() as u64 + 1);
        for (place, change) in (0..).zip(changes) {
            let is_kept = if is_ordered { place < kept } else { dice.below(2) == 0 };
            if is_kept {
                change.apply(&mut self.synced_files, &mut self.synced_directories);
            }
        }
        let lost: BTreeSet<_> = self.directories.difference(&self.synced_directories).cloned().collect();
        self.synced_files.retain(|path, _| path.ancestors().all(|directory| !lost.contains(directory)));
        self.synced_directories.retain(|path| path.ancestors().all(|directory| !lost.contains(directory)));
        self.files = self.synced_files.clone();
        self.directories = self.synced_directories.clone();
    }

    /// Removes a file, durably.
    pub(super) fn erase(&mut self, path: &Path) {
        self.files.remove(path);
        self.synced_files.remove(path);
    }
}
