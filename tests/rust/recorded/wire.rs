//! One connection of a replayed client: AMQP frames, over a WebSocket too, and HTTP.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Instant;

use super::answers::{self, Answers};
use crate::client::{AMQP_HEADER, Frame, PATIENCE, SASL_HEADER};

/// First byte of a WebSocket frame with a complete binary message.
const BINARY: u8 = 0x82;
const BINARY_OPCODE: u8 = 2;
const CLOSE_OPCODE: u8 = 8;

/// The protocol of a connection.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Amqp,
    Http,
    WebSocket,
}

#[derive(Debug)]
pub(super) struct Wire {
    stream: TcpStream,
    kind: Kind,
    /// Received bytes that are not a complete frame or response yet.
    bytes: Vec<u8>,
    /// Received bytes of AMQP from WebSocket frames.
    inner: Vec<u8>,
    answers: Answers,
    /// Received answers that were not waited for yet, in order, by the stream in which their order matters.
    waiting: HashMap<String, VecDeque<String>>,
    is_over: bool,
}

impl Wire {
    pub(super) fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self {
            stream,
            kind: Kind::Amqp,
            bytes: Vec::new(),
            inner: Vec::new(),
            answers: Answers::default(),
            waiting: HashMap::new(),
            is_over: false,
        })
    }

    /// Writes a frame. A write error is ignored: a lost peer is detected by missing answers.
    pub(super) fn send(&mut self, frame: &[u8]) {
        if !frame.starts_with(b"AMQP")
            && let Some(frame) = Frame::decode(frame)
        {
            self.answers.said(&frame);
        }
        let sent = match self.kind {
            Kind::WebSocket => self.stream.write_all(&masked(frame)),
            _ => self.stream.write_all(frame),
        };
        drop(sent);
    }

    /// Sends a request.
    pub(super) fn request(&mut self, head: &str, body: &str) {
        self.kind = Kind::Http;
        let (first, headers) = head.split_once('\n').unwrap_or((head, ""));
        let mut text = format!("{first} HTTP/1.1\r\n");
        for header in headers.lines() {
            text += &format!("{header}\r\n");
        }
        if !body.is_empty() || first.starts_with('P') {
            text += &format!("Content-Length: {}\r\n", body.len());
        }
        drop(self.stream.write_all((text + "\r\n" + body).as_bytes()));
    }

    /// Closes the client's side.
    pub(super) fn hang_up(&mut self) {
        drop(self.stream.shutdown(Shutdown::Write));
    }

    /// The next answer of a stream, once it has arrived. Heartbeats do not extend the wait beyond [`PATIENCE`].
    pub(super) fn next(&mut self, stream: &str) -> io::Result<String> {
        let start = Instant::now();
        loop {
            if let Some(found) = self.waiting.get_mut(stream).and_then(VecDeque::pop_front) {
                return Ok(found);
            }
            if self.is_over || start.elapsed() > PATIENCE {
                let why = if self.is_over { io::ErrorKind::UnexpectedEof } else { io::ErrorKind::TimedOut };
                return Err(why.into());
            }
            self.read()?;
        }
    }

    /// Received answers that were not waited for, without heartbeats.
    pub(super) fn left(&mut self) -> Vec<String> {
        self.waiting.remove("empty");
        self.waiting.drain().flat_map(|(_, answers)| answers).collect()
    }

    fn read(&mut self) -> io::Result<()> {
        let mut buffer = [0; 1 << 16];
        let count = match self.stream.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => 0,
            outcome => outcome?,
        };
        if count == 0 {
            self.is_over = true;
            self.came("eof".to_owned());
        }
        self.bytes.extend_from_slice(&buffer[..count]);
        while self.advance() {}
        Ok(())
    }

    fn came(&mut self, answer: String) {
        self.waiting.entry(answers::stream(&answer)).or_default().push_back(answer);
    }

    /// Processes one frame or response from the received bytes; returns whether there was one.
    fn advance(&mut self) -> bool {
        match self.kind {
            Kind::Amqp => {
                let Some(frame) = take_frame(&mut self.bytes) else { return false };
                self.frame(&frame);
            }
            Kind::Http => {
                let Some((answer, is_upgrade)) = take_response(&mut self.bytes) else { return false };
                self.came(answer);
                if is_upgrade {
                    self.kind = Kind::WebSocket;
                }
            }
            Kind::WebSocket => {
                let Some((opcode, payload)) = take_message(&mut self.bytes) else { return false };
                match opcode {
                    CLOSE_OPCODE => self.came("web-socket close".to_owned()),
                    0..=BINARY_OPCODE => self.inner.extend(payload),
                    _ => {}
                }
                while let Some(frame) = take_frame(&mut self.inner) {
                    self.frame(&frame);
                }
            }
        }
        true
    }

    fn frame(&mut self, bytes: &[u8]) {
        let lines = match bytes {
            bytes if bytes == SASL_HEADER => vec!["header sasl".to_owned()],
            bytes if bytes == AMQP_HEADER => vec!["header amqp".to_owned()],
            bytes => match Frame::decode(bytes) {
                Some(frame) => self.answers.heard(&frame),
                None => vec![format!("no frame: {bytes:x?}")],
            },
        };
        lines.into_iter().for_each(|line| self.came(line));
    }
}

/// A frame or a protocol header, once it is complete.
fn take_frame(bytes: &mut Vec<u8>) -> Option<Vec<u8>> {
    let size = match bytes.first_chunk::<4>()? {
        b"AMQP" => 8,
        size => (u32::from_be_bytes(*size) as usize).max(8),
    };
    (bytes.len() >= size).then(|| bytes.drain(..size).collect())
}

/// A response, once it is complete, as one line for its status and type and one for each element of its body; also
/// whether it upgrades the connection to a WebSocket.
fn take_response(bytes: &mut Vec<u8>) -> Option<(String, bool)> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap_or_default();
    let header = |wanted: &str| {
        let mut headers = head.lines().filter_map(|line| line.split_once(": "));
        headers.find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value)
    };
    assert_eq!(header("transfer-encoding"), None, "a body of unknown length");
    let length: usize = header("content-length").map_or(0, |length| length.parse().unwrap());
    if bytes.len() < end + length {
        return None;
    }
    let answer = ["response", status, header("content-type").unwrap_or_default()].join(" ");
    let body = String::from_utf8_lossy(&bytes[end..end + length]).replace("><", ">\n<");
    let is_upgrade = status == "101";
    let answer = answer.trim_end().to_owned() + if body.is_empty() { "" } else { "\n" } + &body;
    bytes.drain(..end + length);
    Some((answer, is_upgrade))
}

/// A WebSocket frame: opcode and payload.
fn take_message(bytes: &mut Vec<u8>) -> Option<(u8, Vec<u8>)> {
    let [first, second] = *bytes.first_chunk::<2>()?;
    let (start, length) = match second {
        126 => (4, usize::from(u16::from_be_bytes(bytes.get(2..4)?.try_into().unwrap()))),
        127 => (10, u64::from_be_bytes(bytes.get(2..10)?.try_into().unwrap()) as usize),
        short => (2, usize::from(short)),
    };
    if bytes.len() < start + length {
        return None;
    }
    let payload = bytes[start..start + length].to_vec();
    bytes.drain(..start + length);
    Some((first & 0x0f, payload))
}

/// A frame in a client's WebSocket message, masked with zeros, which leave it unchanged.
fn masked(frame: &[u8]) -> Vec<u8> {
    let mut out = vec![BINARY, 0x80 | 127];
    out.extend((frame.len() as u64).to_be_bytes());
    out.extend([0; 4]);
    out.extend(frame);
    out
}
