//! Permission to append: a record is stored only if its place is free and the preceding record is of the same epoch.

use std::sync::Arc;

use futures_util::future::join_all;
use peeklock_storage::cluster::{RecordKind, RecordPlace, ReplicatedLog};
use peeklock_storage::{Epoch, Error};

use crate::harness::{Trio, all, eventually, id, log, own, record};

#[tokio::test]
async fn a_stale_owner_with_appends_under_way_is_refused_and_nothing_slips_in() {
    let Some(trio) = Trio::shared() else { return };
    for round in 0..10_u64 {
        let schema = format!("slips_{round}");
        let (old, new) = (log(trio.database(&schema)), log(trio.database(&schema)));
        let owned = own(&old, 10).await;
        new.open().await.unwrap();
        let sent: Vec<u64> = (owned + 1..=owned + 40).collect();
        let appends: Vec<_> =
            sent.iter().map(|place| old.append(record(*place, 10, &place.to_string(), "b"))).collect();
        let (answers, seized) = tokio::join!(join_all(appends), own(&new, 20));
        let mut stored = 0;
        for (place, answer) in sent.iter().zip(answers) {
            match answer {
                Ok(()) => {
                    assert!(
                        *place < seized,
                        "record {place} was acknowledged behind the owner record {seized}"
                    );
                    stored += 1;
                }
                Err(Error::Fenced { .. }) => assert!(*place >= seized),
                Err(error) => panic!("{error}"),
            }
        }
        new.append(record(seized + 1, 20, "mine", "")).await.unwrap();
        let epochs: Vec<u64> = all(&new).await.iter().map(|record| record.id.epoch.0).collect();
        let expected = [vec![10; 1 + stored], vec![20; 2]].concat();
        assert_eq!(epochs, expected, "round {round}");
        let late = old.append(record(seized + 2, 10, "late", "")).await;
        assert!(matches!(late, Err(Error::Fenced { .. })), "{late:?}");
    }
}

#[tokio::test]
async fn appends_take_effect_in_call_order_also_without_a_waiting_caller() {
    let Some(trio) = Trio::shared() else { return };
    let log = log(trio.database("order"));
    let owned = own(&log, 1).await;
    for place in owned + 1..=owned + 100 {
        // Dropped at once, which neither cancels nor undoes the append.
        drop(log.append(record(place, 1, &place.to_string(), &"x".repeat(place as usize * 50))));
    }
    log.append(record(owned + 101, 1, "last", "")).await.unwrap();
    let found: Vec<u64> = all(&log).await.iter().map(|record| record.id.place.0).collect();
    assert_eq!(found, (1..=owned + 101).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_record_without_the_one_before_it_or_at_a_place_of_its_own_epoch_is_not_stored() {
    let Some(trio) = Trio::shared() else { return };
    let log = log(trio.database("gaps"));
    let owned = own(&log, 5).await;
    let gap = log.append(record(owned + 2, 5, "gap", "b")).await;
    assert!(matches!(gap, Err(Error::Unavailable { .. })), "{gap:?}");
    log.append(record(owned + 1, 5, "first", "b")).await.unwrap();
    let twice = log.append(record(owned + 1, 5, "second", "b")).await;
    assert!(matches!(twice, Err(Error::InDoubt { .. })), "{twice:?}");
    let seized = log.seize(id(owned, 5), Epoch(6)).await;
    assert!(matches!(seized, Err(Error::Fenced { .. })), "{seized:?}");
    let heads: Vec<_> = all(&log).await.into_iter().map(|record| record.heads).collect();
    assert_eq!(heads, ["".as_bytes(), b"first"]);
}

#[tokio::test]
async fn an_owner_record_needs_the_end_that_its_owner_read_and_a_higher_epoch() {
    let Some(trio) = Trio::shared() else { return };
    let log = log(trio.database("owners"));
    own(&log, 5).await;
    for (after, epoch) in [(id(1, 4), 6), (id(1, 5), 5), (id(2, 5), 6), (id(0, 0), 6)] {
        let refused = log.seize(after, Epoch(epoch)).await;
        assert!(matches!(refused, Err(Error::Fenced { .. })), "{after:?} {epoch}: {refused:?}");
    }
    log.seize(id(1, 5), Epoch(6)).await.unwrap();
    assert!(all(&log).await.iter().all(|record| record.kind == RecordKind::Owner));
}

/// A writer sleeps between its check and its insertion until its successor has trimmed all records that can be trimmed.
#[tokio::test]
async fn a_writer_that_slept_finds_its_place_taken_even_after_trimming() {
    let Some(trio) = Trio::shared() else { return };
    let (old, new) = (log(trio.database("sleeper")), log(trio.database("sleeper")));
    let owned = own(&old, 1).await;
    let server = &trio.primary;
    // The trigger runs after the check of the predecessor and before the row is stored.
    server.sql(
        "create function sleeper.sleep() returns trigger language plpgsql as $$ begin
           perform pg_advisory_lock_shared(77); perform pg_advisory_unlock_shared(77); return new; end $$;
         create trigger sleep before insert on sleeper.log for each row when (new.heads = 'sleep')
           execute function sleeper.sleep()",
    );
    let awake = server.sleep_holder();
    let slept = old.append(record(owned + 1, 1, "sleep", "b"));
    let asleep = || async {
        server.sql("select count(*) from pg_locks where locktype = 'advisory' and not granted") == "1"
    };
    eventually("the writer sleeps", asleep).await;
    let seized = own(&new, 2).await;
    assert_eq!(seized, owned + 1);
    for place in seized + 1..seized + 5 {
        new.append(record(place, 2, "x", "")).await.unwrap();
    }
    new.trim(Epoch(2), RecordPlace(seized + 4)).await.unwrap();
    drop(awake);
    let answer = slept.await;
    assert!(matches!(answer, Err(Error::Fenced { .. })), "{answer:?}");
    let kinds: Vec<_> = all(&new).await.into_iter().map(|record| (record.id.place.0, record.kind)).collect();
    assert_eq!(kinds, [(1, RecordKind::Owner), (2, RecordKind::Owner), (6, RecordKind::Commit)]);
}

#[tokio::test]
async fn a_log_that_is_not_open_takes_nothing() {
    let Some(trio) = Trio::shared() else { return };
    let log: Arc<dyn ReplicatedLog> = log(trio.database("closed"));
    let refused = log.append(record(1, 1, "x", "")).await;
    assert!(matches!(refused, Err(Error::Unavailable { .. })), "{refused:?}");
}
