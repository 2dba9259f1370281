//! The .NET client's side of recorded conversations (tests/fixtures/dotnet-transactions), said to a daemon: every answer that
//! the client waited for comes, and the entities end up with the right messages.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::SocketAddr;

use peeklock_tests::client::{Client, Frame, body};
use peeklock_tests::codec::{Value, code, sections};
use peeklock_tests::daemon::Daemon;

use super::stage::bodies;

const CONFIG: &str = r#"
[[queues]]
name = "queue"
[[queues]]
name = "queue2"
[[queues]]
name = "sessions"
requires_session = true
"#;

/// One connection of the client.
struct Wire {
    client: Client,
    /// What came and was not waited for yet.
    seen: Vec<String>,
    /// The client's channel of each of the broker's.
    channels: HashMap<u16, i64>,
    /// Names of links by the broker's channel and handle.
    links: HashMap<(u16, i64), String>,
    credited: HashSet<String>,
}

impl Wire {
    fn connect(address: SocketAddr) -> Self {
        let (seen, channels, links, credited) = Default::default();
        Self { client: Client::plug(address).unwrap(), seen, channels, links, credited }
    }

    fn link(&self, frame: &Frame) -> String {
        let handle = frame.field(0).integer().unwrap_or(-1);
        self.links.get(&(frame.channel, handle)).cloned().unwrap_or_default()
    }

    /// What a frame says, a line for each fact.
    fn tell(&mut self, frame: &Frame, transactions: &mut Vec<Vec<u8>>) -> Vec<String> {
        let channel = self.channels.get(&frame.channel).copied().unwrap_or_else(|| frame.channel.into());
        let line = match frame.performative.code() {
            Some(code::SASL_OUTCOME) => format!("sasl-outcome {}", frame.field(0).integer().unwrap()),
            Some(code::OPEN) => "open".to_owned(),
            Some(code::BEGIN) => {
                let channel = frame.field(0).integer().unwrap();
                self.channels.insert(frame.channel, channel);
                format!("begin {channel}")
            }
            Some(code::ATTACH) => {
                let name = frame.field(0).text().unwrap().to_owned();
                self.links.insert((frame.channel, frame.field(1).integer().unwrap()), name.clone());
                let is_refused = [5, 6].map(|field| *frame.field(field) == Value::Null);
                format!("{} {channel} {name}", if is_refused.contains(&true) { "refused" } else { "attach" })
            }
            Some(code::FLOW) => return self.credit(frame, channel),
            Some(code::TRANSFER) => {
                let settled = if *frame.field(4) == Value::Bool(true) { "settled" } else { "unsettled" };
                let id = frame.field(1).integer().unwrap();
                format!("transfer {channel} {id} {settled} {}", content(&frame.payload))
            }
            Some(code::DISPOSITION) => return outcomes(frame, channel, transactions),
            Some(code::DETACH) => {
                let error =
                    frame.field(2).field(0).text().map(|error| format!(" {error}")).unwrap_or_default();
                format!("detach {channel} {}{error}", self.link(frame))
            }
            Some(code::END) => format!("end {channel}"),
            Some(code::CLOSE) => "close".to_owned(),
            _ => return Vec::new(),
        };
        vec![line]
    }

    /// The first credit on a link.
    fn credit(&mut self, frame: &Frame, channel: i64) -> Vec<String> {
        let Some(handle) = frame.field(4).integer() else { return Vec::new() };
        let name = self.links.get(&(frame.channel, handle)).cloned().unwrap_or_default();
        let is_first =
            frame.field(6).integer() > Some(0) && self.credited.insert(format!("{channel} {name}"));
        is_first.then(|| format!("credit {channel} {name}")).into_iter().collect()
    }
}

/// A message by its body, an answer by its status.
fn content(message: &[u8]) -> String {
    let sections = sections(message);
    let application = sections
        .iter()
        .find(|section| section.code() == Some(code::APPLICATION_PROPERTIES))
        .map(Value::inner);
    let status = |key| application.and_then(|map| map.get(key)).and_then(Value::integer);
    match (status("statusCode"), status("status-code")) {
        (Some(status), _) => format!("status {status}"),
        // To the client all of these are success: $cbs says 200 or 202.
        (_, Some(status)) => format!("status {}xx", status / 100),
        _ => format!("body {}", String::from_utf8(body(message)).unwrap()),
    }
}

/// The outcomes of a disposition, one for each delivery.
fn outcomes(frame: &Frame, channel: i64, transactions: &mut Vec<Vec<u8>>) -> Vec<String> {
    let direction = if *frame.field(0) == Value::Bool(true) { "sent" } else { "received" };
    let settled = if *frame.field(3) == Value::Bool(true) { "settled" } else { "unsettled" };
    let outcome = outcome(frame.field(4), transactions);
    let first = frame.field(1).integer().unwrap();
    let last = frame.field(2).integer().unwrap_or(first);
    (first..=last).map(|id| format!("{direction} {channel} {id} {settled} {outcome}")).collect()
}

fn outcome(state: &Value, transactions: &mut Vec<Vec<u8>>) -> String {
    match (state.code(), state.field(0)) {
        (Some(code::ACCEPTED), _) => "accepted".to_owned(),
        (Some(code::RELEASED), _) => "released".to_owned(),
        (Some(code::REJECTED), Value::Null) => "rejected".to_owned(),
        (Some(code::REJECTED), error) => format!("rejected {}", error.field(0).text().unwrap_or_default()),
        (Some(code::MODIFIED), _) if *state.field(1) == Value::Bool(true) => {
            "modified undeliverable".to_owned()
        }
        (Some(code::MODIFIED), _) => "modified".to_owned(),
        (Some(code::DECLARED), Value::Binary(id)) => {
            transactions.push(id.clone());
            format!("declared {}", transactions.len())
        }
        (Some(code::TRANSACTIONAL_STATE), Value::Binary(id)) => {
            let number = transactions.iter().position(|known| known == id).map(|place| place + 1);
            let number = number.map_or("an unknown transaction".to_owned(), |number| number.to_string());
            format!("{} in {number}", outcome(state.field(1), transactions))
        }
        _ => format!("{state:?}"),
    }
}

/// The bytes that are recorded as hexadecimal digits, with the ids that the broker gave for those it gave then.
fn frame_of(digits: &str, transactions: &[Vec<u8>]) -> Vec<u8> {
    let byte = |place| u8::from_str_radix(&digits[place..place + 2], 16).unwrap();
    let mut bytes: Vec<u8> = (0..digits.len()).step_by(2).map(byte).collect();
    for (index, id) in transactions.iter().enumerate() {
        let recorded = format!("transaction-{:04}", index + 1);
        assert_eq!(id.len(), recorded.len(), "the recorded frames have room for ids of 16 bytes");
        while let Some(place) = bytes.windows(16).position(|window| window == recorded.as_bytes()) {
            bytes[place..place + 16].copy_from_slice(id);
        }
    }
    bytes
}

fn replay(conversation: &str) {
    let mut daemon = Daemon::with_config(CONFIG);
    let mut wires: BTreeMap<&str, Wire> = BTreeMap::new();
    let mut transactions = Vec::new();
    for (index, line) in conversation.lines().enumerate() {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (number, what) = rest.split_once(' ').unwrap_or((rest, ""));
        match verb {
            "#" => {}
            "connect" => drop(wires.insert(number, Wire::connect(daemon.amqp()))),
            "send" => {
                let wire = wires.get_mut(number).unwrap();
                wire.client.write(&frame_of(what, &transactions)).unwrap();
            }
            "want" => want(wires.get_mut(number).unwrap(), what, &mut transactions, index + 1),
            "holds" => {
                let expected: Vec<&str> = what.split_whitespace().collect();
                assert_eq!(bodies(&daemon, number), expected, "line {}", index + 1);
            }
            _ => panic!("line {}: {line}", index + 1),
        }
    }
    daemon.assert_sound();
}

/// Reads until it was said.
fn want(wire: &mut Wire, what: &str, transactions: &mut Vec<Vec<u8>>, line: usize) {
    if let Some(protocol) = what.strip_prefix("header ") {
        let header = wire.client.read_header().unwrap();
        let expected = match protocol {
            "sasl" => peeklock_tests::client::SASL_HEADER,
            _ => peeklock_tests::client::AMQP_HEADER,
        };
        assert_eq!(&header, expected, "line {line}");
        return;
    }
    loop {
        if let Some(place) = wire.seen.iter().position(|seen| seen == what) {
            wire.seen.remove(place);
            return;
        }
        let frame = match wire.client.read_frame() {
            Ok(frame) => frame,
            Err(error) => panic!("line {line}: {what:?} never came ({error}), but {:#?}", wire.seen),
        };
        let told = wire.tell(&frame, transactions);
        wire.seen.extend(told);
    }
}

#[test]
fn dotnet_commits_sends_and_a_completion() {
    replay(include_str!("../../fixtures/dotnet-transactions/commit.txt"));
}

#[test]
fn dotnet_rolls_back_sends_and_a_completion() {
    replay(include_str!("../../fixtures/dotnet-transactions/rollback.txt"));
}

#[test]
fn dotnet_defers_dead_letters_and_abandons_in_transactions() {
    replay(include_str!("../../fixtures/dotnet-transactions/settle.txt"));
}

#[test]
fn dotnet_commits_and_rolls_back_across_entities() {
    replay(include_str!("../../fixtures/dotnet-transactions/cross-entity.txt"));
}

#[test]
fn dotnet_declares_before_it_sends_a_token() {
    replay(include_str!("../../fixtures/dotnet-transactions/empty.txt"));
}

#[test]
fn dotnet_schedules_and_cancels_in_transactions() {
    replay(include_str!("../../fixtures/dotnet-transactions/schedule.txt"));
}

#[test]
fn dotnet_works_without_a_transaction_where_it_may_cross_entities() {
    replay(include_str!("../../fixtures/dotnet-transactions/cross-entity-client.txt"));
}
