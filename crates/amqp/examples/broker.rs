//! A broker in memory: `cargo run -p peeklock-amqp --example broker [PORT] [QUEUE…]`.

use std::sync::Arc;
use std::time::Instant;

use bytes::BytesMut;
use peeklock_amqp::endpoint::{Config, Connection};
use peeklock_amqp::server::{Application, ApplicationFactory, Peer};
use peeklock_amqp::servicebus::{DialectConfig, ServiceBus};
use peeklock_engine::QueueOptions;
use peeklock_engine::runtime::{Mailbox, Namespace, NamespaceOptions, SystemClock};
use peeklock_storage::{MemoryStore, ShardId, Store};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

async fn serve(stream: tokio::net::TcpStream, bus: ServiceBus) {
    let (mailbox, mut outputs) = Mailbox::new();
    let mut app = bus.accept(&Peer { address: None, encrypted: false }, mailbox);
    let start = Instant::now();
    let now = || start.elapsed().as_millis() as u64;
    let mut connection = Connection::server(Config::default(), now());
    let (mut read, mut write) = stream.into_split();
    let mut input = BytesMut::new();
    let mut closed = false;
    while !closed {
        let deadline = connection.poll_deadline().unwrap_or(now() + 1000);
        tokio::select! {
            n = read.read_buf(&mut input) => if !matches!(n, Ok(n) if n > 0) { connection.handle_end_of_input(); },
            Some(output) = outputs.recv() => {
                app.handle_output(output, &mut connection, now());
                while let Ok(output) = outputs.try_recv() { app.handle_output(output, &mut connection, now()); }
            }
            () = tokio::time::sleep(std::time::Duration::from_millis(deadline.saturating_sub(now()) + 1)) => connection.handle_timeout(now()),
        }
        loop {
            connection.handle_input(&mut input, now());
            while let Some(event) = connection.poll_event() {
                closed |= matches!(event, peeklock_amqp::endpoint::Event::Closed { .. });
                app.handle_event(event, &mut connection, now());
            }
            app.end_of_turn(&mut connection, now());
            let mut slices = Vec::new();
            connection.poll_transmit(&mut slices, 1 << 20, now());
            let more = !slices.is_empty();
            if write.write_all(&slices.concat()).await.is_err() {
                connection.handle_end_of_input();
            }
            if !more && !connection.has_input_work(&input) {
                break;
            }
        }
    }
}

#[tokio::main]
async fn main() {
    tracing_subscriber::fmt().with_env_filter(tracing_subscriber::EnvFilter::from_default_env()).init();
    let mut arguments = std::env::args().skip(1);
    let port = arguments.next().unwrap_or_else(|| "5672".into());
    let shard = MemoryStore::new().acquire(ShardId(0)).unwrap();
    let options = NamespaceOptions { body_cache_bytes: 64 << 20, seed: None };
    let namespace = Namespace::start(shard, Arc::new(SystemClock::default()), options).await.unwrap();
    for name in arguments {
        let lock_duration_ms = if name.starts_with("short") { 5_000 } else { 60_000 };
        let options = QueueOptions { lock_duration_ms, ..QueueOptions::default() };
        namespace.declare_queue(&name, options).await.unwrap();
    }
    let bus = ServiceBus::new(Arc::new(namespace), DialectConfig::default());
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await.unwrap();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        tokio::spawn(serve(stream, bus.clone()));
    }
}
