//! Directories written by a later version.

use super::*;
use crate::checksum;
use crate::local::{Salvage, check_on};

/// Offset of the version in a file: after its magic number.
const VERSION: usize = 8;

/// Raises the version in the first `len` bytes of a file and renews their checksum.
fn raise_version(disk: &SimulatedDisk, path: &Path, len: usize) {
    let mut bytes = disk.bytes(path);
    bytes[VERSION] += 1;
    let crc = checksum::of(&bytes[..len - 4]);
    bytes[len - 4..len].copy_from_slice(&crc.to_le_bytes());
    disk.set_bytes(path, bytes);
}

#[tokio::test]
async fn records_of_a_later_version_are_refused_as_such_and_not_taken_for_damage() {
    for name in ["MANIFEST", "0000000001.segment"] {
        let disk = SimulatedDisk::new();
        let (store, shard) = open(&disk);
        shard.submit(send(1)).await.unwrap();
        store.close();
        let path = Path::new(DIRECTORY).join(name);
        let len = if name == "MANIFEST" { disk.bytes(&path).len() } else { 64 };
        raise_version(&disk, &path, len);
        let before: Vec<_> = disk.paths().into_iter().map(|path| (disk.bytes(&path), path)).collect();
        let is_refused = |error: Error| matches!(error, Error::Unavailable { reason } if reason.contains(name) && reason.contains("a later version wrote it"));
        assert!(is_refused(try_open(&disk).map(drop).unwrap_err()), "{name}");
        assert!(is_refused(check_on(disk.mount(), DIRECTORY).unwrap_err()), "{name}");
        assert!(is_refused(Salvage::begin_on(disk.mount(), DIRECTORY).unwrap_err()), "{name}");
        let after: Vec<_> = disk.paths().into_iter().map(|path| (disk.bytes(&path), path)).collect();
        assert_eq!(before, after, "{name}");
    }
}
