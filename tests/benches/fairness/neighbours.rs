//! Clients that use all the throughput they can get. Their frames are templates, so that most of the machine's time is
//! left to the broker.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use peeklock_tests::client::{self, Client};
use peeklock_tests::codec::{self, Value, code};
use peeklock_tests::wire::{DETACH, DISPOSITION, TRANSFER, Wire, delivery_id, is_more, range};

/// Connections that load the broker.
const CONNECTIONS: u32 = 4;
/// Credit of a receiver, and messages under way while a backlog is filled.
const WINDOW: u32 = 500;
/// Links attached and detached in one write.
const LINKS: u32 = 1_000;

/// The load of the neighbours.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// Number of queues, used by the connections in rotation.
    pub(crate) queues: u32,
    /// Size of a body; 1 000 for a link, so that the throughput is in thousands of links a second.
    pub(crate) body_bytes: usize,
    work: Work,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    /// Sends settled messages, as fast as the socket accepts them.
    SendSettled,
    /// Sends with this many messages under way.
    Send { window: u32 },
    /// One connection receives and completes a backlog of this size.
    Drain { backlog: u32 },
    /// Attaches and detaches links.
    Attach,
}

pub(crate) const CASES: &[Case] = &[
    Case { name: "settled-one-queue", queues: 1, body_bytes: 1024, work: Work::SendSettled },
    Case { name: "settled-four-queues", queues: 4, body_bytes: 1024, work: Work::SendSettled },
    Case { name: "pipelined-one-queue", queues: 1, body_bytes: 1024, work: Work::Send { window: 500 } },
    Case {
        name: "draining-a-backlog",
        queues: 1,
        body_bytes: 1024,
        work: Work::Drain { backlog: 1_500_000 },
    },
    Case { name: "attaching", queues: 1, body_bytes: 1_000, work: Work::Attach },
    Case { name: "large-bodies", queues: 4, body_bytes: 1000 << 10, work: Work::Send { window: 8 } },
];

/// The name of a queue of the neighbours.
pub(crate) fn queue(number: u32) -> String {
    format!("q{number}")
}

/// Fills the backlog, if the case has one.
pub(crate) fn fill(case: &Case, address: SocketAddr) {
    if let Work::Drain { backlog } = case.work {
        thread::scope(|scope| {
            (0..CONNECTIONS).for_each(|_| {
                scope.spawn(|| {
                    send(address, &queue(0), case, backlog / CONNECTIONS, WINDOW, &AtomicU64::new(0));
                });
            });
        });
    }
}

/// Works until the standard input ends, then prints the number of bytes transferred in bodies.
pub(crate) fn run(case: &'static Case, address: SocketAddr) {
    let bytes = Arc::new(AtomicU64::new(0));
    let connections = if matches!(case.work, Work::Drain { .. }) { 1 } else { CONNECTIONS };
    for connection in 0..connections {
        let (bytes, queue) = (Arc::clone(&bytes), queue(connection % case.queues));
        thread::spawn(move || match case.work {
            Work::SendSettled => send_settled(address, &queue, case, &bytes),
            Work::Send { window } => send(address, &queue, case, u32::MAX, window, &bytes),
            Work::Drain { .. } => receive(address, &queue, case, &bytes),
            Work::Attach => attach(address, &queue, case, &bytes),
        });
    }
    io::copy(&mut io::stdin(), &mut io::sink()).unwrap();
    println!("{}", bytes.load(Ordering::Relaxed));
}

fn send(address: SocketAddr, queue: &str, case: &Case, count: u32, window: u32, bytes: &AtomicU64) {
    let message = codec::data_message(&vec![b'x'; case.body_bytes]);
    let mut client = Client::connect(address).unwrap();
    client.attach_sender(0, queue).unwrap().unwrap();
    let mut wire = Wire::new(client.stream());
    let (mut sent, mut answered) = (0, 0);
    while answered < count {
        while sent < count && sent - answered < window {
            wire.put_transfer(sent, &message, false);
            sent += 1;
        }
        wire.flush();
        let before = answered;
        wire.read_frames(|code, frame| {
            if code == DISPOSITION {
                let (first, last) = range(frame);
                answered += last - first + 1;
            }
        });
        count_bytes(case, answered - before, bytes);
    }
}

/// Sends settled messages, limited only by the socket.
fn send_settled(address: SocketAddr, queue: &str, case: &Case, bytes: &AtomicU64) {
    let message = codec::data_message(&vec![b'x'; case.body_bytes]);
    let mut client = Client::connect(address).unwrap();
    client.attach_sender(0, queue).unwrap().unwrap();
    let mut answers = client.stream().try_clone().unwrap();
    thread::spawn(move || io::copy(&mut answers, &mut io::sink()));
    let mut wire = Wire::new(client.stream());
    for id in 0.. {
        wire.put_transfer(id, &message, true);
        count_bytes(case, 1, bytes);
    }
}

/// Receives and completes for ever.
fn receive(address: SocketAddr, queue: &str, case: &Case, bytes: &AtomicU64) {
    let mut client = Client::connect(address).unwrap();
    client.attach_receiver(0, queue, 0).unwrap().unwrap();
    let mut wire = Wire::new(client.stream());
    let (mut granted, mut received, mut current) = (0, 0, 0);
    loop {
        if granted - received <= WINDOW / 2 {
            wire.put(&codec::frame(0, &client::flow(0, received, WINDOW, false, false), &[]));
            granted = received + WINDOW;
        }
        wire.flush();
        let mut ids: Option<(u32, u32)> = None;
        wire.read_frames(|code, frame| {
            if code == TRANSFER {
                current = delivery_id(frame).unwrap_or(current);
                if !is_more(frame) {
                    received += 1;
                    ids = Some((ids.map_or(current, |(first, _)| first), current));
                }
            }
        });
        if let Some((first, last)) = ids {
            wire.complete(first, last);
            count_bytes(case, last - first + 1, bytes);
        }
    }
}

/// Attaches and detaches links for ever, and writes the next ones before these are answered.
fn attach(address: SocketAddr, queue: &str, case: &Case, bytes: &AtomicU64) {
    let attaches = (0..LINKS).map(|handle| {
        let target = client::terminus(code::TARGET, queue);
        client::attach(handle, &format!("link-{handle}"), false, Value::Null, target)
    });
    let detaches =
        (0..LINKS).map(|handle| Value::composite(code::DETACH, vec![Value::Uint(handle), Value::Bool(true)]));
    let cycle: Vec<u8> = attaches.chain(detaches).flat_map(|frame| codec::frame(0, &frame, &[])).collect();
    let mut client = Client::connect(address).unwrap();
    let mut wire = Wire::new(client.stream());
    wire.put(&cycle);
    let mut detached = 0;
    loop {
        wire.put(&cycle);
        wire.flush();
        while detached < LINKS {
            wire.read_frames(|code, _| detached += u32::from(code == DETACH));
        }
        detached -= LINKS;
        count_bytes(case, LINKS, bytes);
    }
}

fn count_bytes(case: &Case, messages: u32, bytes: &AtomicU64) {
    bytes.fetch_add(u64::from(messages) * case.body_bytes as u64, Ordering::Relaxed);
}
