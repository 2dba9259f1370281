//! The load generator: frames are templates, so that most of the machine's time is left to the daemon.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use peeklock_tests::client::{self, Client};
use peeklock_tests::codec;
use peeklock_tests::daemon::Daemon;
use peeklock_tests::wire::{DISPOSITION, TRANSFER, Wire, delivery_id, is_more, range};

use crate::figures::Latencies;

/// The messages sent and received.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) body_bytes: usize,
    /// Connections that send; the same number receive from queues, and one from each subscription.
    pub(crate) connections: u32,
    pub(crate) through: Through,
    /// Number of messages over all connections.
    pub(crate) messages: u32,
    /// Messages under way per connection.
    pub(crate) window: u32,
}

/// The entities that messages pass through.
#[derive(Clone, Copy)]
pub(crate) enum Through {
    /// This many queues, in rotation.
    Queues(u32),
    /// A topic with this many subscriptions that each get every message.
    Copies(u32),
    /// A topic with this many subscriptions, where each message is for one of them.
    Subjects(u32),
    /// This many sessions of one queue, in rotation.
    Sessions(u32),
}

impl Load {
    /// Destination and number of messages for each sending connection.
    fn senders(&self) -> Vec<(String, u32)> {
        let (messages, connections) = (self.messages, self.connections);
        let share = |connection| messages / connections + u32::from(connection < messages % connections);
        let address = |connection| match self.through {
            Through::Queues(queues) => format!("q{}", connection % queues),
            Through::Copies(_) | Through::Subjects(_) => "topic".to_owned(),
            Through::Sessions(_) => "q0".to_owned(),
        };
        (0..connections).map(|connection| (address(connection), share(connection))).collect()
    }

    /// Source and number of messages for each receiving connection. Where many subscriptions or sessions get few
    /// messages each, these are not received.
    fn receivers(&self) -> Vec<(String, u32)> {
        match self.through {
            Through::Queues(_) => self.senders(),
            Through::Copies(subscriptions) => {
                let address = |number| format!("topic/Subscriptions/s{number}");
                (0..subscriptions).map(|number| (address(number), self.messages)).collect()
            }
            Through::Subjects(_) | Through::Sessions(_) => Vec::new(),
        }
    }

    /// Number of messages received.
    pub(crate) fn received(&self) -> u32 {
        self.receivers().iter().map(|(_, count)| count).sum()
    }

    /// Messages to send, in rotation.
    fn templates(&self) -> Vec<Vec<u8>> {
        let data = codec::data_message(&vec![b'x'; self.body_bytes]);
        match self.through {
            Through::Queues(_) | Through::Copies(_) => vec![data],
            Through::Subjects(subscriptions) => {
                (0..subscriptions).map(|number| [with_property(3, number), data.clone()].concat()).collect()
            }
            Through::Sessions(sessions) => {
                (0..sessions).map(|number| [with_property(10, number), data.clone()].concat()).collect()
            }
        }
    }

    /// The daemon's configuration.
    pub(crate) fn config(&self) -> String {
        let (subscriptions, rule): (u32, fn(u32) -> String) = match self.through {
            Through::Queues(queues) => {
                return (0..queues).map(|queue| format!("[[queues]]\nname = \"q{queue}\"\n")).collect();
            }
            Through::Sessions(_) => return "[[queues]]\nname = \"q0\"\nrequires_session = true\n".to_owned(),
            Through::Copies(subscriptions) => (subscriptions, |_| "filter = \"true\"".to_owned()),
            Through::Subjects(subscriptions) => {
                (subscriptions, |number| format!("correlation = {{ subject = \"{number}\" }}"))
            }
        };
        let mut config = "[[topics]]\nname = \"topic\"\n".to_owned();
        for number in 0..subscriptions {
            config += &format!("[[topics.subscriptions]]\nname = \"s{number}\"\n");
            config += &format!("[[topics.subscriptions.rules]]\nname = \"r\"\n{}\n", rule(number));
        }
        config
    }
}

/// A properties section with a number as one of its texts: 3 is the subject, 10 the session (part 3, §3.2.4).
fn with_property(place: usize, number: u32) -> Vec<u8> {
    let mut fields = vec![codec::Value::Null; place];
    fields.push(codec::Value::string(number.to_string()));
    codec::section(codec::code::PROPERTIES, codec::Value::List(fields))
}

/// Sends until every message is accepted; returns the times from writing each message to its durable acceptance.
pub(crate) fn send(daemon: &Daemon, load: &Load) -> Latencies {
    send_at(daemon.amqp(), load)
}

/// Like [`send`], to this address.
pub(crate) fn send_at(address: SocketAddr, load: &Load) -> Latencies {
    send_shares(address, load, &load.senders())
}

/// Sends everything to one queue.
pub(crate) fn send_to(daemon: &Daemon, load: &Load, queue: &str) {
    let senders = load.senders().into_iter().map(|(_, count)| (queue.to_owned(), count));
    send_shares(daemon.amqp(), load, &senders.collect::<Vec<_>>());
}

fn send_shares(daemon: SocketAddr, load: &Load, shares: &[(String, u32)]) -> Latencies {
    let templates = load.templates();
    let begun = AtomicUsize::new(0);
    let latencies = each(daemon, load, shares, |mut client, address, count, load| {
        client.attach_sender(0, address).unwrap().unwrap();
        // Each connection continues with the template after the last one used by others.
        let first = begun.fetch_add(count as usize, Ordering::Relaxed) % templates.len();
        let mut messages = templates.iter().cycle().skip(first);
        let mut wire = Wire::new(client.stream());
        let (mut sent, mut answered) = (0, 0);
        let mut under_way = UnderWay::default();
        while answered < count {
            let first = sent;
            while sent < count && sent - answered < load.window {
                wire.put_transfer(sent, messages.next().unwrap(), false);
                sent += 1;
            }
            under_way.written(sent - first);
            wire.flush();
            wire.read_frames(|code, frame| {
                if code == DISPOSITION {
                    let (first, last) = range(frame);
                    under_way.answered(last - first + 1);
                    answered += last - first + 1;
                }
            });
        }
        under_way.latencies
    });
    latencies.into_iter().collect()
}

/// Messages that wait for acceptance, in order: the number and time of each write.
#[derive(Default)]
struct UnderWay {
    writes: VecDeque<(u32, Instant)>,
    latencies: Latencies,
}

impl UnderWay {
    fn written(&mut self, messages: u32) {
        if messages > 0 {
            self.writes.push_back((messages, Instant::now()));
        }
    }

    fn answered(&mut self, mut messages: u32) {
        while messages > 0 {
            let (written, since) = self.writes.front_mut().expect("answers belong to written messages");
            let taken = messages.min(*written);
            self.latencies.add(since.elapsed(), taken);
            *written -= taken;
            messages -= taken;
            if *written == 0 {
                self.writes.pop_front();
            }
        }
    }
}

/// Sends and receives at the same time, until every message is completed.
pub(crate) fn together(daemon: &Daemon, load: &Load) -> Latencies {
    thread::scope(|scope| {
        let sending = scope.spawn(|| send(daemon, load));
        receive(daemon, load);
        sending.join().unwrap()
    })
}

/// Receives and completes until every completion is confirmed.
pub(crate) fn receive(daemon: &Daemon, load: &Load) {
    receive_at(daemon.amqp(), load);
}

/// Like [`receive`], from this address.
pub(crate) fn receive_at(address: SocketAddr, load: &Load) {
    each(address, load, &load.receivers(), |mut client, address, count, load| {
        client.attach_receiver(0, address, 0).unwrap().unwrap();
        let mut wire = Wire::new(client.stream());
        let (mut granted, mut received, mut confirmed, mut current) = (0, 0, 0, 0);
        while confirmed < count {
            if granted - received <= load.window / 2 && granted < count {
                let credit = load.window.min(count - received);
                wire.put(&codec::frame(0, &client::flow(0, received, credit, false, false), &[]));
                granted = received + credit;
            }
            wire.flush();
            let mut ids: Option<(u32, u32)> = None;
            wire.read_frames(|code, frame| match code {
                TRANSFER => {
                    // Continuation frames may omit the delivery-id.
                    current = delivery_id(frame).unwrap_or(current);
                    if !is_more(frame) {
                        received += 1;
                        ids = Some((ids.map_or(current, |(first, _)| first), current));
                    }
                }
                DISPOSITION => {
                    let (first, last) = range(frame);
                    confirmed += last - first + 1;
                }
                _ => {}
            });
            if let Some((first, last)) = ids {
                wire.complete(first, last);
            }
        }
    });
}

/// Runs the work on one thread per connection.
fn each<T: Send>(
    daemon: SocketAddr,
    load: &Load,
    shares: &[(String, u32)],
    work: impl Fn(Client, &str, u32, &Load) -> T + Sync,
) -> Vec<T> {
    let work = &work;
    thread::scope(|scope| {
        let spawn = |(address, count): &(String, u32)| {
            let (address, count) = (address.clone(), *count);
            scope.spawn(move || work(Client::connect(daemon).unwrap(), &address, count, load))
        };
        let threads: Vec<_> = shares.iter().map(spawn).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}
