//! The state of each link, from the endpoint's events.

use std::collections::{HashMap, VecDeque};

use peeklock_amqp::endpoint::{Connection, Event, LinkId, OutgoingId};
use peeklock_wire::Fields;
use peeklock_wire::performative::{
    Attach, DeliveryState, ReceiverSettleMode, Role, SenderSettleMode, Target, Terminus,
};

use super::connection::{Client, PATIENCE};
use super::receiving::Delivery;
use crate::error::answer;
use crate::{Answer, ClientError};

/// One link.
#[derive(Debug, Default)]
pub(super) struct Link {
    /// The peer's attach, once it has accepted the link.
    pub(super) accepted: Option<Box<Attach>>,
    /// The error with which it ended.
    pub(super) end: Option<Answer>,
    /// Deliveries received and not taken yet.
    pub(super) deliveries: VecDeque<Delivery>,
    /// Outcomes of sent messages, by delivery number.
    pub(super) outcomes: HashMap<u32, Option<DeliveryState>>,
    /// Answers to our settlements, by the peer's delivery-id.
    pub(super) settled: HashMap<u32, Option<DeliveryState>>,
    /// The requested drain has been answered.
    pub(super) is_drained: bool,
}

/// All links of a connection.
#[derive(Debug, Default)]
pub(super) struct Links(HashMap<LinkId, Link>);

impl Links {
    pub(super) fn get(&mut self, id: LinkId) -> &mut Link {
        self.0.entry(id).or_default()
    }

    pub(super) fn forget(&mut self, id: LinkId) {
        self.0.remove(&id);
    }

    pub(super) fn on_event(&mut self, event: Event, endpoint: &mut Connection) {
        match event {
            Event::Attach { link, attach, .. } => {
                let has_terminus = match attach.role {
                    Role::Sender => attach.source.is_some(),
                    Role::Receiver => attach.target.is_some(),
                };
                // An attach without a terminus is a refusal; the detach with the reason follows.
                self.get(link).accepted = has_terminus.then_some(attach);
            }
            Event::Message { id, tag, settled, message_format: _, state: _, payload } => {
                self.get(id.link).deliveries.push_back(Delivery { id, tag, is_settled: settled, payload });
            }
            Event::Disposition { link, first, tags, state, settled } => {
                for (number, _) in (first..).zip(&tags) {
                    if !settled && let Some(state) = &state {
                        endpoint.settle_outgoing(OutgoingId { link, delivery_id: number }, state.clone());
                    }
                    self.get(link).outcomes.insert(number, state.clone());
                }
            }
            Event::Settled { id, state } => {
                self.get(id.link).settled.insert(id.delivery_id, state);
            }
            Event::Updated { id, state } => {
                self.get(id.link).settled.insert(id.delivery_id, Some(state));
            }
            Event::Drained { link } => self.get(link).is_drained = true,
            Event::Detached { link, error, .. } => self.get(link).end = Some(answer(error)),
            Event::Ending { link, .. } => endpoint.release_end(link, None),
            Event::Credit { .. }
            | Event::Refused { .. }
            | Event::Opened(_)
            | Event::Closed { .. }
            | Event::Authenticate { .. }
            | Event::SessionEnded { .. } => {}
        }
    }
}

/// A link to be attached.
pub(super) fn link(role: Role, source: Option<Terminus>, target: Option<Target>) -> Attach {
    Attach {
        name: uuid::Uuid::new_v4().to_string().into(),
        handle: 0,
        role,
        snd_settle_mode: SenderSettleMode::Mixed,
        rcv_settle_mode: ReceiverSettleMode::First,
        source,
        target,
        resumes: false,
        initial_delivery_count: None,
        max_message_size: None,
        offered_capabilities: Vec::new(),
        desired_capabilities: Vec::new(),
        properties: Fields::new(),
    }
}

/// A node by its address.
pub(super) fn node(address: &str) -> Terminus {
    Terminus { address: Some(address.into()), ..Terminus::default() }
}

impl Client {
    /// Attaches a link and waits for the answer.
    pub(super) async fn attach(&mut self, session: u16, attach: Attach) -> Result<LinkId, ClientError> {
        let full = || ClientError::Argument("the peer allows no more links".to_owned());
        let link = self.endpoint.attach(session, attach).ok_or_else(full)?;
        self.attached(link, PATIENCE).await?;
        Ok(link)
    }

    /// Waits for the answer to an attach.
    pub(super) async fn attached(
        &mut self,
        link: LinkId,
        time_out: std::time::Duration,
    ) -> Result<(), ClientError> {
        let answered = self.until("attaching a link", time_out, |client| {
            let link = client.links.get(link);
            match (&link.end, &link.accepted) {
                (Some(end), _) => Some(Err(ClientError::Refused(end.clone()))),
                (None, Some(_)) => Some(Ok(())),
                (None, None) => None,
            }
        });
        answered.await?
    }

    /// Detaches a link.
    pub fn detach(&mut self, link: LinkId) {
        self.endpoint.detach(link, None);
        self.links.forget(link);
    }
}
