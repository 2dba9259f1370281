//! The mapping of the kernel's inode numbers to files and directories.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use peeklock_storage::local::File;

/// Numbers of files and directories since the last mount. Directories themselves survive all power cuts.
pub(super) struct Nodes {
    pub(super) numbers: BTreeMap<PathBuf, u64>,
    pub(super) paths: BTreeMap<u64, PathBuf>,
    pub(super) files: BTreeMap<u64, Arc<dyn File>>,
    pub(super) directories: Arc<Mutex<BTreeSet<PathBuf>>>,
    next: u64,
}

impl Nodes {
    pub(super) fn new(directories: Arc<Mutex<BTreeSet<PathBuf>>>) -> Self {
        let root = PathBuf::from("/");
        let (numbers, paths) = (BTreeMap::from([(root.clone(), 1)]), BTreeMap::from([(1, root)]));
        Self { numbers, paths, files: BTreeMap::new(), directories, next: 2 }
    }

    pub(super) fn is_directory(&self, path: &Path) -> bool {
        self.directories.lock().unwrap_or_else(PoisonError::into_inner).contains(path)
    }

    pub(super) fn number(&mut self, path: &Path) -> u64 {
        if let Some(number) = self.numbers.get(path) {
            return *number;
        }
        let number = self.next;
        self.next += 1;
        self.numbers.insert(path.to_owned(), number);
        self.paths.insert(number, path.to_owned());
        number
    }

    /// Removes the path of a file; open handles remain valid.
    pub(super) fn forget(&mut self, path: &Path) -> Option<u64> {
        let number = self.numbers.remove(path)?;
        self.paths.remove(&number);
        Some(number)
    }
}
