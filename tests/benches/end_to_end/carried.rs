//! AMQP over TLS and WebSockets. A bridge in this process converts the protocol, so that the generator is the same for
//! all of them, and only the daemon's processor time differs.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use peeklock_net::tls_client::AnyCertificate;
use peeklock_tests::daemon::Daemon;
use tokio::io::{self, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::figures::Figure;
use crate::load::{Load, receive_at, send_at};
use crate::work::{Spent, spend, warm};

/// The protocol that carries AMQP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carrier {
    Plain,
    Tls,
    WebSocket,
}

/// Bytes that a bridge forwards at a time.
const CHUNK_BYTES: usize = 64 * 1024;

/// Sends and receives over the carrier, and over plain TCP through the same kind of bridge.
pub(crate) fn measure(binary: &Path, load: &Load, carrier: Carrier) -> Vec<Figure> {
    let daemon = Daemon::of_binary(binary, &load.config());
    warm(&daemon, load);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_io().build().unwrap();
    // In this order, drift affects both alike.
    let [first, second, third, fourth] = [Carrier::Plain, carrier, carrier, Carrier::Plain]
        .map(|carrier| through(&runtime, &daemon, load, carrier));
    let mean = |one: f64, other: f64| f64::midpoint(one, other);
    let sent_cpu = mean(second.0.broker_cpu, third.0.broker_cpu);
    let received_cpu = mean(second.1.broker_cpu, third.1.broker_cpu);
    vec![
        Figure::higher("send_per_s", mean(second.0.per_s, third.0.per_s)),
        Figure::lower("send_cpu_s_per_million", sent_cpu),
        Figure::lower("send_cpu_of_plain", sent_cpu / mean(first.0.broker_cpu, fourth.0.broker_cpu)),
        Figure::higher("receive_per_s", mean(second.1.per_s, third.1.per_s)),
        Figure::lower("receive_cpu_s_per_million", received_cpu),
        Figure::lower("receive_cpu_of_plain", received_cpu / mean(first.1.broker_cpu, fourth.1.broker_cpu)),
    ]
}

fn through(
    runtime: &tokio::runtime::Runtime,
    daemon: &Daemon,
    load: &Load,
    carrier: Carrier,
) -> (Spent, Spent) {
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let bridge = listener.local_addr().unwrap();
    let accepting = runtime.spawn(accept(listener, daemon.amqp(), carrier));
    let (_, sent) = spend(daemon, load.messages, || send_at(bridge, load));
    let ((), received) = spend(daemon, load.received(), || receive_at(bridge, load));
    accepting.abort();
    (sent, received)
}

async fn accept(listener: TcpListener, daemon: SocketAddr, carrier: Carrier) {
    loop {
        let (client, _) = listener.accept().await.unwrap();
        client.set_nodelay(true).unwrap();
        // One side disconnects first, possibly in the middle of a frame.
        tokio::spawn(async move { drop(bridge(client, daemon, carrier).await) });
    }
}

async fn bridge(client: TcpStream, daemon: SocketAddr, carrier: Carrier) -> io::Result<()> {
    let broker = TcpStream::connect(daemon).await?;
    broker.set_nodelay(true)?;
    match carrier {
        Carrier::Plain => both_ways(client, broker).await,
        Carrier::Tls => {
            let name = ServerName::try_from("localhost").unwrap();
            both_ways(client, TlsConnector::from(trusting()).connect(name, broker).await?).await
        }
        Carrier::WebSocket => in_frames(client, broker).await,
    }
}

async fn both_ways(mut client: TcpStream, mut broker: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
    io::copy_bidirectional_with_sizes(&mut client, &mut broker, CHUNK_BYTES, CHUNK_BYTES).await.map(drop)
}

/// Upgrades, then wraps the client's bytes in one frame per read, and unwraps the broker's frames.
async fn in_frames(client: TcpStream, broker: TcpStream) -> io::Result<()> {
    let (mut from_client, mut to_client) = client.into_split();
    let (from_broker, mut to_broker) = broker.into_split();
    let request = "GET /$servicebus/websocket HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n\
        Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
        Sec-WebSocket-Protocol: AMQPWSB10\r\n\r\n";
    to_broker.write_all(request.as_bytes()).await?;
    let mut from_broker = io::BufReader::with_capacity(CHUNK_BYTES, from_broker);
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(from_broker.read_u8().await?);
    }
    assert!(head.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&head));
    let outward = async {
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let read = from_client.read(&mut chunk).await?;
            let payload = chunk.get(..read).unwrap_or_default();
            if payload.is_empty() {
                return io::Result::Ok(());
            }
            to_broker.write_all(&masked(payload)).await?;
        }
    };
    let inward = async {
        loop {
            let [_, short] = [from_broker.read_u8().await?, from_broker.read_u8().await?];
            let payload_bytes = match short {
                126 => u64::from(from_broker.read_u16().await?),
                127 => from_broker.read_u64().await?,
                short => u64::from(short),
            };
            io::copy_buf(&mut (&mut from_broker).take(payload_bytes), &mut to_client).await?;
        }
    };
    // A disconnect on either side ends both directions.
    tokio::select! {
        ended = outward => ended,
        ended = inward => ended,
    }
}

/// A masked binary frame.
fn masked(payload: &[u8]) -> Vec<u8> {
    const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];
    let mut frame = vec![0x82];
    match payload.len() {
        short @ 0..126 => frame.push(0x80 | u8::try_from(short).unwrap()),
        long => match u16::try_from(long) {
            Ok(long) => {
                frame.push(0x80 | 126);
                frame.extend_from_slice(&long.to_be_bytes());
            }
            Err(_) => {
                frame.push(0x80 | 127);
                frame.extend_from_slice(&(long as u64).to_be_bytes());
            }
        },
    }
    frame.extend_from_slice(&MASK);
    frame.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

/// A client configuration that accepts any certificate: the daemon's is self-signed.
fn trusting() -> Arc<ClientConfig> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap().dangerous();
    Arc::new(builder.with_custom_certificate_verifier(Arc::new(AnyCertificate)).with_no_client_auth())
}
