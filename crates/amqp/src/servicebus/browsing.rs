//! Receiver links that browse (distribution-mode `copy`): they receive the messages of a queue without locking or
//! removing any.
//!
//! A browser walks through the queue by sequence number, page by page, and gets the next page once the last one has
//! been written. At the end of the queue it pauses until its peer sends the next flow, and then continues with messages
//! that arrived meanwhile.

use std::sync::Arc;

use peeklock_engine::runtime::Response;
use peeklock_engine::{Command, MessageState, Received, Selector, SequenceNumber};
use peeklock_message::selection;
use smallvec::SmallVec;

use super::attach::not_implemented;
use super::delivery::DeliveryFormat;
use super::entities::Entity;
use super::errors::Fault;
use super::examining::STEPS_PER_TURN;
use super::receiving::number_tag;
use super::selector_filter::SelectorFilter;
use super::session_filter::SessionFilter;
use super::{ConnectionHandler, Link, Pending, answer};
use crate::endpoint::{Connection, LinkId, Outgoing};
use crate::wire::performative::{Attach, SenderSettleMode};

/// Messages in one page.
const PAGE_COUNT_MAX: u64 = 256;
/// Size of the bodies in one page, in bytes; the first message is included whatever its size.
const PAGE_BYTES_MAX: usize = 768 * 1024;

/// One link that browses.
pub(super) struct Browser {
    pub(super) entity: Arc<Entity>,
    selector: Option<Selector>,
    /// The sequence number from which the next page starts.
    next: SequenceNumber,
    /// Credit limit of the peer and number of messages sent, both since attach.
    limit: u64,
    pub(super) sent: u64,
    is_draining: bool,
    /// Whether a page has been requested and not been written completely.
    is_busy: bool,
}

impl ConnectionHandler {
    /// Attaches a receiver whose source has the distribution-mode `copy`.
    pub(super) fn attach_browser(
        &mut self,
        link: LinkId,
        entity: Arc<Entity>,
        attach: Attach,
        (session, selector): (Option<SessionFilter>, Option<SelectorFilter>),
        connection: &mut Connection,
    ) -> Result<(), Fault> {
        if session.is_some() {
            return Err(not_implemented("A browser shows all sessions: it can't have a session filter."));
        }
        self.watch(link, &entity);
        let message_bytes_max = answer::message_bytes_max(&attach);
        let mut reply = Attach {
            initial_delivery_count: Some(0),
            max_message_size: Some(entity.max_message_size_bytes),
            snd_settle_mode: SenderSettleMode::Settled,
            ..answer::to_receiver(attach, entity.node_kind())
        };
        let selector = selector.map(|filter| {
            filter.confirm(&mut reply);
            filter.selector
        });
        let next = SequenceNumber(0);
        let (limit, sent, is_draining, is_busy) = (0, 0, false, false);
        let browser = Browser { entity, selector, next, limit, sent, is_draining, is_busy };
        self.links.insert(link, Link::Browser(Box::new(browser)));
        connection.accept_attach(link, reply, 0);
        connection.limit_deliveries(link, message_bytes_max);
        Ok(())
    }

    /// Applies the credit of a browser's peer.
    pub(super) fn credit_browser(
        &mut self,
        link: LinkId,
        limit: u64,
        drain: bool,
        connection: &mut Connection,
    ) {
        let Some(Link::Browser(browser)) = self.links.get_mut(&link) else { return };
        (browser.limit, browser.is_draining) = (limit, drain);
        self.show_next_page(link, connection);
    }

    /// Requests the next page, unless one is still in progress; or ends a drain.
    fn show_next_page(&mut self, link: LinkId, connection: &mut Connection) {
        let bytes_max = PAGE_BYTES_MAX.min(self.room_bytes / 2).max(1);
        let Some(Link::Browser(browser)) = self.links.get_mut(&link) else { return };
        if browser.is_busy {
            return;
        }
        let count = browser.limit.saturating_sub(browser.sent).min(PAGE_COUNT_MAX);
        if count == 0 {
            if std::mem::take(&mut browser.is_draining) {
                self.answer_drain(link, connection);
            }
            return;
        }
        browser.is_busy = true;
        let count_max = u32::try_from(count).unwrap_or(1);
        let (from, source) = (browser.next, browser.entity.source());
        let command = Command::Peek { from, count_max, bytes_max, source, session: None };
        let partition = browser.entity.partition.clone();
        self.request_started(0);
        self.unanswered.answer_bytes += bytes_max;
        self.ask(&partition, command, Pending::Page { link, answer_bytes: bytes_max });
    }

    /// Sends a page that the engine returned.
    pub(super) fn page(
        &mut self,
        link: LinkId,
        answer_bytes: usize,
        response: Response,
        connection: &mut Connection,
    ) {
        self.request_finished(0);
        self.unanswered.answer_bytes = self.unanswered.answer_bytes.saturating_sub(answer_bytes);
        let Some(Link::Browser(browser)) = self.links.get_mut(&link) else { return };
        match response {
            Response::Received(Ok(messages)) if messages.is_empty() => {
                browser.is_busy = false;
                if std::mem::take(&mut browser.is_draining) {
                    browser.limit = browser.sent;
                    self.answer_drain(link, connection);
                }
            }
            Response::Received(Ok(messages)) => {
                self.send_page(link, &messages, connection);
                self.continue_browsing(link, connection);
            }
            Response::Received(Err(refusal)) => {
                let error = browser.entity.fault(refusal);
                let error = self.tracker().error(&error);
                connection.detach(link, Some(error));
                self.detached(link);
            }
            _ => {}
        }
    }

    /// Sends the messages of a page that are active and match the browser's selector. A page that takes too long to
    /// examine is cut off; the rest is read again.
    fn send_page(&mut self, link: LinkId, messages: &[Received], connection: &mut Connection) {
        let now = self.entities.now();
        let Some(Link::Browser(browser)) = self.links.get_mut(&link) else { return };
        let mut steps = 0;
        let origin = browser.entity.origin();
        let format = DeliveryFormat::Browsed { omits_body: false };
        for message in messages {
            if steps >= STEPS_PER_TURN {
                break;
            }
            browser.next = SequenceNumber(message.view.sequence_number.0.saturating_add(1));
            let view = &message.view;
            let mut matches = |selector| selection::matches(selector, &message.content, view, &mut steps);
            if view.state != MessageState::Active
                || view.expires_at <= now
                || !browser.selector.as_ref().is_none_or(&mut matches)
            {
                continue;
            }
            let Ok(payload) = self.encoder.encode(message, format, origin) else { continue };
            let payload = SmallVec::from_iter(payload);
            let tag = Some(number_tag(message.view.sequence_number.0));
            browser.sent += 1;
            connection.send(link, Outgoing { tag, settled: true, message_format: 0, payload });
        }
    }

    /// Requests the next page of a browser whose last page has been written, which is at once if the page had no message
    /// to send; otherwise after a later write.
    fn continue_browsing(&mut self, link: LinkId, connection: &mut Connection) {
        let Some(Link::Browser(browser)) = self.links.get_mut(&link) else { return };
        if connection.transmitted(link).0 < browser.sent {
            return self.browsing.push(link);
        }
        browser.is_busy = false;
        self.show_next_page(link, connection);
    }

    /// Requests the next page of browsers whose last page has been written.
    pub(super) fn process_browsers(&mut self, connection: &mut Connection) {
        for link in std::mem::take(&mut self.browsing) {
            self.continue_browsing(link, connection);
        }
    }
}
