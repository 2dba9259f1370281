use proptest::prelude::*;

use super::*;
use crate::Epoch;

const SHARD: ShardId = ShardId(3);

fn key() -> impl Strategy<Value = Key> {
    let number = prop_oneof![0..300_u64, any::<u64>()];
    (prop::sample::select(Space::ALL.to_vec()), 0..1000_u64, number)
        .prop_map(|(space, partition, number)| Key::new(space, PartitionId(partition), number))
}

fn bytes() -> impl Strategy<Value = Bytes> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..100),
        prop::collection::vec(any::<u8>(), INLINE_BYTES_MAX - 1..INLINE_BYTES_MAX + 2),
    ]
    .prop_map(Bytes::from)
}

fn batch() -> impl Strategy<Value = Batch> {
    let operation = (0..4_u8, key(), bytes(), any::<u64>());
    prop::collection::vec(operation, 0..12).prop_map(|operations| {
        let mut batch = Batch::new();
        for (what, key, value, other) in operations {
            match what {
                0 | 1 => batch.put(key, value),
                2 => batch.delete(key),
                _ => batch.delete_range(key.space, key.partition, key.number..=other),
            }
        }
        batch
    })
}

fn id() -> RecordId {
    RecordId { place: RecordPlace(77), epoch: Epoch(5) }
}

fn build(batch: &Batch, copies: &[Copy]) -> BuiltCommit {
    let mut builder = CommitBuilder::with_capacity(0);
    builder.push(batch);
    copies.iter().for_each(|copy| builder.push_copy(copy));
    builder.finish()
}

proptest! {
    #[test]
    fn the_size_of_a_record_is_known_before_it_is_built(batch in batch()) {
        let built = build(&batch, &[]);
        let sizes = RecordSize { heads: built.payload.len(), bodies: built.bodies.len() };
        prop_assert_eq!(RecordSize::of(&batch), sizes);
    }

    #[test]
    fn a_record_is_read_as_it_was_written(batch in batch(), moved in prop::collection::vec((key(), bytes()), 0..3)) {
        let from = Position { place: RecordPlace(12), offset: 99 };
        let copies: Vec<Copy> = moved.into_iter().map(|(key, value)| Copy { key, value, from }).collect();
        let built = build(&batch, &copies);
        let heads = seal(SHARD, id(), RecordKind::Commit, built.payload);
        let payload = unseal(SHARD, id(), RecordKind::Commit, &heads).unwrap();
        prop_assert_eq!(&Commit::decode(&payload).unwrap(), &built.commit);
        let mut at = 0;
        for change in &built.commit.changes {
            let (Change::Store { key, len, offset } | Change::Move { key, len, offset, .. }) = change else { continue };
            prop_assert_eq!(*offset, at);
            let FrameRead::Whole(frame, taken) = read_frame(&built.bodies.slice(at as usize..)) else { panic!("{change:?}") };
            prop_assert_eq!((frame.key, frame.value.len()), (*key, *len as usize));
            at += taken;
        }
        prop_assert_eq!(at as usize, built.bodies.len());
    }

    #[test]
    fn a_changed_byte_is_noticed(batch in batch(), at: prop::sample::Index, bit in 0..8_u8) {
        let built = build(&batch, &[]);
        let mut heads = seal(SHARD, id(), RecordKind::Commit, built.payload).to_vec();
        let at = at.index(heads.len());
        heads[at] ^= 1 << bit;
        prop_assert!(unseal(SHARD, id(), RecordKind::Commit, &heads.into()).is_err());
    }

    #[test]
    fn no_bytes_make_decoding_panic(bytes: Vec<u8>) {
        let bytes = Bytes::from(bytes);
        let _ = Commit::decode(&bytes);
        let _ = read_frame(&bytes);
    }
}

#[test]
fn a_record_at_another_place_or_of_another_owner_is_not_taken_for_this_one() {
    let heads = seal(SHARD, id(), RecordKind::Commit, build(&Batch::new(), &[]).payload);
    let elsewhere = RecordId { place: RecordPlace(78), ..id() };
    let of_another = RecordId { epoch: Epoch(6), ..id() };
    for (shard, id, kind) in [
        (ShardId(4), id(), RecordKind::Commit),
        (SHARD, elsewhere, RecordKind::Commit),
        (SHARD, of_another, RecordKind::Commit),
        (SHARD, id(), RecordKind::Mark),
    ] {
        assert!(unseal(shard, id, kind, &heads).is_err());
    }
    assert!(unseal(SHARD, id(), RecordKind::Commit, &heads).is_ok());
}

#[test]
fn a_frame_says_how_much_of_it_is_missing() {
    let mut batch = Batch::new();
    batch.put(Key::new(Space::Body, PartitionId(1), 7), Bytes::from(vec![9; 500]));
    let bodies = build(&batch, &[]).bodies;
    assert!(matches!(read_frame(&bodies.slice(..3)), FrameRead::Partial(_)));
    let FrameRead::Partial(whole) = read_frame(&bodies.slice(..100)) else { panic!() };
    assert_eq!(whole as usize, bodies.len());
    let mut damaged = bodies.to_vec();
    damaged[200] ^= 1;
    assert!(matches!(read_frame(&damaged.into()), FrameRead::Damaged));
}

/// The format of stored logs. A change here needs a new version and a reader of this one.
#[test]
fn the_bytes_of_a_record_stay() {
    let mut batch = Batch::new();
    batch.put(Key::new(Space::Head, PartitionId(1), 300), Bytes::from_static(b"head"));
    batch.put(Key::new(Space::Body, PartitionId(1), 300), Bytes::from_static(b"body"));
    batch.delete(Key::new(Space::Meta, PartitionId(2), 16));
    batch.delete_range(Space::Body, PartitionId(1), 1..=299);
    let from = Position { place: RecordPlace(5), offset: 130 };
    let copy =
        Copy { key: Key::new(Space::Body, PartitionId(1), 4), value: Bytes::from_static(b"old"), from };
    let built = build(&batch, &[copy]);
    let heads = seal(SHARD, id(), RecordKind::Commit, built.payload);
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!(hex(&heads), HEADS);
    assert_eq!(hex(&built.bodies), BODIES);
}

const HEADS: &str = "016dc827cb180101ac0204686561641201ac0204200210320101ab0242010403058201";
const BODIES: &str = "cae621690201ac0204626f647913cdb199020104036f6c64";
