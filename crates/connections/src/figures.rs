//! Information about a connection and its links.

use std::net::SocketAddr;
use std::sync::Arc;

/// Characters kept of a peer's text.
const EXCERPT_CHARS_MAX: usize = 256;

/// The beginning of a peer's text.
#[must_use]
pub fn excerpt(text: &str) -> Box<str> {
    text.char_indices().nth(EXCERPT_CHARS_MAX).and_then(|(end, _)| text.get(..end)).unwrap_or(text).into()
}

/// The transport of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transport {
    /// AMQP over TCP.
    #[default]
    Amqp,
    /// AMQP in a WebSocket.
    WebSocket,
}

/// Properties that don't change during a connection. Texts are the peer's, cut by [`excerpt`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct About {
    /// The peer's address.
    pub address: Option<SocketAddr>,
    /// The transport.
    pub transport: Transport,
    /// Whether TLS is used.
    pub is_encrypted: bool,
    /// The subject of the verified client certificate.
    pub certificate: Option<Arc<str>>,
    /// When the peer opened the connection, in milliseconds since 1970 by the broker's clock.
    pub opened_at_ms: u64,
    /// The container-id of the peer's open.
    pub container_id: Box<str>,
    /// The host name by which the peer addressed the broker.
    pub host: Option<Box<str>>,
    /// `product` of the open's properties, which names the SDK.
    pub product: Option<Box<str>>,
    /// `version`.
    pub version: Option<Box<str>>,
    /// `platform`.
    pub platform: Option<Box<str>>,
    /// `framework`.
    pub framework: Option<Box<str>>,
    /// `user-agent`.
    pub user_agent: Option<Box<str>>,
}

impl About {
    /// Whether a text in lower case is contained in one of the texts that identify the peer.
    #[must_use]
    pub fn contains(&self, needle: &str) -> bool {
        let texts = [&self.host, &self.product, &self.platform, &self.framework, &self.user_agent];
        let texts = texts.into_iter().filter_map(Option::as_deref);
        let mut texts = texts.chain([&*self.container_id]).chain(self.certificate.as_deref());
        texts.any(|text| contains(text, needle))
            || self.address.is_some_and(|address| address.to_string().contains(needle))
    }
}

/// Whether a text contains another one, which is in lower case; ignores case.
pub(crate) fn contains(text: &str, needle: &str) -> bool {
    text.to_lowercase().contains(needle)
}

/// Kinds of credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Credential {
    /// None is required.
    Open,
    /// A key of a shared access rule.
    Rule,
    /// A client certificate.
    Certificate,
    /// A JSON web token.
    JsonWebToken,
}

/// The identity of a peer by one of its credentials.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    /// The kind of credential.
    pub credential: Credential,
    /// The rule's name, or the subject.
    pub name: Box<str>,
}

/// The direction of messages on a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// To the broker.
    In,
    /// To the client.
    Out,
}

/// The purpose of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The client sends to an entity.
    Send,
    /// The client sends messages, each with a destination of its own.
    Relay,
    /// The client receives.
    Receive,
    /// The client browses messages without receiving them.
    Browse,
    /// Requests to a management node, or its responses.
    Management,
    /// Tokens.
    Tokens,
    /// Declaring and discharging transactions.
    Transactions,
    /// A durable subscription of a client for JMS; no messages flow.
    Subscription,
}

/// The state of a link at one point in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkFigures {
    /// Its number on the connection, counted from 0; never reused.
    pub number: u32,
    /// The name chosen by the client.
    pub name: Box<str>,
    /// Its purpose.
    pub purpose: Purpose,
    /// The direction of messages.
    pub direction: Direction,
    /// The path of the entity that it is attached to, if any.
    pub entity: Option<Box<str>>,
    /// The receiver's id at its entity, by which locks identify their holder.
    pub receiver: Option<u64>,
    /// Messages that the receiving side still accepts.
    pub credit: u32,
    /// Deliveries that the receiving side has not settled.
    pub unsettled: usize,
    /// Messages since the link was attached.
    pub messages: u64,
}

/// The page of links to return.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkPage {
    /// The first number.
    pub from: u32,
    /// The most links.
    pub top: usize,
}

/// The parameters of a query.
#[derive(Debug, Clone, Default)]
pub struct Look {
    /// A text in lower case: the answer tells whether an identity or the entity of a link contains it, or a receiver
    /// has it as its id. The empty text matches everything.
    pub needle: Arc<str>,
    /// The page of links.
    pub links: LinkPage,
}

/// The state of a connection at one point in time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Figures {
    /// The peer's identities by all credentials that are still valid; empty before authentication.
    pub identities: Vec<Identity>,
    /// Number of links of any purpose.
    pub link_count: usize,
    /// Messages received over message links since the connection was opened.
    pub messages_in: u64,
    /// Messages sent over such links.
    pub messages_out: u64,
    /// Messages that the client's receivers still accept.
    pub credit: u64,
    /// Deliveries that the client has not settled.
    pub unsettled: u64,
    /// Whether the broker has begun to close it.
    pub is_closing: bool,
    /// Whether one of the properties that can change matches the needle.
    pub matches: bool,
    /// The requested links, by number.
    pub links: Vec<LinkFigures>,
    /// The number at which the next page starts, if there are more links.
    pub next_link: Option<u32>,
}

impl Figures {
    /// Adds a link; links may be added in any order.
    pub fn add(&mut self, link: &LinkFigures, look: &Look) {
        self.link_count += 1;
        if matches!(link.purpose, Purpose::Receive | Purpose::Browse) {
            self.credit = self.credit.saturating_add(u64::from(link.credit));
            self.unsettled = self.unsettled.saturating_add(link.unsettled as u64);
        }
        self.matches |= link.entity.as_deref().is_some_and(|entity| contains(entity, &look.needle))
            || link.receiver.is_some_and(|receiver| receiver.to_string() == *look.needle);
    }

    /// Adds an identity of the peer, each once.
    pub fn identify(&mut self, identity: Identity, look: &Look) {
        self.matches |= contains(&identity.name, &look.needle);
        if let Err(place) = self.identities.binary_search(&identity) {
            self.identities.insert(place, identity);
        }
    }

    /// Keeps one page of links.
    pub fn show(&mut self, mut links: Vec<LinkFigures>, page: LinkPage) {
        links.retain(|link| link.number >= page.from);
        links.sort_unstable_by_key(|link| link.number);
        self.next_link = links.get(page.top).filter(|_| page.top > 0).map(|link| link.number);
        links.truncate(page.top);
        self.links = links;
    }
}
