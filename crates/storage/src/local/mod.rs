//! placeholder
mod cleaner;
mod directory;
mod fields;
mod filesystem;
mod format;
mod frame;
mod halted;
mod hint;
mod index;
mod keeper;
mod manifest;
mod options;
mod pool;
mod reader;
mod recovery;
mod segments;
mod shard;
mod shared;
mod state;
mod store;
mod walk;
mod warm;
mod writer;

#[cfg(any(test, feature = "testing"))]
pub use filesystem::{Fault, SimulatedDisk};
pub use filesystem::{File, Filesystem, Lock, RealFilesystem};
pub use options::LocalOptions;
pub use store::LocalStore;

#[cfg(test)]
mod tests;
