//! The answers of a broker on one connection, with a line for each answer that a client could wait for.
//!
//! Channels and handles are the client's; links are written as CHANNEL/HANDLE. So a line contains nothing that the
//! broker may choose arbitrarily, except values meant for the client.

use std::collections::HashMap;

use super::notation;
use crate::client::Frame;
use crate::codec::{Value, code};

/// The broker's end of a link.
#[derive(Debug)]
struct Link {
    place: String,
    /// Whether the broker sends on it.
    is_sender: bool,
    is_credited: bool,
    /// The first frame of a delivery and the bytes of its message so far.
    partial: Option<(Value, Vec<u8>)>,
}

/// The mapping of channels and links between both sides of one connection.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// The client's channel for each of the broker's.
    channels: HashMap<u16, i64>,
    /// The client's handles, by channel, name and whether the client receives.
    handles: HashMap<(i64, String, bool), i64>,
    /// The broker's links by its channel and handle.
    links: HashMap<(u16, i64), Link>,
}

impl Answers {
    /// Records a frame sent by the client.
    pub(super) fn said(&mut self, frame: &Frame) {
        if frame.is(code::ATTACH) {
            let name = frame.field(0).text().unwrap_or_default().to_owned();
            let is_receiver = *frame.field(2) == Value::Bool(true);
            let handle = frame.field(1).integer().unwrap_or_default();
            self.handles.insert((frame.channel.into(), name, is_receiver), handle);
        }
    }

    /// The lines for a frame from the broker: several if it settles several deliveries, none if it only concerns
    /// windows.
    pub(super) fn heard(&mut self, frame: &Frame) -> Vec<String> {
        let performative = &frame.performative;
        let Some(name) = notation::name(performative) else { return vec!["empty".to_owned()] };
        let channel = self.channels.get(&frame.channel).copied().unwrap_or_else(|| frame.channel.into());
        match performative.code() {
            Some(code::BEGIN) => {
                let channel = frame.field(0).integer().unwrap_or(channel);
                self.channels.insert(frame.channel, channel);
                vec![line(&format!("begin {channel}"), performative, &["remote-channel"])]
            }
            Some(code::END) => vec![line(&format!("end {channel}"), performative, &[])],
            Some(code::ATTACH) => vec![self.attach(frame, channel)],
            Some(code::FLOW) => self.flow(frame).into_iter().collect(),
            Some(code::TRANSFER) => self.transfer(frame).into_iter().collect(),
            Some(code::DISPOSITION) => dispositions(performative, channel),
            Some(code::DETACH) => {
                let place =
                    self.link(frame).map_or_else(|| format!("{channel}/?"), |link| link.place.clone());
                vec![line(&format!("detach {place}"), performative, &["handle"])]
            }
            _ => vec![line(name, performative, &[])],
        }
    }

    fn link(&mut self, frame: &Frame) -> Option<&mut Link> {
        let handle = frame.field(if frame.is(code::FLOW) { 4 } else { 0 }).integer()?;
        self.links.get_mut(&(frame.channel, handle))
    }

    fn attach(&mut self, frame: &Frame, channel: i64) -> String {
        let name = frame.field(0).text().unwrap_or_default().to_owned();
        let is_sender = *frame.field(2) == Value::Bool(false);
        let handle = self.handles.get(&(channel, name, is_sender)).map_or("?".to_owned(), i64::to_string);
        let place = format!("{channel}/{handle}");
        let text = line(&format!("attach {place}"), &frame.performative, &["handle"]);
        let link = Link { place, is_sender, is_credited: false, partial: None };
        self.links.insert((frame.channel, frame.field(1).integer().unwrap_or(-1)), link);
        text
    }

    /// To a sender, only the first credit, since the time of further credit is not determined. To a receiver, every
    /// flow, since it answers a drain.
    fn flow(&mut self, frame: &Frame) -> Option<String> {
        let link = self.link(frame)?;
        if link.is_credited && !link.is_sender {
            return None;
        }
        link.is_credited = true;
        let session =
            ["next-incoming-id", "incoming-window", "next-outgoing-id", "outgoing-window", "handle"];
        Some(line(&format!("flow {}", link.place), &frame.performative, &session))
    }

    /// A delivery, once its last frame has arrived.
    fn transfer(&mut self, frame: &Frame) -> Option<String> {
        let Some(link) = self.link(frame) else { return Some("transfer on no link".to_owned()) };
        let partial = link.partial.get_or_insert_with(|| (frame.performative.clone(), Vec::new()));
        partial.1.extend(&frame.payload);
        if *frame.field(5) == Value::Bool(true) {
            return None;
        }
        let (first, payload) = link.partial.take()?;
        let less = ["handle", "more", "resume", "aborted", "batchable"];
        let message = notation::message(&payload).unwrap_or_else(|| "no message".to_owned());
        Some(format!("{} | {message}", line(&format!("transfer {}", link.place), &first, &less)))
    }
}

/// The answers among which the order of this answer matters: those on the same link, on the same channel, about the
/// same delivery.
pub(super) fn stream(line: &str) -> String {
    let mut words = line.split([' ', '\n']);
    let kind = words.next().unwrap_or_default();
    match kind {
        "attach" | "flow" | "transfer" | "detach" => format!("link {}", words.next().unwrap_or_default()),
        "begin" | "end" => format!("channel {}", words.next().unwrap_or_default()),
        "disposition" => line.split(' ').take(4).collect::<Vec<&str>>().join(" "),
        "empty" => kind.to_owned(),
        _ => "connection".to_owned(),
    }
}

fn line(head: &str, performative: &Value, less: &[&str]) -> String {
    let fields = notation::fields(performative, less);
    std::iter::once(head.to_owned()).chain(fields).collect::<Vec<String>>().join(" ")
}

/// One line per delivery, since the number of deliveries settled by one frame depends on timing.
fn dispositions(performative: &Value, channel: i64) -> Vec<String> {
    let direction = if *performative.field(0) == Value::Bool(true) { "sent" } else { "received" };
    let first = performative.field(1).integer().unwrap_or_default();
    let last = performative.field(2).integer().unwrap_or(first);
    let less = ["role", "first", "last", "batchable"];
    (first..=last)
        .map(|id| line(&format!("disposition {channel} {direction} {id}"), performative, &less))
        .collect()
}
