//! Running out of room and getting it back.

use super::*;
use crate::Pressure;

fn bounded() -> LocalOptions {
    LocalOptions { size_bytes_max: Some(8 * (8 << 10)), ..options() }
}

fn segment_bytes(disk: &SimulatedDisk) -> u64 {
    let is_counted =
        |path: &std::path::PathBuf| path.extension().is_some_and(|kind| kind != "hint" && kind != "new");
    disk.paths().iter().filter(|path| is_counted(path)).map(|path| disk.bytes(path).len() as u64).sum()
}

/// Sends until refused; the numbers that were accepted.
async fn fill(shard: &dyn Shard) -> u64 {
    for number in 1..10_000 {
        match shard.submit(send(number)).await {
            Ok(()) => {}
            Err(Error::Full { .. }) => {
                shard.resume(QUEUE);
                return number - 1;
            }
            Err(other) => panic!("{other}"),
        }
    }
    panic!("never full");
}

#[tokio::test]
async fn a_full_store_refuses_messages_takes_removals_and_recovers() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open_with(&disk, bounded()).unwrap();
    let mut pressure = shard.pressure();
    for round in 0..3 {
        let accepted = fill(&*shard).await;
        assert!(accepted > 30, "round {round}: only {accepted} messages fitted");
        assert!(segment_bytes(&disk) <= 8 * (8 << 10), "round {round}: {} bytes", disk.size_bytes());
        // Garbage of an earlier round may bring room back before anybody looks; the first round leaves none.
        if round == 0 {
            pressure.wait_for(|pressure| *pressure == Pressure::Full).await.unwrap();
        }
        assert_eq!(contents(&*shard, &[QUEUE]).await.unwrap().len() as u64, 2 * accepted, "nothing is lost");
        for number in 1..=accepted {
            shard.submit(complete(number)).await.unwrap();
        }
        pressure.wait_for(|pressure| *pressure == Pressure::Normal).await.unwrap();
    }
    shard.submit(send(1)).await.unwrap();
    store.close();
    let (_store, shard) = open_with(&disk, bounded()).unwrap();
    assert_eq!(contents(&*shard, &[QUEUE]).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_full_store_that_is_mostly_garbage_cleans_itself() {
    let disk = SimulatedDisk::new();
    let (_store, shard) = open_with(&disk, bounded()).unwrap();
    let accepted = fill(&*shard).await;
    for number in (1..=accepted).filter(|number| number % 4 != 0) {
        shard.submit(complete(number)).await.unwrap();
    }
    let mut pressure = shard.pressure();
    pressure.wait_for(|pressure| *pressure == Pressure::Normal).await.unwrap();
    shard.submit(send(20_000)).await.unwrap();
    assert_eq!(contents(&*shard, &[QUEUE]).await.unwrap().len() as u64, 2 * (accepted / 4 + 1));
}

#[tokio::test]
async fn a_disk_filled_by_others_is_noticed_and_so_is_its_recovery() {
    let disk = SimulatedDisk::new();
    let options = LocalOptions { reserve_bytes: 16 << 10, ..options() };
    let (store, shard) = open_with(&disk, options).unwrap();
    shard.submit(send(1)).await.unwrap();
    let mut pressure = shard.pressure();
    disk.set_size_bytes_max(Some(disk.size_bytes() + (10 << 10)));
    store.current().shared().keeper_bell.ring();
    pressure.wait_for(|pressure| *pressure == Pressure::Full).await.unwrap();
    assert!(matches!(shard.submit(send(2)).await, Err(Error::Full { .. })));
    shard.resume(QUEUE);
    let mut small = Batch::new();
    small.put(Key::new(Space::Meta, QUEUE, 1), value(1, 10));
    shard.submit(small).await.unwrap();
    shard.submit(complete(1)).await.unwrap();
    disk.set_size_bytes_max(None);
    pressure.wait_for(|pressure| *pressure == Pressure::Normal).await.unwrap();
    shard.submit(send(3)).await.unwrap();
}

#[tokio::test]
async fn a_disk_without_any_room_refuses_and_loses_nothing() {
    let disk = SimulatedDisk::new();
    let options = LocalOptions { reserve_bytes: 0, ..options() };
    let (store, shard) = open_with(&disk, options.clone()).unwrap();
    shard.submit(send(1)).await.unwrap();
    disk.set_size_bytes_max(Some(disk.size_bytes() + (9 << 10)));
    let mut accepted = 1;
    for number in 2..1000 {
        match shard.submit(send(number)).await {
            Ok(()) => accepted += 1,
            Err(Error::Full { .. }) => break,
            Err(other) => panic!("{other}"),
        }
    }
    assert!(accepted < 900);
    shard.resume(QUEUE);
    shard.submit(complete(1)).await.unwrap();
    let found = contents(&*shard, &[QUEUE]).await.unwrap();
    assert_eq!(found.len(), 2 * (accepted - 1));
    store.close();
    disk.set_size_bytes_max(None);
    let (_store, shard) = open_with(&disk, options).unwrap();
    assert_eq!(contents(&*shard, &[QUEUE]).await.unwrap(), found);
}
