//! A data directory written by an earlier version, opened by this one. `fixtures/` has one directory for each record format.

mod fill;
mod verify;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use peeklock_engine::runtime::{Namespace, NamespaceOptions};
use peeklock_engine::{
    AuthorizationRule, EntityStatus, Forwarding, Kept, MessageView, PropertyValue, QueueOptions, Rights,
    RuleProperties, Secret, SubscriptionOptions, Timestamp, TopicOptions,
};
use peeklock_storage::{LocalOptions, LocalStore, ShardId, Store};

use crate::broker::{Broker, Client, QUEUE, START, TestClock};

/// Directories that this version must open, named after their record format: fields by position, or tagged.
const FIXTURES: [&str; 1] = ["by-position"];
const SEGMENT_BYTES: u32 = 64 << 10;
/// After every run of the tests.
const SCHEDULED: Timestamp = Timestamp(4_000_000_000_000);

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

/// A broker over the data directory at `path`.
async fn open(path: &Path) -> Broker<LocalStore> {
    let options = LocalOptions { segment_bytes: SEGMENT_BYTES, reserve_bytes: 0, ..LocalOptions::default() };
    let store = LocalStore::open(path, options).unwrap();
    let lease = store.acquire(ShardId(0)).await.unwrap();
    let clock = TestClock::new(START);
    let options = NamespaceOptions {
        seed: Some(1),
        read_rule_properties: Some(read_rule_properties),
        ..NamespaceOptions::default()
    };
    let namespace = Namespace::start(lease, Arc::new(clock.clone()), options).await.unwrap();
    Broker { store, clock, namespace }
}

async fn close(broker: Broker<LocalStore>) {
    broker.namespace.shutdown().await;
    broker.store.close();
}

/// Bodies of these tests are a label and, between two colons, a size: `red:9:`.
fn read_rule_properties(content: &Bytes, view: &MessageView) -> Option<RuleProperties> {
    let mut seen = rule_properties(std::str::from_utf8(content).ok()?);
    if let Some(changes) = &view.changes {
        changes.apply(&mut seen);
    }
    Some(seen)
}

fn rule_properties(content: &str) -> RuleProperties {
    let mut parts = content.split(':');
    let label = parts.next().map(Into::into);
    let size = parts.next().and_then(|size| size.parse().ok()).map(PropertyValue::Integer);
    let user = size.map(|size| ("size".into(), size)).into_iter().collect();
    let partition_key = Some("key".into());
    RuleProperties { label, user, partition_key, ..RuleProperties::default() }
}

/// A client of a queue or topic, or of a subscription of the topic.
fn client(broker: &Broker<LocalStore>, entity: &str, subscription: Option<&str>) -> Client {
    let mut client = broker.client();
    let entity = broker.namespace.entity(entity).unwrap();
    (client.handle, client.queue) = (entity.partition, entity.queue);
    if let Some(name) = subscription {
        let subscription = broker.namespace.subscription("news", name).unwrap();
        (client.handle, client.queue) = (subscription.partition, subscription.queue);
    }
    client
}

fn orders() -> QueueOptions {
    let rule = AuthorizationRule {
        name: "senders".into(),
        rights: Rights { send: true, ..Rights::default() },
        primary_key: Secret::new("primary"),
        secondary_key: Secret::new("secondary"),
        created_at: START,
        modified_at: Timestamp(START.0 + 1),
    };
    QueueOptions {
        lock_duration_ms: 30_000,
        max_delivery_count: 7,
        dead_lettering_on_message_expiration: true,
        max_size_bytes: 1 << 30,
        authorization_rules: vec![rule],
        kept: Kept { user_metadata: Some("of ours".into()), enable_express: true, ..Kept::default() },
        ..QueueOptions::default()
    }
}

fn baskets() -> QueueOptions {
    QueueOptions {
        requires_session: true,
        status: EntityStatus::SendDisabled,
        auto_delete_on_idle_ms: Some(1 << 40),
        ..QueueOptions::default()
    }
}

fn once() -> QueueOptions {
    QueueOptions {
        requires_duplicate_detection: true,
        duplicate_detection_history_time_window_ms: 7 * 24 * 3_600_000,
        ..QueueOptions::default()
    }
}

fn forwards(target: &str) -> Forwarding {
    Forwarding { forward_to: Some(target.into()), ..Forwarding::default() }
}

fn source() -> QueueOptions {
    QueueOptions { forwarding: forwards("target"), ..QueueOptions::default() }
}

fn news() -> TopicOptions {
    let kept = Kept { support_ordering: false, ..Kept::default() };
    TopicOptions { default_message_time_to_live_ms: Some(1 << 40), kept, ..TopicOptions::default() }
}

fn large() -> SubscriptionOptions {
    SubscriptionOptions {
        max_delivery_count: 3,
        dead_lettering_on_filter_evaluation_exceptions: false,
        ..SubscriptionOptions::default()
    }
}

fn copy(from: &Path) -> tempfile::TempDir {
    let to = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), to.path().join(file.file_name())).unwrap();
    }
    to
}

#[tokio::test]
async fn everything_in_an_earlier_store_is_there() {
    for name in FIXTURES {
        let directory = copy(&fixture(name));
        let broker = open(directory.path()).await;
        verify::everything(&broker).await;
        verify::work_goes_on(&broker).await;
        close(broker).await;
    }
}

/// Records written by this version next to records of an earlier one are readable.
#[tokio::test]
async fn an_earlier_store_that_was_written_to_opens_again() {
    for name in FIXTURES {
        let directory = copy(&fixture(name));
        let broker = open(directory.path()).await;
        verify::everything(&broker).await;
        broker.namespace.update(QUEUE, QueueOptions { max_delivery_count: 8, ..orders() }).await.unwrap();
        client(&broker, QUEUE, None).sent("new").await;
        close(broker).await;
        let broker = open(directory.path()).await;
        let options = broker.namespace.options(QUEUE).unwrap();
        assert_eq!(*options, QueueOptions { max_delivery_count: 8, ..orders() }.into());
        broker.namespace.update(QUEUE, orders()).await.unwrap();
        let messages = verify::browsed(&broker, QUEUE, None, peeklock_engine::SubQueue::Main).await;
        assert_eq!(messages.last().unwrap().content, "new");
        close(broker).await;
    }
}

#[tokio::test]
async fn the_current_format_is_read_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    let broker = open(directory.path()).await;
    fill::fill(&broker).await;
    close(broker).await;
    let broker = open(directory.path()).await;
    verify::everything(&broker).await;
    verify::work_goes_on(&broker).await;
    close(broker).await;
}

/// Run before the record format changes: `cargo test -p peeklock-engine --test runtime write_a_fixture -- --ignored`.
#[tokio::test]
#[ignore = "writes a fixture instead of testing"]
async fn write_a_fixture() {
    let directory = tempfile::tempdir().unwrap();
    let broker = open(directory.path()).await;
    fill::fill(&broker).await;
    close(broker).await;
    let path = fixture(std::env::var("FIXTURE").as_deref().unwrap_or("new"));
    std::fs::create_dir_all(&path).unwrap();
    for file in std::fs::read_dir(directory.path()).unwrap() {
        let name = file.unwrap().file_name();
        if name != "LOCK" && name != "RESERVE" {
            std::fs::copy(directory.path().join(&name), path.join(&name)).unwrap();
        }
    }
}
