//! Segments that can't be prepared for another reason than lack of room.

use super::errno::{EACCES, EIO, EMFILE};
use super::*;
use crate::local::{Call, Event, SteppedStore};
use crate::{Commit, Pressure};

/// More than the attempts of a test.
const FAILURES: usize = 10_000;

/// From now on no file of a segment can be created.
fn fail_preparations(disk: &SimulatedDisk, errno: i32) {
    (0..FAILURES).for_each(|_| disk.plan(Some(Call::Create), ".segment", 0, Event::Fail(errno)));
}

/// Writes everything that was submitted and returns the answer of `commit`.
async fn written(store: &SteppedStore, commit: Commit) -> Result<(), Error> {
    while store.write(1) > 0 {}
    commit.await
}

/// Sends from `first` on until refused; returns the number of the refused message and the refusal.
async fn send_until_refused(store: &SteppedStore, first: u64) -> (u64, Error) {
    for number in first..first + 1000 {
        if let Err(error) = written(store, store.submit(send(number))).await {
            store.resume(QUEUE);
            return (number, error);
        }
    }
    panic!("never refused");
}

#[tokio::test]
async fn a_store_whose_segments_cannot_be_prepared_is_not_full_but_failing() {
    for errno in [EIO, EACCES, EMFILE] {
        let disk = SimulatedDisk::new();
        let store = SteppedStore::open(disk.mount(), DIRECTORY, options()).unwrap();
        let pressure = store.pressure();
        fail_preparations(&disk, errno);
        written(&store, store.submit(send(1))).await.unwrap();
        store.keep();
        assert_eq!(*pressure.borrow(), Pressure::Normal, "{errno}: the present segment has room");
        let (refused, error) = send_until_refused(&store, 2).await;
        assert!(refused > 10 && error.is_outage(), "{errno}: {refused} {error:?}");
        assert_eq!(*pressure.borrow(), Pressure::Failing, "{errno}");
        let (early, behind) = (store.submit(send(refused)), store.submit(complete(2)));
        while store.write(1) > 0 {}
        assert!(early.await.is_err_and(|error| error.is_outage()), "{errno}");
        assert!(behind.await.is_err_and(|error| error.is_outage()), "{errno}: it builds on a refused batch");
        store.resume(QUEUE);

        disk.clear_faults();
        (0..3).for_each(|_| store.keep());
        assert_eq!(*pressure.borrow(), Pressure::Normal, "{errno}");
        written(&store, store.submit(send(refused))).await.unwrap();
        assert_eq!(contents(&store, &[QUEUE]).await.unwrap().len() as u64, 2 * refused, "{errno}");
    }
}
