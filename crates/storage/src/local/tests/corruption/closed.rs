//! Damage at the end of a log that was closed cleanly.

use super::*;

/// The log of a closed store continues in its last segment, and the hint of a segment that is appended to is dropped;
/// the hint's information about damaged records must not be lost with it.
#[tokio::test]
async fn a_damaged_segment_in_which_a_closed_log_ended_keeps_its_hint() {
    let pristine = SimulatedDisk::new();
    let (store, shard) = open(&pristine);
    for batch in [send(1), complete(1), send(2)] {
        shard.submit(batch).await.unwrap();
    }
    store.close();
    let path = PathBuf::from("/data/0000000001.segment");
    let frames =
        64 + (40_u64 + 2 * 32 + 20 + 300).next_multiple_of(8) + (40_u64 + 2 * 32).next_multiple_of(8);
    // Up to the body of message 2, which only the segment contains.
    for offset in 64..frames + 40 + 32 + 20 {
        let disk = copy_without(&pristine, Path::new(""));
        flip(&disk, &path, offset);
        let (store, shard) = open(&disk);
        assert_eq!(numbers(&*shard).await, [2], "{offset}");
        shard.submit(send(3)).await.unwrap();
        disk.kill();
        drop((store, shard));
        let (store, shard) = open(&disk);
        assert_eq!(numbers(&*shard).await, [2, 3], "{offset}");
        shard.submit(send(4)).await.unwrap();
        store.close();
        assert_eq!(numbers(&*open(&disk).1).await, [2, 3, 4], "{offset}");
    }
}
