//! A connection that ends at each request of a store: before the request arrives, or before its answer does.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use peeklock_storage::{Batch, Key, Lease, Space, Store};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::harness::{
    QUEUE, SHARD, Trio, acquire, database, messages, options, send, small, store, store_with,
};

/// Every request was tried once; each takes seconds, so the test has one in this many. Which one that is varies, because
/// the numbers depend on the time.
const STEP: usize = 9;

/// The request at which a connection ends.
#[derive(Debug, Clone, Copy)]
struct Cut {
    /// The number of the request, over all connections.
    at: u64,
    is_carried_out: bool,
}

/// A proxy that ends one connection at a request.
struct Cutter {
    port: u16,
    requests: Arc<AtomicU64>,
    _tasks: JoinSet<()>,
}

impl Cutter {
    async fn before(server_port: u16, cut: Cut) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::<AtomicU64>::default();
        let (mut tasks, count) = (JoinSet::new(), Arc::clone(&requests));
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let address = SocketAddr::from(([127, 0, 0, 1], server_port));
                let Ok(server) = TcpStream::connect(address).await else { continue };
                connections.spawn(pass(client, server, Arc::clone(&count), cut));
            }
        });
        Self { port, requests, _tasks: tasks }
    }
}

async fn pass(client: TcpStream, server: TcpStream, requests: Arc<AtomicU64>, cut: Cut) {
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
        (client.into_split(), server.into_split());
    let is_cut = AtomicBool::new(false);
    let there = async {
        let mut buffer = vec![0; 1 << 20];
        while let Ok(read @ 1..) = from_client.read(&mut buffer).await {
            let is_now = requests.fetch_add(1, Ordering::Relaxed) + 1 == cut.at;
            is_cut.fetch_or(is_now, Ordering::Relaxed);
            if is_now && !cut.is_carried_out || to_server.write_all(&buffer[..read]).await.is_err() {
                return;
            }
        }
    };
    let back = async {
        let mut buffer = vec![0; 1 << 20];
        while let Ok(read @ 1..) = from_server.read(&mut buffer).await {
            if is_cut.load(Ordering::Relaxed) || to_client.write_all(&buffer[..read]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! { () = there => {} () = back => {} }
}

fn complete(number: u64) -> Batch {
    let mut batch = Batch::new();
    batch.delete(Key::new(Space::Head, QUEUE, number));
    batch.delete(Key::new(Space::Body, QUEUE, number));
    batch
}

/// Sends and removes messages, so that all kinds of requests occur.
async fn work(lease: &Lease) {
    for round in 0..4_u64 {
        let numbers = round * 10..round * 10 + 10;
        for commit in join_all(numbers.clone().map(|number| lease.submit(send(number)))).await {
            commit.unwrap();
        }
        for commit in
            join_all(numbers.filter(|number| number % 5 > 0).map(|n| lease.submit(complete(n)))).await
        {
            commit.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(60)).await;
    }
}

/// Returns the number of requests.
async fn run(trio: &Trio, cut: Cut) -> u64 {
    let schema = format!("cuts_{}_{}", cut.at, cut.is_carried_out);
    let cutter = Cutter::before(trio.primary.port, cut).await;
    let url = format!("postgres://app:secret@127.0.0.1:{}/app", cutter.port);
    let serving = store_with(database(options(&url, &schema)), small());
    let mut lease = serving.acquire(SHARD).await;
    for _ in 0..3 {
        if lease.is_err() {
            lease = serving.acquire(SHARD).await;
        }
    }
    let lease = lease.unwrap_or_else(|error| panic!("{cut:?}: {error}"));
    tokio::time::timeout(Duration::from_secs(40), work(&lease))
        .await
        .unwrap_or_else(|_| panic!("{cut:?}: stuck"));
    assert_eq!(lease.loss(), None, "{cut:?}");
    let expected: Vec<u64> = (0..40).filter(|number| number % 5 == 0).collect();
    let reader = store(trio.database(&schema));
    assert_eq!(messages(&acquire(&reader).await).await, expected, "{cut:?}");
    let requests = cutter.requests.load(Ordering::Relaxed);
    trio.primary.sql(&format!("drop schema {schema} cascade"));
    requests
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_ends_at_any_request_costs_neither_lease_nor_message() {
    let Some(trio) = Trio::start() else { return };
    let requests = run(&trio, Cut { at: 0, is_carried_out: false }).await;
    for is_carried_out in [false, true] {
        let all: Vec<u64> = (1..=requests).step_by(STEP).collect();
        for some in all.chunks(6) {
            join_all(some.iter().map(|at| run(&trio, Cut { at: *at, is_carried_out }))).await;
        }
    }
}
