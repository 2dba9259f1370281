//! A broker that keeps everything in memory, for trying out a client: `cargo run -p peeklock-amqp --example broker
//! 127.0.0.1:5672 orders invoices`.

use std::error::Error;
use std::sync::Arc;

use peeklock_access::Access;
use peeklock_amqp::endpoint::Config;
use peeklock_amqp::server::{Listener, ListenerOptions};
use peeklock_amqp::servicebus::{DialectConfig, ServiceBus};
use peeklock_engine::QueueOptions;
use peeklock_engine::runtime::{Namespace, NamespaceOptions, SystemClock};
use peeklock_storage::{MemoryStore, ShardId, Store};

/// Memory for recent bodies, in bytes.
const BODY_CACHE_BYTES: usize = 64 * 1024 * 1024;

/// Queues whose name has this prefix lock messages for five seconds, the minimum.
const SHORT_LOCK_PREFIX: &str = "short";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().init();
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:5672".to_owned()).parse()?;
    let shard = MemoryStore::new().acquire(ShardId(0)).await?;
    let options =
        NamespaceOptions { body_cache_bytes: BODY_CACHE_BYTES, seed: None, ..NamespaceOptions::default() };
    let clock = Arc::new(SystemClock::default());
    let namespace = Namespace::start(shard, clock.clone(), options).await?;
    for name in arguments {
        let lock_duration_ms = if name.starts_with(SHORT_LOCK_PREFIX) { 5_000 } else { 60_000 };
        namespace.declare(&name, QueueOptions { lock_duration_ms, ..QueueOptions::default() }).await?;
    }
    let bus = ServiceBus::new(Arc::new(namespace), Access::open(), DialectConfig::default());
    let options = ListenerOptions { connections_max: 1000, endpoint: Config::default(), grace_ms: 0 };
    let listener = Listener::bind(address, Arc::new(bus), clock, options).await?;
    listener.run(std::future::pending()).await;
    Ok(())
}
