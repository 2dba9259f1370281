//! Replays what a client was recorded to say, against a daemon, and compares each answer with the recorded one.
//!
//! Answers are compared as lines of text (`answers`). Strict: conditions, texts, codes, types of values, settle modes, keys and
//! values of annotations and properties, sequence numbers, the order of what a link, a channel or a connection says; an answer too
//! many is a difference, too. Not compared: ids that the broker makes, moments by more than what a busy machine takes, windows and
//! credit after the first, how messages are cut into frames and settlements put together.

mod answers;
mod changes;
mod expectation;
mod notation;
mod script;
mod wire;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::client::Client;
use crate::client::body;
use crate::daemon::Daemon;
use crate::http;

pub use changes::Changes;
use expectation::Present;
use script::Step;
use wire::Wire;

/// Replays a conversation against a fresh daemon with this configuration.
///
/// # Panics
/// When an answer is not the recorded one with these changes, with all that differ.
pub fn replay(config: &str, name: &str, conversation: &str, changes: &Changes) {
    let daemon = Daemon::with_config(&format!("[development]\ntime_travel = true\n{config}"));
    let (wires, present, differences) = Default::default();
    let mut replay = Replay { daemon, wires, present, differences };
    for (line, step) in script::steps(conversation) {
        let step = match step {
            Step::Want(connection, recorded) => Step::Want(connection, changes.apply(name, line, &recorded)),
            step => step,
        };
        if let Err(difference) = replay.step(step) {
            replay.differences.push(format!("line {line}: {difference}"));
            break;
        }
        // Where an answer differs, the line is that of the step.
        for difference in replay.differences.iter_mut().filter(|difference| difference.starts_with('\n')) {
            *difference = format!("line {line}:{difference}");
        }
    }
    replay.end(name);
}

struct Replay {
    daemon: Daemon,
    wires: BTreeMap<u32, Wire>,
    present: Present,
    differences: Vec<String>,
}

impl Replay {
    /// Takes a step; an error when there is no use in going on.
    fn step(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Connect(number) => {
                // Each address of the daemon answers every protocol.
                let wire = Wire::connect(self.daemon.amqp()).map_err(|error| error.to_string())?;
                self.wires.insert(number, wire);
            }
            Step::Send(number, frame) => {
                let frame = self.present.fill(frame);
                self.wire(number).send(&frame);
            }
            Step::Request(number, head, body) => self.wire(number).request(&head, &body),
            Step::HangUp(number) => self.wire(number).hang_up(),
            Step::Want(_, expected) if expected.is_empty() => {}
            Step::Want(number, expected) => return self.want(number, &expected),
            Step::Travel(seconds) => self.travel(seconds),
            Step::Kill => self.daemon.kill(),
            Step::Start => {
                self.daemon.start();
                self.present.come_back();
            }
            Step::Holds(entity, expected) => {
                let found = bodies(&self.daemon, &entity);
                if found != expected {
                    self.differences.push(format!("\n{entity} holds {found:?}, not {expected:?}"));
                }
            }
        }
        Ok(())
    }

    fn wire(&mut self, number: u32) -> &mut Wire {
        self.wires.get_mut(&number).expect("a connection is opened before it is used")
    }

    fn want(&mut self, number: u32, expected: &str) -> Result<(), String> {
        let came = self.wire(number).next(&answers::stream(expected));
        let came = came.map_err(|error| {
            let left = self.wire(number).left().join("\n    ");
            format!("\n  never came ({error}): want {number} {expected}\n  but: {left}")
        })?;
        if !self.present.is(expected, &came) {
            let (expected, came) = self.present.difference(expected, &came);
            self.differences.push(format!("\n  expected: {expected}\n  came:     {came}"));
        }
        Ok(())
    }

    /// Moves the daemon's time; what is due then has happened.
    fn travel(&mut self, seconds: f64) {
        let body = format!("{{\"advance\":\"PT{seconds:.3}S\"}}");
        let (status, answer) =
            http::ask(self.daemon.http(), "POST", "/development/clock", "", body.as_bytes());
        assert_eq!(status, 200, "{answer}");
        self.present.travel(Duration::from_secs_f64(seconds));
    }

    fn end(mut self, name: &str) {
        for (number, wire) in &mut self.wires {
            let left = wire.left();
            self.differences.extend(left.iter().map(|line| format!("not expected: want {number} {line}")));
        }
        assert!(
            self.differences.is_empty(),
            "{name}: {} answers differ. If one is right as it is now, say so in changes.toml.\n{}",
            self.differences.len(),
            self.differences.join("\n")
        );
        self.daemon.assert_sound();
    }
}

/// The bodies of all that an entity has, in order.
pub fn bodies(daemon: &Daemon, entity: &str) -> Vec<String> {
    let mut client = Client::connect(daemon.amqp()).unwrap();
    client.attach_management(0, entity).unwrap();
    let messages = client.browse(0).unwrap();
    messages.iter().map(|message| String::from_utf8(body(message)).unwrap()).collect()
}
