//! What is known of a connection and its links.

use std::net::SocketAddr;
use std::sync::Arc;

/// Characters kept of a text that a peer chose.
const EXCERPT_CHARS_MAX: usize = 256;

/// The beginning of a text that a peer chose.
#[must_use]
pub fn excerpt(text: &str) -> Box<str> {
    text.char_indices().nth(EXCERPT_CHARS_MAX).and_then(|(end, _)| text.get(..end)).unwrap_or(text).into()
}

/// How the bytes of a connection come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transport {
    /// AMQP over TCP.
    #[default]
    Amqp,
    /// AMQP in a WebSocket.
    WebSocket,
}

/// What does not change while a connection lives. Texts are the peer's own, cut by [`excerpt`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct About {
    /// Where the peer connects from.
    pub address: Option<SocketAddr>,
    /// How.
    pub transport: Transport,
    /// Whether through TLS.
    pub is_encrypted: bool,
    /// The subject of the verified client certificate.
    pub certificate: Option<Arc<str>>,
    /// When the peer opened the connection, in milliseconds since 1970 by the broker's clock.
    pub opened_at_ms: u64,
    /// The container-id of the peer's open.
    pub container_id: Box<str>,
    /// As which host it addressed the broker.
    pub host: Option<Box<str>>,
    /// `product` of the open's properties: the SDK.
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
    /// Whether a text in lower case is a part of what identifies the peer.
    #[must_use]
    pub fn contains(&self, needle: &str) -> bool {
        let texts = [&self.host, &self.product, &self.platform, &self.framework, &self.user_agent];
        let texts = texts.into_iter().filter_map(Option::as_deref);
        let mut texts = texts.chain([&*self.container_id]).chain(self.certificate.as_deref());
        texts.any(|text| contains(text, needle))
            || self.address.is_some_and(|address| address.to_string().contains(needle))
    }
}

/// Whether a text contains another, which is in lower case, whatever its own case.
pub(crate) fn contains(text: &str, needle: &str) -> bool {
    text.to_lowercase().contains(needle)
}

/// By what a peer is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Credential {
    /// Nothing has to be shown.
    Open,
    /// A key of a shared access rule.
    Rule,
    /// A client certificate.
    Certificate,
    /// A JSON web token.
    JsonWebToken,
}

/// Who a peer is by one of the credentials that it has shown.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    /// By what.
    pub credential: Credential,
    /// The rule, or the subject.
    pub name: Box<str>,
}

/// Which way messages go on a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// To the broker.
    In,
    /// To the client.
    Out,
}

/// What a link is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The client sends to an entity.
    Send,
    /// The client sends messages that each name their destination.
    Relay,
    /// The client receives.
    Receive,
    /// The client looks at messages without taking them.
    Browse,
    /// Requests to a management node, or its answers.
    Management,
    /// Tokens.
    Tokens,
    /// Declaring and discharging transactions.
    Transactions,
    /// A durable subscription of a client for JMS; no messages flow.
    Subscription,
}

/// What is known of a link at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkFigures {
    /// Its number on the connection, counted from 0; never given again.
    pub number: u32,
    /// The name that the client gave it.
    pub name: Box<str>,
    /// What it is for.
    pub purpose: Purpose,
    /// Which way messages go.
    pub direction: Direction,
    /// The path of what it is attached to, if that is an entity.
    pub entity: Option<Box<str>>,
    /// The receiver's id at its entity, by which locks name their holder.
    pub receiver: Option<u64>,
    /// Messages that the receiving side will still take.
    pub credit: u32,
    /// Deliveries that the receiving side has not settled.
    pub unsettled: usize,
    /// Messages since the link was attached.
    pub messages: u64,
}

/// Which links to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkPage {
    /// From this number on.
    pub from: u32,
    /// So many at most.
    pub top: usize,
}

/// What to look at.
#[derive(Debug, Clone, Default)]
pub struct Look {
    /// In lower case: answers say whether identities or entities of links contain it, or a receiver has it as its id. Empty is
    /// contained in everything.
    pub needle: Arc<str>,
    /// Links to show.
    pub links: LinkPage,
}

/// What is known of a connection at one time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Figures {
    /// Who the peer is, by everything that it has shown and that still counts; none if it has shown nothing.
    pub identities: Vec<Identity>,
    /// Links, those of any purpose.
    pub link_count: usize,
    /// Messages that came over links for messages since the connection was opened.
    pub messages_in: u64,
    /// Messages that left over such links.
    pub messages_out: u64,
    /// Messages that the client's receivers will still take.
    pub credit: u64,
    /// Deliveries that the client has not settled.
    pub unsettled: u64,
    /// The broker has begun to close it.
    pub is_closing: bool,
    /// Whether what changes contains what was searched.
    pub matches: bool,
    /// The links that were asked for, by number.
    pub links: Vec<LinkFigures>,
    /// From where links go on, if there are more.
    pub next_link: Option<u32>,
}

impl Figures {
    /// Takes a link into account; links come in any order.
    pub fn add(&mut self, link: &LinkFigures, look: &Look) {
        self.link_count += 1;
        if matches!(link.purpose, Purpose::Receive | Purpose::Browse) {
            self.credit = self.credit.saturating_add(u64::from(link.credit));
            self.unsettled = self.unsettled.saturating_add(link.unsettled as u64);
        }
        self.matches |= link.entity.as_deref().is_some_and(|entity| contains(entity, &look.needle))
            || link.receiver.is_some_and(|receiver| receiver.to_string() == *look.needle);
    }

    /// Notes who the peer is; each identity once.
    pub fn identify(&mut self, identity: Identity, look: &Look) {
        self.matches |= contains(&identity.name, &look.needle);
        if let Err(place) = self.identities.binary_search(&identity) {
            self.identities.insert(place, identity);
        }
    }

    /// Keeps a page of links.
    pub fn show(&mut self, mut links: Vec<LinkFigures>, page: LinkPage) {
        links.retain(|link| link.number >= page.from);
        links.sort_unstable_by_key(|link| link.number);
        self.next_link = links.get(page.top).filter(|_| page.top > 0).map(|link| link.number);
        links.truncate(page.top);
        self.links = links;
    }
}
