use super::*;

const KB: usize = 1024;

fn budget_of(bytes: usize) -> Arc<CacheBudget> {
    CacheBudget::new(bytes, Budget::default())
}

#[test]
fn the_cache_gives_way_when_the_process_has_little_left() {
    let process = Budget::new(1024 * KB);
    let budget = CacheBudget::new(200 * KB, process.clone());
    let mut cache = filled(&budget, 1..=150);
    cache.shrink(Some(BodyRef(150)));
    cache.report();
    assert!(process.used_by(Owner::BodyCache) > 100 * KB);
    let mut connection = process.share(Owner::Incoming);
    connection.set(960 * KB);
    cache.insert(BodyRef(151), content(151));
    cache.shrink(Some(BodyRef(151)));
    cache.report();
    assert!(process.used_by(Owner::BodyCache) <= 16 * KB);
    assert_eq!(cache.get(BodyRef(151)), Some(content(151)));
}

fn content(number: u64) -> Bytes {
    Bytes::from(vec![u8::try_from(number % 251).unwrap(); KB])
}

fn filled(budget: &Arc<CacheBudget>, numbers: std::ops::RangeInclusive<u64>) -> BodyCache {
    let mut cache = BodyCache::new(Arc::clone(budget));
    for number in numbers {
        cache.insert(BodyRef(number), content(number));
    }
    cache
}

#[test]
fn the_oldest_durable_contents_make_room() {
    let budget = budget_of(100 * KB);
    let mut cache = filled(&budget, 1..=200);
    cache.shrink(Some(BodyRef(200)));
    assert!(budget.used_bytes() <= 100 * KB);
    assert_eq!(cache.get(BodyRef(1)), None);
    assert_eq!(cache.get(BodyRef(200)), Some(content(200)));
}

#[test]
fn bodies_that_are_not_durable_stay_whatever_the_budget() {
    let budget = budget_of(10 * KB);
    let mut cache = filled(&budget, 1..=50);
    cache.shrink(Some(BodyRef(20)));
    assert_eq!(cache.get(BodyRef(20)), None);
    assert!((21..=50).all(|number| cache.get(BodyRef(number)) == Some(content(number))));
}

#[test]
fn a_newcomer_finds_room_beside_a_partition_that_filled_its_share() {
    let budget = budget_of(100 * KB);
    let mut busy = filled(&budget, 1..=200);
    busy.shrink(Some(BodyRef(200)));
    let mut newcomer = filled(&budget, 1..=1);
    newcomer.shrink(Some(BodyRef(1)));
    assert_eq!(newcomer.get(BodyRef(1)), Some(content(1)));
}

#[test]
fn small_bodies_keep_nothing_of_the_buffer_in_which_they_arrived() {
    let mut cache = BodyCache::new(budget_of(1024 * KB));
    let [buffer, other] = [7, 8].map(|octet| Bytes::from(vec![octet; BUFFER_BYTES_MAX]));
    let bodies = [buffer.slice(..10), buffer.slice(10..PART_BYTES_MIN - 1), other.slice(5..9)];
    for (number, body) in (1..).zip(&bodies) {
        cache.insert(BodyRef(number), body.clone());
    }
    cache.remove(BodyRef(1));
    cache.end_turn(None);
    let [_, kept, other_kept] = bodies.each_ref().map(|body| body.as_ptr());
    let [second, third] = [2, 3].map(|number| cache.get(BodyRef(number)).unwrap());
    assert_eq!([&second, &third], [&bodies[1], &bodies[2]]);
    assert!(second.as_ptr() != kept && third.as_ptr() != other_kept);
}

#[test]
fn a_large_part_of_a_buffer_is_not_copied() {
    let mut cache = BodyCache::new(budget_of(1024 * KB));
    let buffer = Bytes::from(vec![7; BUFFER_BYTES_MAX]);
    let numbers = 1..=PART_BYTES_MIN / KB;
    for number in numbers.clone() {
        cache.insert(BodyRef(number as u64), buffer.slice((number - 1) * KB..number * KB));
    }
    cache.end_turn(None);
    // A later turn has a part of its own.
    let later = buffer.slice(KB..2 * KB);
    cache.insert(BodyRef(1_000), later.clone());
    cache.end_turn(None);
    let address = |number| cache.get(BodyRef(number)).unwrap().as_ptr();
    for number in numbers {
        assert_eq!(address(number as u64), buffer.slice((number - 1) * KB..).as_ptr(), "{number}");
    }
    assert_ne!(address(1_000), later.as_ptr());
}

#[test]
fn removed_contents_are_charged_until_nothing_can_share_their_buffer() {
    let budget = budget_of(1024 * KB);
    let buffer = Bytes::from(vec![7; 64 * KB]);
    let mut cache = BodyCache::new(Arc::clone(&budget));
    for number in 0..64_usize {
        let slice = buffer.slice(number * KB..(number + 1) * KB);
        cache.insert(BodyRef(number as u64 + 1), slice);
    }
    for number in 2..=32 {
        cache.remove(BodyRef(number));
    }
    assert!(budget.used_bytes() > 64 * KB, "the first content still holds the whole buffer");
    for number in 33..=64 {
        cache.remove(BodyRef(number));
    }
    assert!(budget.used_bytes() < 40 * KB);
    let survivor = cache.get(BodyRef(1)).unwrap();
    assert_eq!(survivor, buffer.slice(..KB));
    drop(cache);
    assert_eq!(budget.used_bytes(), 0);
    assert!(buffer.is_unique(), "the survivor has a buffer of its own");
}

#[test]
fn gaps_in_the_numbers_do_no_harm() {
    let budget = budget_of(1024 * KB);
    let mut cache = BodyCache::new(budget);
    for number in [3, 4, 9, 1_000_000] {
        cache.insert(BodyRef(number), content(number));
    }
    assert_eq!(cache.get(BodyRef(9)), Some(content(9)));
    assert_eq!(cache.get(BodyRef(5)), None);
    cache.remove(BodyRef(3));
    cache.remove(BodyRef(5));
    assert_eq!(cache.get(BodyRef(1_000_000)), Some(content(1_000_000)));
    assert_eq!(cache.get(BodyRef(3)), None);
}

#[test]
fn a_body_with_an_earlier_number_stays_until_it_is_durable() {
    let budget = budget_of(1024 * KB);
    let mut cache = filled(&budget, 5..=6);
    let charged_bytes = budget.used_bytes();
    for number in [3, 2, 4] {
        cache.insert(BodyRef(number), content(number));
    }
    cache.remove(BodyRef(4));
    cache.end_turn(Some(BodyRef(2)));
    let cached = |cache: &BodyCache| {
        (2..=6).filter(|number| cache.get(BodyRef(*number)) == Some(content(*number))).collect::<Vec<_>>()
    };
    assert_eq!(cached(&cache), [3, 5, 6]);
    assert_eq!(budget.used_bytes(), charged_bytes / 2 * 3);
    cache.end_turn(Some(BodyRef(6)));
    assert_eq!(cached(&cache), [5, 6]);
    assert_eq!(budget.used_bytes(), charged_bytes);
    cache.insert(BodyRef(1), content(1));
    drop(cache);
    assert_eq!(budget.used_bytes(), 0);
}
