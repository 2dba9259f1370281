//! A link to a server that a test can cut in one direction or both, without closing anything.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// State of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    Whole,
    /// The clients' bytes do not arrive.
    CutToServer,
    /// The server's bytes do not arrive.
    CutToClient,
    /// No bytes arrive, and both sides assume that they are connected.
    CutBoth,
}

impl Link {
    const fn passes(self, is_to_server: bool) -> bool {
        match self {
            Self::Whole => true,
            Self::CutToServer => !is_to_server,
            Self::CutToClient => is_to_server,
            Self::CutBoth => false,
        }
    }
}

/// A listening port in front of a server. All its connections end when it is dropped.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) port: u16,
    link: Arc<watch::Sender<Link>>,
    _tasks: JoinSet<()>,
}

impl Proxy {
    pub(crate) async fn before(server_port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let link = Arc::new(watch::Sender::new(Link::Whole));
        let (mut tasks, links) = (JoinSet::new(), Arc::clone(&link));
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let address = SocketAddr::from(([127, 0, 0, 1], server_port));
                let Ok(server) = TcpStream::connect(address).await else { continue };
                let ((from_client, to_client), (from_server, to_server)) =
                    (client.into_split(), server.into_split());
                connections.spawn(pass(from_client, to_server, links.subscribe(), true));
                connections.spawn(pass(from_server, to_client, links.subscribe(), false));
            }
        });
        Self { port, link, _tasks: tasks }
    }

    pub(crate) fn set(&self, link: Link) {
        self.link.send_replace(link);
    }

    pub(crate) fn url(&self) -> String {
        format!("postgres://app:secret@127.0.0.1:{}/app", self.port)
    }
}

async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut link: watch::Receiver<Link>,
    is_to_server: bool,
) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(read) = from.read(&mut buffer).await {
        if link.wait_for(|link| link.passes(is_to_server)).await.is_err() {
            return;
        }
        if read == 0 || to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}
