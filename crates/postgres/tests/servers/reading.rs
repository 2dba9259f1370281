//! Reads and removals.

use bytes::Bytes;
use peeklock_storage::cluster::{NewRecord, RecordKind, RecordPlace, Slice, Tail};
use peeklock_storage::{Epoch, Error};

use crate::harness::{Trio, all, id, log, own, record};

#[tokio::test]
async fn an_empty_log_has_no_end_and_a_long_one_its_last_mark() {
    let Some(trio) = Trio::shared() else { return };
    let log = log(trio.database("tails"));
    assert_eq!(log.open().await.unwrap(), Tail::default());
    own(&log, 3).await;
    for place in 2..=9 {
        let kind = if place % 3 == 0 { RecordKind::Mark } else { RecordKind::Part };
        log.append(NewRecord { kind, ..record(place, 3, "x", "") }).await.unwrap();
    }
    log.append(record(10, 3, "x", "")).await.unwrap();
    assert_eq!(log.open().await.unwrap(), Tail { last: id(10, 3), mark: Some(RecordPlace(9)) });
    let kinds: Vec<_> = all(&log).await.into_iter().map(|record| record.kind as u8).collect();
    assert_eq!(kinds, [0, 2, 3, 2, 2, 3, 2, 2, 3, 1]);
}

#[tokio::test]
async fn heads_come_in_pages_of_bounded_size_and_one_record_at_least() {
    let Some(trio) = Trio::shared() else { return };
    let log = log(trio.database("pages"));
    own(&log, 1).await;
    let sizes = [10, 3 << 20, 3 << 20, 6 << 20, 1, 2, 3];
    // Incompressible bytes.
    let mut seed = 7_u64;
    let mut noise = |size: usize| -> Bytes {
        let mut next = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) as u8
        };
        (0..size).map(|_| next()).collect()
    };
    let mut expected = vec![Bytes::new()];
    for (place, size) in (2..).zip(sizes) {
        let heads = noise(size);
        expected.push(heads.clone());
        log.append(NewRecord { heads, ..record(place, 1, "", "") }).await.unwrap();
    }
    let (mut found, mut pages) = (Vec::new(), Vec::new());
    while let page = log.heads(RecordPlace(found.len() as u64 + 1)).await.unwrap()
        && !page.is_empty()
    {
        pages.push(page.len());
        found.extend(page.into_iter().map(|record| record.heads));
    }
    assert!(found == expected, "other bytes");
    assert_eq!(pages, [4, 1, 3]);
}

#[tokio::test]
async fn parts_of_bodies_are_read_in_the_order_asked_for() {
    let Some(trio) = Trio::shared() else { return };
    let log = log(trio.database("parts"));
    own(&log, 1).await;
    let long = "0123456789".repeat(10_000);
    log.append(record(2, 1, "x", &long)).await.unwrap();
    log.append(record(3, 1, "x", "abc")).await.unwrap();
    log.append(record(4, 1, "x", "")).await.unwrap();
    let slice = |place, offset, len| Slice { place: RecordPlace(place), offset, len };
    let asked = vec![
        slice(3, 1, 2),
        slice(2, 99_995, 100),
        slice(4, 0, 1),
        slice(2, 0, 3),
        slice(3, 7, 2),
        slice(9, 0, 1),
        slice(2, 50_001, 2),
        slice(3, u32::MAX, u32::MAX),
        slice(3, 0, 0),
    ];
    let found = log.bodies(asked).await.unwrap();
    let texts: Vec<Option<&str>> =
        found.iter().map(|part| part.as_deref().map(|part| str::from_utf8(part).unwrap())).collect();
    let expected =
        [Some("bc"), Some("56789"), None, Some("012"), Some(""), None, Some("12"), Some(""), Some("")];
    assert_eq!(texts, expected);
    assert_eq!(log.bodies(Vec::new()).await.unwrap(), Vec::<Option<Bytes>>::new());
}

#[tokio::test]
async fn removals_are_the_owners_alone_and_owner_records_stay() {
    let Some(trio) = Trio::shared() else { return };
    let (old, new) = (log(trio.database("removals")), log(trio.database("removals")));
    own(&old, 1).await;
    for place in 2..=150 {
        drop(old.append(record(place, 1, "x", "bodies")));
    }
    old.append(record(151, 1, "x", "bodies")).await.unwrap();
    let bodies = || trio.primary.sql("select count(*) from removals.body");
    assert_eq!(bodies(), "150");
    old.drop_bodies(Epoch(1), (1..=100).map(RecordPlace).collect()).await.unwrap();
    assert_eq!(bodies(), "51");
    old.drop_bodies(Epoch(1), (50..=101).map(RecordPlace).collect()).await.unwrap();
    assert_eq!(bodies(), "50");
    own(&new, 2).await;
    let late = old.drop_bodies(Epoch(1), vec![RecordPlace(150)]).await;
    assert!(matches!(late, Err(Error::Fenced { .. })), "{late:?}");
    let late = old.trim(Epoch(1), RecordPlace(150)).await;
    assert!(matches!(late, Err(Error::Fenced { .. })), "{late:?}");
    assert_eq!((bodies().as_str(), all(&new).await.len()), ("50", 152));
    new.append(record(153, 2, "x", "")).await.unwrap();
    new.trim(Epoch(2), RecordPlace(153)).await.unwrap();
    let places: Vec<u64> = all(&new).await.into_iter().map(|record| record.id.place.0).collect();
    assert_eq!(places, [1, 152, 153]);
    assert_eq!(bodies(), "50", "bodies stay");
}

#[tokio::test]
async fn a_long_log_is_trimmed_in_steps() {
    let Some(trio) = Trio::shared() else { return };
    let log = log(trio.database("long"));
    own(&log, 1).await;
    trio.primary.sql("insert into long.log select 0, p, 1, 1, 'x' from generate_series(2, 3500) p");
    log.trim(Epoch(1), RecordPlace(3400)).await.unwrap();
    assert_eq!(all(&log).await.len(), 102);
}

/// Index entries of removed rows stay while a transaction of another client can see them; they are not visited again.
#[tokio::test]
async fn a_trim_begins_where_the_last_one_of_its_session_ended() {
    let Some(trio) = Trio::shared() else { return };
    let log = log(trio.database("trims"));
    own(&log, 1).await;
    for place in 2..=9 {
        log.append(record(place, 1, "x", "")).await.unwrap();
    }
    log.trim(Epoch(1), RecordPlace(5)).await.unwrap();
    // A row that a trim from the beginning would remove.
    trio.primary.sql("insert into trims.log select 0, 3, 1, 1, 'x'");
    log.trim(Epoch(1), RecordPlace(8)).await.unwrap();
    let places = || trio.primary.sql("select string_agg(place::text, ' ' order by place) from trims.log");
    assert_eq!(places(), "1 3 8 9");
    // Another session may be that of another server, with records that the first one had removed.
    log.open().await.unwrap();
    log.trim(Epoch(1), RecordPlace(8)).await.unwrap();
    assert_eq!(places(), "1 8 9");
}
