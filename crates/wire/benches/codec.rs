//! Compares our codec with `fe2o3-amqp-types` on `serde_amqp`, on the frames and sections that a broker reads and
//! writes per message.
//!
//! `cargo bench -p peeklock-wire --bench codec`. Theirs reads slices and writes into a reused buffer, its fastest way,
//! and has no frame header to handle. Ours returns the payload as a slice and writes the frame header too.

#![allow(missing_docs, clippy::unwrap_used)] // a benchmark may panic

use std::hint::black_box;

use bytes::{Bytes, BytesMut};
use criterion::{Criterion, criterion_group, criterion_main};
use fe2o3_amqp_types::messaging::message::__private::Deserializable;
use fe2o3_amqp_types::messaging::{Body, Message};
use fe2o3_amqp_types::performatives as theirs;
use peeklock_wire::Value;
use peeklock_wire::frame::{decode_body, encode_frame};
use peeklock_wire::message::*;
use peeklock_wire::performative::*;
use serde::{Serialize, de::DeserializeOwned};

/// A frame body without payload.
fn body_of(performative: &Performative) -> Bytes {
    let mut output = BytesMut::new();
    encode_frame(0, performative, 0, &mut output);
    output.freeze().slice(8..)
}

fn compare<T: Serialize + DeserializeOwned>(
    criterion: &mut Criterion,
    name: &str,
    performative: &Performative,
) {
    let body = body_of(performative);
    let their: T = serde_amqp::from_slice(&body).unwrap();

    let mut group = criterion.benchmark_group(name);
    group.bench_function("decode/ours", |bencher| {
        bencher.iter(|| decode_body(black_box(body.clone())).unwrap());
    });
    group.bench_function("decode/serde_amqp", |bencher| {
        bencher.iter(|| serde_amqp::from_slice::<T>(black_box(&body)).unwrap());
    });
    let mut output = BytesMut::with_capacity(4096);
    group.bench_function("encode/ours", |bencher| {
        bencher.iter(|| {
            output.clear();
            encode_frame(1, black_box(performative), 1024, &mut output);
            output.len()
        });
    });
    let mut output = Vec::with_capacity(4096);
    group.bench_function("encode/serde_amqp", |bencher| {
        bencher.iter(|| {
            output.clear();
            let mut serializer = serde_amqp::ser::Serializer::new(&mut output);
            black_box(&their).serialize(&mut serializer).unwrap();
            output.len()
        });
    });
    group.finish();
}

fn performatives(criterion: &mut Criterion) {
    let transfer = Performative::Transfer(Transfer {
        handle: 1,
        delivery_id: Some(70_000),
        delivery_tag: Some(Tag::from_slice(b"0123456789abcdef")),
        message_format: Some(0),
        settled: Some(false),
        ..Transfer::default()
    });
    compare::<theirs::Transfer>(criterion, "transfer", &transfer);
    let disposition = Performative::Disposition(Disposition {
        role: Role::Receiver,
        first: 70_000,
        last: Some(70_003),
        settled: true,
        state: Some(DeliveryState::Accepted),
        batchable: false,
    });
    compare::<theirs::Disposition>(criterion, "disposition", &disposition);
    let flow = Performative::Flow(Flow {
        next_incoming_id: Some(70_000),
        incoming_window: 2048,
        next_outgoing_id: 90_000,
        outgoing_window: u32::MAX,
        handle: Some(1),
        delivery_count: Some(70_000),
        link_credit: Some(1000),
        ..Flow::default()
    });
    compare::<theirs::Flow>(criterion, "flow", &flow);
}

/// 1 KB of data with the sections that an SDK adds.
fn message() -> Bytes {
    let mut output = BytesMut::new();
    Header { durable: Some(true), ttl_ms: Some(60_000), ..Header::default() }.encode(&mut output);
    let annotations = [(Value::symbol("x-opt-partition-key"), Value::from("customer-17"))];
    encode_message_annotations(&annotations, &mut output);
    MessageProperties {
        message_id: "0b6a7d0c-2b4e-4a86-9a58-4a5d2c1f7b9e".into(),
        subject: Some("order-created".into()),
        content_type: Some("application/json".into()),
        ..MessageProperties::default()
    }
    .encode(&mut output);
    let properties = [
        ("tenant".into(), "fabrikam".into()),
        ("attempt".into(), Value::Int(1)),
        ("urgent".into(), Value::Bool(true)),
    ];
    encode_application_properties(&properties, &mut output);
    output.extend_from_slice(&[0, 0x53, 0x75, 0xb0, 0, 0, 4, 0]);
    output.extend_from_slice(&[b'x'; 1024]);
    output.freeze()
}

fn sections(criterion: &mut Criterion) {
    let message = message();
    let mut group = criterion.benchmark_group("message");
    group.bench_function("split/ours", |bencher| {
        bencher.iter(|| Sections::split(black_box(&message)).unwrap());
    });
    group.bench_function("split_trusted/ours", |bencher| {
        bencher.iter(|| Sections::split_trusted(black_box(&message)).unwrap());
    });
    group.bench_function("split_and_decode_properties/ours", |bencher| {
        bencher.iter(|| {
            let sections = Sections::split(black_box(&message)).unwrap();
            (sections.decode_header().unwrap(), sections.decode_properties().unwrap())
        });
    });
    group.bench_function("decode/serde_amqp", |bencher| {
        bencher.iter(|| {
            let message = black_box(&message);
            serde_amqp::from_slice::<Deserializable<Message<Body<serde_amqp::Value>>>>(message).unwrap()
        });
    });
    group.finish();
}

criterion_group!(benches, performatives, sections);
criterion_main!(benches);
