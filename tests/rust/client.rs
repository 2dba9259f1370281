//! A blocking AMQP client that can also violate the protocol.

mod management;
mod performative;
mod received;
mod shared_session;
mod transactions;

use std::collections::{HashMap, VecDeque};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::codec::{self, Value, code};

pub use performative::{
    attach, begin, disposition, flow, open, session_source, terminus, transfer, unlocked,
};
pub use received::{Delivery, Frame, body, sequence_number};
pub use transactions::transactional;

/// How long an answer may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(40);
/// The protocol header of AMQP.
pub const AMQP_HEADER: &[u8; 8] = b"AMQP\x00\x01\x00\x00";
/// The protocol header of SASL.
pub const SASL_HEADER: &[u8; 8] = b"AMQP\x03\x01\x00\x00";
/// The emulator's rule and key, encoded for SASL PLAIN.
pub const IDENTITY: &[u8] = b"\0RootManageSharedAccessKey\0SAS_KEY_VALUE";
/// Room for the header and the performative of a transfer frame.
const TRANSFER_BYTES_MAX: usize = 128;
/// The message format of a Service Bus batch.
pub const BATCH_FORMAT: u32 = 0x8001_3700;

/// A connection with one session on channel 0.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    pending: VecDeque<Frame>,
    /// The peer's handle for each of the client's.
    handles: HashMap<u32, i64>,
    next_delivery: u32,
    received: u32,
    /// Bytes to be written together; see [`Self::hold`].
    held: Option<Vec<u8>>,
    /// The largest frame that the peer accepts.
    frame_bytes_max: usize,
}

impl Client {
    /// Connects with SASL PLAIN, as the emulator's rule, and begins a session.
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        let mut client = Self::plug(address)?;
        client.write(&Self::greeting())?;
        client.read_header()?;
        client.wait(|frame| frame.is(code::SASL_OUTCOME).then_some(()))?;
        client.read_header()?;
        let limit = client.wait(|frame| frame.is(code::OPEN).then(|| frame.field(2).integer()))?;
        client.frame_bytes_max = usize::try_from(limit.expect("an explicit limit")).unwrap();
        client.wait(|frame| frame.is(code::BEGIN).then_some(()))?;
        Ok(client)
    }

    /// A TCP connection on which nothing has been sent.
    pub fn plug(address: SocketAddr) -> io::Result<Self> {
        Self::over(TcpStream::connect(address)?)
    }

    /// Wraps an existing connection.
    pub fn over(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self {
            stream,
            pending: VecDeque::new(),
            handles: HashMap::new(),
            next_delivery: 0,
            received: 0,
            held: None,
            frame_bytes_max: 512,
        })
    }

    /// Everything up to the session, in one write: headers, SASL PLAIN as the emulator's rule, open, begin.
    pub fn greeting() -> Vec<u8> {
        let init =
            Value::composite(code::SASL_INIT, vec![Value::symbol("PLAIN"), Value::Binary(IDENTITY.to_vec())]);
        [
            SASL_HEADER.to_vec(),
            codec::raw_frame(2, 1, 0, &init.encode()),
            AMQP_HEADER.to_vec(),
            codec::frame(0, &open(), &[]),
            codec::frame(0, &begin(), &[]),
        ]
        .concat()
    }

    /// The socket itself.
    pub fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// Keeps what is written until the next answer is read, and writes it together: the broker gets all of it before it has
    /// answered any.
    pub fn hold(&mut self) {
        self.held = Some(Vec::new());
    }

    /// Writes raw bytes.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.held {
            Some(held) => held.extend_from_slice(bytes),
            None => self.stream.write_all(bytes)?,
        }
        Ok(())
    }

    /// Writes a performative on channel 0.
    pub fn say(&mut self, performative: &Value) -> io::Result<()> {
        self.write(&codec::frame(0, performative, &[]))
    }

    /// Reads a protocol header.
    pub fn read_header(&mut self) -> io::Result<[u8; 8]> {
        let mut header = [0; 8];
        self.stream.read_exact(&mut header)?;
        Ok(header)
    }

    /// Reads the next frame from the socket; an error of kind `UnexpectedEof` when the peer has disconnected.
    pub fn read_frame(&mut self) -> io::Result<Frame> {
        if let Some(held) = self.held.take() {
            self.write(&held)?;
        }
        let mut header = [0; 8];
        self.stream.read_exact(&mut header)?;
        let size = u32::from_be_bytes(header[..4].try_into().unwrap()) as usize;
        assert!(size >= 8, "the broker sent a frame of {size} bytes");
        let mut frame = vec![0; size];
        frame[..8].copy_from_slice(&header);
        self.stream.read_exact(&mut frame[8..])?;
        Ok(Frame::decode(&frame).expect("the broker sends frames that can be decoded"))
    }

    /// Passes pending and new frames to `pick` until it returns a value. A close ends the wait.
    pub fn wait<T>(&mut self, mut pick: impl FnMut(&Frame) -> Option<T>) -> io::Result<T> {
        for position in 0..self.pending.len() {
            if let Some(found) = pick(&self.pending[position]) {
                self.pending.remove(position);
                return Ok(found);
            }
        }
        loop {
            let frame = self.read_frame()?;
            if let Some(found) = pick(&frame) {
                return Ok(found);
            }
            if frame.is(code::CLOSE) {
                return Err(io::Error::new(
                    ErrorKind::ConnectionAborted,
                    format!("{:?}", frame.performative),
                ));
            }
            self.pending.push_back(frame);
        }
    }

    /// Reads until the peer disconnects; returns the last close performative received.
    ///
    /// # Panics
    /// When the peer neither sends nor disconnects for [`PATIENCE`].
    pub fn read_to_end(&mut self) -> Option<Value> {
        let mut close = None;
        loop {
            match self.read_frame() {
                Ok(frame) if frame.is(code::CLOSE) => close = Some(frame.performative),
                Ok(_) => {}
                Err(error) => {
                    let waited = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
                    assert!(!waited, "the broker keeps the connection open");
                    return close;
                }
            }
        }
    }

    /// Attaches a sender and waits for the answer; returns the error of the detach when refused.
    pub fn attach_sender(&mut self, handle: u32, address: &str) -> io::Result<Result<(), Value>> {
        self.say(&attach(
            handle,
            &format!("sender-{handle}"),
            false,
            Value::Null,
            terminus(code::TARGET, address),
        ))?;
        self.attached(handle)
    }

    /// Attaches a receiver in peek-lock mode (rcv-settle-mode second) and grants credit.
    pub fn attach_receiver(
        &mut self,
        handle: u32,
        address: &str,
        credit: u32,
    ) -> io::Result<Result<(), Value>> {
        self.attach_source(handle, terminus(code::SOURCE, address), credit)
    }

    /// Like [`Self::attach_receiver`], in receive-and-delete mode.
    pub fn attach_unlocked(&mut self, handle: u32, address: &str, credit: u32) -> io::Result<()> {
        let (name, source) = (format!("receiver-{handle}"), terminus(code::SOURCE, address));
        self.say(&unlocked(attach(handle, &name, true, source, terminus(code::TARGET, &name))))?;
        self.attached(handle)?.expect("the link is taken");
        self.grant(handle, credit)
    }

    /// Like [`Self::attach_receiver`], for the session of this name.
    pub fn attach_session(
        &mut self,
        handle: u32,
        address: &str,
        session: &str,
        credit: u32,
    ) -> io::Result<Result<(), Value>> {
        self.attach_source(handle, session_source(address, session), credit)
    }

    fn attach_source(&mut self, handle: u32, source: Value, credit: u32) -> io::Result<Result<(), Value>> {
        let name = format!("receiver-{handle}");
        self.say(&attach(handle, &name, true, source, terminus(code::TARGET, &name)))?;
        let answer = self.attached(handle)?;
        if answer.is_ok() {
            self.grant(handle, credit)?;
        }
        Ok(answer)
    }

    fn attached(&mut self, handle: u32) -> io::Result<Result<(), Value>> {
        Ok(self.answered(handle)?.map(|_| ()))
    }

    /// The answer to an attach; the error of the detach when refused.
    fn answered(&mut self, handle: u32) -> io::Result<Result<Frame, Value>> {
        let names = [format!("sender-{handle}"), format!("receiver-{handle}")];
        let answer = self.wait(|frame| {
            let ours = frame.is(code::ATTACH) && names.iter().any(|name| frame.field(0).text() == Some(name));
            ours.then(|| frame.clone())
        })?;
        let remote = answer.field(1).integer().unwrap();
        let refused = *answer.field(5) == Value::Null || *answer.field(6) == Value::Null;
        if refused && (*answer.field(5) == Value::Null) == (*answer.field(6) == Value::Null) {
            return self.detached(remote).map(Err);
        }
        self.handles.insert(handle, remote);
        Ok(Ok(answer))
    }

    fn detached(&mut self, remote: i64) -> io::Result<Value> {
        self.wait(|frame| {
            let ours = frame.is(code::DETACH) && frame.field(0).integer() == Some(remote);
            ours.then(|| frame.field(2).clone())
        })
    }

    /// Sets the credit of a receiver.
    pub fn grant(&mut self, handle: u32, credit: u32) -> io::Result<()> {
        self.say(&flow(handle, self.received, credit, false, false))
    }

    /// Writes one delivery in as many frames as necessary, without waiting; returns its delivery id.
    pub fn transfer(&mut self, handle: u32, message: &[u8], format: u32) -> io::Result<u32> {
        let id = self.next_delivery;
        self.next_delivery = id.wrapping_add(1);
        let mut pieces = message.chunks(self.frame_bytes_max - TRANSFER_BYTES_MAX).peekable();
        if pieces.peek().is_none() {
            self.write(&codec::frame(0, &transfer(handle, id, format, false), &[]))?;
        }
        while let Some(piece) = pieces.next() {
            self.write(&codec::frame(0, &transfer(handle, id, format, pieces.peek().is_some()), piece))?;
        }
        Ok(id)
    }

    /// Sends one message and waits for its outcome.
    pub fn send(&mut self, handle: u32, message: &[u8]) -> io::Result<Value> {
        let id = self.transfer(handle, message, 0)?;
        self.outcome(id, true)
    }

    /// Waits for a settled disposition that covers the delivery, as sender or as receiver.
    pub fn outcome(&mut self, id: u32, of_sender: bool) -> io::Result<Value> {
        self.wait(|frame| {
            let (first, last) = settled(frame, of_sender)?;
            (first..=last).contains(&id).then(|| frame.field(4).clone())
        })
    }

    /// Waits for the next settled disposition, as sender or as receiver.
    pub fn any_outcome(&mut self, of_sender: bool) -> io::Result<(u32, u32, Value)> {
        self.wait(|frame| {
            settled(frame, of_sender).map(|(first, last)| (first, last, frame.field(4).clone()))
        })
    }

    /// Waits for the next message on a receiver.
    pub fn receive(&mut self, handle: u32) -> io::Result<Delivery> {
        let remote = self.handles[&handle];
        let mut message = Vec::new();
        let mut id = None;
        loop {
            let frame = self.wait(|frame| {
                let ours = frame.is(code::TRANSFER) && frame.field(0).integer() == Some(remote);
                ours.then(|| frame.clone())
            })?;
            id = id.or(frame.field(1).integer());
            message.extend(frame.payload.iter());
            if *frame.field(5) != Value::Bool(true) {
                self.received = self.received.wrapping_add(1);
                let id = u32::try_from(id.expect("the first transfer has a delivery id")).unwrap();
                return Ok(Delivery { id, message });
            }
        }
    }

    /// Sends an unsettled disposition as receiver, without waiting.
    pub fn dispose(&mut self, first: u32, last: u32, state: Value) -> io::Result<()> {
        self.say(&disposition(true, first, last, false, state))
    }

    /// Accepts a delivery and waits until the broker has settled it.
    pub fn complete(&mut self, delivery: u32) -> io::Result<Value> {
        self.dispose(delivery, delivery, Value::composite(code::ACCEPTED, Vec::new()))?;
        self.outcome(delivery, false)
    }
}

fn settled(frame: &Frame, of_sender: bool) -> Option<(u32, u32)> {
    let ours = frame.is(code::DISPOSITION) && *frame.field(0) == Value::Bool(of_sender);
    if !ours || *frame.field(3) != Value::Bool(true) {
        return None;
    }
    let first = u32::try_from(frame.field(1).integer()?).ok()?;
    let last = frame.field(2).integer().map_or(Some(first), |last| u32::try_from(last).ok())?;
    Some((first, last))
}
