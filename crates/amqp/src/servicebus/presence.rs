//! A connection in the register: its figures for administrators, and its close at their request. See
//! [`peeklock_connections`].

use std::task::{Context, Poll};

use peeklock_access::ShownCredential;
use peeklock_connections::{
    About, Credential, Direction, Figures, Identity, LinkFigures, Look, Presence, Purpose, Request, excerpt,
};

use super::entities::Entity;
use super::{ConnectionHandler, Link};
use crate::endpoint::condition::{CONNECTION_FORCED, error};
use crate::endpoint::{Connection, LinkId, NowMs};
use crate::wire::loggable;
use crate::wire::performative::Open;

/// Time that an administrator's close may take for pending output before the connection is aborted, in milliseconds.
const CLOSE_PATIENCE_MS: u64 = 5_000;

/// The connection's entry in the register.
#[derive(Default)]
pub(super) struct Watched {
    /// Set once the peer has opened the connection.
    presence: Option<Presence>,
    /// Whether requests wait.
    is_asked: bool,
    /// Messages received, over all links, and those sent on links that have ended.
    pub(super) messages_in: u64,
    pub(super) messages_out: u64,
    /// Set while an administrator's close is in progress.
    closing: Option<Closing>,
}

struct Closing {
    why: String,
    deadline: NowMs,
}

impl Watched {
    pub(super) fn deadline(&self) -> Option<NowMs> {
        self.closing.as_ref().map(|closing| closing.deadline)
    }

    /// Ready if a request has arrived.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let asked = self.presence.as_mut().map_or(Poll::Pending, |presence| presence.poll_request(context));
        self.is_asked |= asked.is_ready();
        asked
    }
}

impl ConnectionHandler {
    /// Enters the connection in the register after the peer's open.
    pub(super) fn enter(&mut self, open: &Open) {
        let property = |name: &str| {
            let (_, value) = open.properties.iter().find(|(key, _)| **key == *name)?;
            value.as_str().filter(|text| !text.is_empty()).map(excerpt)
        };
        let about = About {
            address: self.peer.address,
            transport: self.peer.transport,
            is_encrypted: self.peer.encrypted,
            certificate: self.peer.certificate.clone(),
            opened_at_ms: self.entities.now().0,
            container_id: excerpt(&open.container_id),
            host: open.hostname.as_deref().filter(|host| !host.is_empty()).map(excerpt),
            product: property("product"),
            version: property("version"),
            platform: property("platform"),
            framework: property("framework"),
            user_agent: property("user-agent"),
        };
        self.watched.presence = Some(self.register.enter(about));
    }

    /// Answers requests of administrators: figures of the connection, or its close. Called once per turn.
    pub(super) fn answer_watchers(&mut self, connection: &mut Connection, now: NowMs) {
        if !std::mem::take(&mut self.watched.is_asked) {
            return;
        }
        while let Some(request) = self.watched.presence.as_mut().and_then(Presence::next_request) {
            match request {
                // The requester may have been dropped.
                Request::Look(look, answer) => drop(answer.send(self.figures(&look, connection))),
                Request::Close { by } => self.close_by(&by, connection, now),
            }
        }
    }

    fn close_by(&mut self, by: &str, connection: &mut Connection, now: NowMs) {
        if self.watched.closing.is_some() {
            return;
        }
        tracing::info!(by = %loggable(by), "connection closed by an administrator");
        let why = "an administrator closed the connection".to_owned();
        connection.close(Some(error(CONNECTION_FORCED, why.clone())));
        let deadline = now.saturating_add(CLOSE_PATIENCE_MS);
        self.watched.closing = Some(Closing { why, deadline });
    }

    /// Aborts a connection whose peer has not read the pending output and the close in time.
    pub(super) fn cut_closing(&mut self, connection: &mut Connection, now: NowMs) {
        let is_over = |closing: &mut Closing| closing.deadline <= now;
        if let Some(closing) = self.watched.closing.take_if(is_over) {
            connection.abort(error(CONNECTION_FORCED, closing.why));
        }
    }

    pub(super) fn figures(&self, look: &Look, connection: &Connection) -> Figures {
        let mut figures = Figures {
            matches: look.needle.is_empty(),
            is_closing: self.watched.closing.is_some(),
            messages_in: self.watched.messages_in,
            messages_out: self.watched.messages_out,
            ..Figures::default()
        };
        for (shown, name) in self.authorization.identities() {
            figures.identify(Identity { credential: credential(shown), name: name.into() }, look);
        }
        let mut links = Vec::new();
        for (id, link) in &self.links {
            let Some(row) = self.link_figures(*id, link, connection) else { continue };
            figures.add(&row, look);
            if matches!(link, Link::Receiver(_) | Link::Browser(_)) {
                figures.messages_out = figures.messages_out.saturating_add(row.messages);
            }
            if look.links.top > 0 {
                links.push(row);
            }
        }
        figures.show(links, look.links);
        figures
    }

    fn link_figures(&self, id: LinkId, link: &Link, connection: &Connection) -> Option<LinkFigures> {
        let found = connection.link_figures(id)?;
        let path = |entity: &Entity| Some(entity.address.to_string().into_boxed_str());
        let (purpose, entity) = match link {
            Link::Sender(sender) => (Purpose::Send, path(&sender.entity)),
            Link::Receiver(receiver) => (Purpose::Receive, path(&self.receivers.get(receiver)?.entity)),
            Link::Browser(browser) => (Purpose::Browse, path(&browser.entity)),
            Link::Relay { .. } => (Purpose::Relay, None),
            Link::Subscription { .. } => (Purpose::Subscription, None),
            Link::Coordinator => (Purpose::Transactions, None),
            Link::CbsRequests { .. } | Link::Responses { entity: None } => (Purpose::Tokens, None),
            Link::ManagementRequests { target, .. } => (Purpose::Management, path(&target.entity)),
            Link::Responses { entity: Some(entity) } => (Purpose::Management, path(entity)),
        };
        Some(LinkFigures {
            number: id.0,
            name: excerpt(found.name),
            purpose,
            direction: if found.is_incoming { Direction::In } else { Direction::Out },
            entity,
            receiver: match link {
                Link::Receiver(receiver) => Some(receiver.0),
                _ => None,
            },
            credit: found.credit,
            unsettled: found.unsettled,
            messages: found.messages,
        })
    }
}

fn credential(shown: ShownCredential) -> Credential {
    match shown {
        ShownCredential::None => Credential::Open,
        ShownCredential::Key => Credential::Rule,
        ShownCredential::Certificate => Credential::Certificate,
        ShownCredential::JsonWebToken => Credential::JsonWebToken,
    }
}
