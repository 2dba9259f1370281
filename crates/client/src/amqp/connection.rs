//! Drives the endpoint over a socket.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Buf, BytesMut};
use peeklock_amqp::endpoint::{Config, Connection, Event, NowMs};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use super::cbs::Grants;
use super::links::Links;
use super::requests::RequestLinks;
use crate::error::answer;
use crate::{Answer, ClientError, ConnectionString, Trust};

/// Time-out of connecting, and of each answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
const CONNECT_TIME_OUT: Duration = Duration::from_secs(15);
const CLOSE_TIME_OUT: Duration = Duration::from_secs(5);
/// Upper bound of Service Bus's largest message, 100 MB.
const MESSAGE_BYTES_MAX: usize = 128 << 20;
/// Bytes taken out of the endpoint at a time.
const OUTPUT_BYTES: usize = 256 * 1024;
const INPUT_BYTES: usize = 64 * 1024;

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// One connection. Every call drives it until its answer has arrived; no input or output happens between calls, so the
/// broker may close it after a pause of more than a minute.
pub struct Client {
    pub(super) endpoint: Connection,
    reader: ReadHalf<Box<dyn Stream>>,
    writer: WriteHalf<Box<dyn Stream>>,
    input: BytesMut,
    output: BytesMut,
    started: Instant,
    end: Option<Answer>,
    is_open: bool,
    /// The AMQP session of all links to entities.
    pub(super) session: u16,
    pub(super) links: Links,
    pub(super) grants: Grants,
    pub(super) cbs: Option<RequestLinks>,
    pub(super) nodes: HashMap<String, RequestLinks>,
    pub(super) target: ConnectionString,
}

impl Client {
    /// Connects and opens the connection, without authorization yet.
    ///
    /// # Errors
    /// No connection, no TLS, or a peer with another protocol.
    pub async fn connect(target: &ConnectionString, trust: &Trust) -> Result<Self, ClientError> {
        let stream = open_socket(target, trust).await?;
        let (reader, writer) = split(stream);
        let config = Config {
            container_id: format!("peeklock-{}", uuid::Uuid::new_v4()),
            sasl_mechanisms: vec!["ANONYMOUS".to_owned()],
            reassembly_bytes_max: MESSAGE_BYTES_MAX,
            ..Config::default()
        };
        let mut endpoint = Connection::client(config, &target.host, 0);
        let session = endpoint.begin().ok_or_else(|| ClientError::Unreadable("no session".to_owned()))?;
        let mut client = Self {
            endpoint,
            reader,
            writer,
            input: BytesMut::new(),
            output: BytesMut::new(),
            started: Instant::now(),
            end: None,
            is_open: false,
            session,
            links: Links::default(),
            grants: Grants::default(),
            cbs: None,
            nodes: HashMap::new(),
            target: target.clone(),
        };
        client.until("opening the connection", PATIENCE, |client| client.is_open.then_some(())).await?;
        Ok(client)
    }

    /// The address and credentials of this client.
    #[must_use]
    pub fn target(&self) -> &ConnectionString {
        &self.target
    }

    /// Closes the connection; the broker releases locked messages.
    pub async fn close(mut self) {
        self.endpoint.close(None);
        let closed = self.until("closing", CLOSE_TIME_OUT, |client| client.end.is_some().then_some(()));
        // The connection has ended in any case.
        let _ = closed.await;
    }

    /// Drives the connection until `ready` returns a value.
    pub(super) async fn until<T>(
        &mut self,
        what: &'static str,
        time_out: Duration,
        mut ready: impl FnMut(&mut Self) -> Option<T>,
    ) -> Result<T, ClientError> {
        let deadline = Instant::now() + time_out;
        loop {
            if let Some(found) = ready(self) {
                return Ok(found);
            }
            if let Some(end) = &self.end {
                return Err(ClientError::Lost(end.clone()));
            }
            if Instant::now() >= deadline {
                return Err(ClientError::TimeOut(what));
            }
            self.turn(deadline).await?;
        }
    }

    fn now(&self) -> NowMs {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Reads or writes once, or waits until something is due.
    async fn turn(&mut self, deadline: Instant) -> Result<(), ClientError> {
        self.fill_output();
        let due = self.endpoint.poll_deadline().map(|at| self.started + Duration::from_millis(at));
        let wake = due.map_or(deadline, |due| due.min(deadline));
        let lost = |error: std::io::Error| {
            ClientError::Lost(Answer {
                condition: "amqp:connection:forced".to_owned(),
                description: error.to_string(),
            })
        };
        self.input.reserve(INPUT_BYTES);
        tokio::select! {
            read = self.reader.read_buf(&mut self.input) => match read {
                Ok(0) => self.endpoint.handle_end_of_input(),
                Ok(_) => {}
                Err(error) => return Err(lost(error)),
            },
            written = self.writer.write_buf(&mut self.output), if self.output.has_remaining() => {
                written.map_err(lost)?;
                if !self.output.has_remaining() {
                    self.writer.flush().await.map_err(lost)?;
                }
            }
            () = tokio::time::sleep_until(wake.into()) => {
                let now = self.now();
                self.endpoint.handle_timeout(now);
            }
        }
        self.take_input();
        Ok(())
    }

    fn fill_output(&mut self) {
        if self.output.len() >= OUTPUT_BYTES {
            return;
        }
        let now = self.now();
        let mut slices = Vec::new();
        self.endpoint.poll_transmit(&mut slices, OUTPUT_BYTES, now);
        slices.iter().for_each(|slice| self.output.extend_from_slice(slice));
    }

    fn take_input(&mut self) {
        loop {
            let now = self.now();
            self.endpoint.handle_input(&mut self.input, now);
            while let Some(event) = self.endpoint.poll_event() {
                self.on_event(event);
            }
            self.fill_output();
            if !self.endpoint.has_input_work(&self.input) {
                break;
            }
        }
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Opened(_) => self.is_open = true,
            Event::Closed { error, .. } => self.end = Some(answer(error)),
            // The peer attaches no links to a client and does not authenticate to it.
            Event::Authenticate { .. } | Event::SessionEnded { .. } => {}
            other => self.links.on_event(other, &mut self.endpoint),
        }
    }
}

async fn open_socket(target: &ConnectionString, trust: &Trust) -> Result<Box<dyn Stream>, ClientError> {
    let (host, port) = (target.host.as_str(), target.amqp_port());
    let address = format!("{}:{port}", target.url_host());
    let connect = |source| ClientError::Connect { address: address.clone(), source };
    let late = |_| std::io::Error::new(std::io::ErrorKind::TimedOut, "no answer");
    let socket = timeout(CONNECT_TIME_OUT, TcpStream::connect((host, port))).await;
    let socket = socket.map_err(late).and_then(|socket| socket).map_err(connect)?;
    socket.set_nodelay(true).map_err(connect)?;
    if target.is_emulator {
        return Ok(Box::new(socket));
    }
    let name = ServerName::try_from(host.to_owned()).map_err(|error| ClientError::Tls(error.to_string()))?;
    let connector = TlsConnector::from(Arc::new(trust.config()?));
    let stream = timeout(CONNECT_TIME_OUT, connector.connect(name, socket)).await;
    let stream = stream.map_err(late).and_then(|stream| stream);
    Ok(Box::new(stream.map_err(|error| ClientError::Tls(format!("{address}: {error}")))?))
}
