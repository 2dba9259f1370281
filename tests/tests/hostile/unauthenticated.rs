//! Large numbers of unauthenticated connections.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use peeklock_tests::bystander::Bystander;
use peeklock_tests::client::{Client, PATIENCE, SASL_HEADER};
use peeklock_tests::codec::{code, data_message};
use peeklock_tests::daemon::Daemon;
use peeklock_tests::http::ask;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

/// A connection from the loopback address with this last byte.
async fn connect_from(last: u8, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from(([127, 0, 0, last], 0)))?;
    socket.connect(to).await
}

/// The work of a new client with a key, all of which must succeed at the first attempt.
fn work_as_newcomer(daemon: &Daemon, queue: &str) {
    let mut client = Client::connect(daemon.amqp()).unwrap();
    client.attach_sender(0, queue).unwrap().unwrap();
    client.attach_receiver(1, queue, 1).unwrap().unwrap();
    assert_eq!(client.send(0, &data_message(b"new")).unwrap().code(), Some(code::ACCEPTED));
    let delivery = client.receive(1).unwrap();
    assert_eq!(client.complete(delivery.id).unwrap().code(), Some(code::ACCEPTED));
    let (status, answer) = ask(daemon.http(), "GET", &format!("/{queue}"), "", b"");
    assert_eq!(status, 200, "{answer}");
}

/// As many as 20 000 open files allow for two processes, or fewer if the limit is lower.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_silent_connections_do_not_affect_other_clients() {
    const SILENT: usize = 10_000;
    const GROWTH_BYTES_MAX: u64 = 160 << 20;
    let mut daemon = Daemon::with_queues(&["bystander", "victim"]);
    let bystander = Bystander::start(daemon.amqp(), "bystander");
    let before = daemon.resident_bytes();
    let mut silent = Vec::new();
    for number in 0..SILENT {
        // From twelve addresses, so that each of the two limits is reached separately; every third sends part of a
        // request.
        let last = u8::try_from(number % 12 + 2).unwrap();
        let to = if number % 2 == 0 { daemon.amqp() } else { daemon.http() };
        let Ok(mut stream) = connect_from(last, to).await else { break };
        if number % 3 == 0 {
            // An evicted connection can't be written to.
            let _ = stream.write_all(if number % 2 == 0 { SASL_HEADER } else { b"GET / HTT" }).await;
        }
        silent.push(stream);
        if number % 1_000 == 999 {
            tokio::task::block_in_place(|| {
                bystander.await_progress();
                work_as_newcomer(&daemon, "victim");
            });
        }
    }
    assert!(silent.len() > 500, "only {} connections were possible", silent.len());
    let growth = daemon.resident_bytes().saturating_sub(before);
    println!("{} silent connections; memory grew by {} KiB", silent.len(), growth >> 10);
    assert!(growth < GROWTH_BYTES_MAX, "{} connections cost {growth} bytes", silent.len());
    bystander.dismiss();
    daemon.assert_sound();
}

#[test]
fn silent_connections_take_no_place_of_those_who_have_a_key() {
    let mut daemon = Daemon::with_config(
        "amqp.connections_max = 2\nnetwork.unauthenticated_max = 8\n[[queues]]\nname = \"bystander\"\n[[queues]]\nname = \"victim\"",
    );
    let bystander = Bystander::start(daemon.amqp(), "bystander");
    let mut silent = Vec::new();
    for _ in 0..8 {
        let mut silent_peer = Client::plug(daemon.amqp()).unwrap();
        silent_peer.write(SASL_HEADER).unwrap();
        silent_peer.read_header().unwrap();
        silent.push(silent_peer);
    }
    work_as_newcomer(&daemon, "victim");
    bystander.dismiss();
    daemon.assert_sound();
}

/// One attempt of a well-behaved client: connects and stays connected.
async fn get_in(to: SocketAddr) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(to).await?;
    stream.write_all(&Client::greeting()).await?;
    // Headers of SASL and AMQP, mechanisms, outcome, open: all of these are received only after authentication.
    let mut read = Vec::new();
    while !read.windows(8).any(|window| window == b"AMQP\x00\x01\x00\x00") {
        if stream.read_buf(&mut read).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(stream)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_clients_that_come_back_at_once_all_get_in() {
    const CLIENTS: usize = 2_000;
    let mut daemon = Daemon::with_queues(&["bystander"]);
    let to = daemon.amqp();
    let mut coming = JoinSet::new();
    for _ in 0..CLIENTS {
        coming.spawn(async move {
            let mut tries = 1;
            loop {
                match get_in(to).await {
                    Ok(stream) => return (stream, tries),
                    // Like the SDKs.
                    Err(_) => tokio::time::sleep(Duration::from_millis(100 << tries.min(5))).await,
                }
                tries += 1;
            }
        });
    }
    let arrived = tokio::time::timeout(PATIENCE, coming.join_all()).await.expect("all get in");
    let again = arrived.iter().filter(|(_, tries)| *tries > 1).count();
    println!("{} are in; {again} had to try again", arrived.len());
    assert_eq!(arrived.len(), CLIENTS);
    Bystander::start(daemon.amqp(), "bystander").dismiss();
    daemon.assert_sound();
}
