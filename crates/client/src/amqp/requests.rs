//! Requests and responses over a pair of links: `$cbs` and `$management`.

use bytes::{Bytes, BytesMut};
use peeklock_amqp::endpoint::{LinkId, Outgoing};
use peeklock_wire::Value;
use peeklock_wire::message::{
    MessageProperties, Sections, encode_application_properties, encode_body_value, lookup,
};
use peeklock_wire::performative::{DeliveryState, Role, SenderSettleMode, Target};
use smallvec::SmallVec;

use super::connection::{Client, PATIENCE};
use super::links::{link, node};
use super::transactions::TransactionId;
use crate::ClientError;

/// Maximum number of outstanding responses.
const CREDIT: u32 = 100;

/// A pair of links to one node.
#[derive(Debug, Clone)]
pub(super) struct RequestLinks {
    sender: LinkId,
    receiver: LinkId,
    reply_to: String,
}

/// A node's response.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) status: i64,
    pub(super) body: Value,
}

impl Client {
    /// Attaches a pair of links to a node.
    pub(super) async fn attach_node(
        &mut self,
        session: u16,
        address: &str,
    ) -> Result<RequestLinks, ClientError> {
        let reply_to = format!("reply-{}", uuid::Uuid::new_v4());
        let sender = link(Role::Sender, Some(node(&reply_to)), Some(Target::Node(node(address))));
        let sender = self.attach(session, sender).await?;
        let mut receiver = link(Role::Receiver, Some(node(address)), Some(Target::Node(node(&reply_to))));
        receiver.snd_settle_mode = SenderSettleMode::Settled;
        let receiver = self.attach(session, receiver).await?;
        self.endpoint.set_credit(receiver, CREDIT, false);
        Ok(RequestLinks { sender, receiver, reply_to })
    }

    /// Sends a request and waits for its response.
    ///
    /// # Errors
    /// A refusal by status, with its condition and description.
    pub(super) async fn request(
        &mut self,
        links: &RequestLinks,
        properties: &[(&str, Value)],
        body: &Value,
        transaction: Option<&TransactionId>,
    ) -> Result<Response, ClientError> {
        let id = uuid::Uuid::new_v4().to_string();
        let message = encode_request(&id, &links.reply_to, properties, body);
        let outcome = self.send_encoded(links.sender, message, transaction)?;
        self.outcome(outcome).await?;
        let receiver = links.receiver;
        let payload = self.until("waiting for the response to a request", PATIENCE, |client| {
            let link = client.links.get(receiver);
            if let Some(end) = &link.end {
                return Some(Err(ClientError::Refused(end.clone())));
            }
            let delivery = link.deliveries.pop_front()?;
            if !delivery.is_settled {
                client.endpoint.settle_incoming(delivery.id, DeliveryState::Accepted);
            }
            answers(&delivery.payload, &id).then_some(Ok(delivery.payload))
        });
        let payload = payload.await??;
        self.endpoint.set_credit(receiver, CREDIT, false);
        read_response(&payload)
    }
}

fn encode_request(id: &str, reply_to: &str, properties: &[(&str, Value)], body: &Value) -> Bytes {
    let mut output = BytesMut::new();
    let head =
        MessageProperties { message_id: id.into(), reply_to: Some(reply_to.into()), ..Default::default() };
    head.encode(&mut output);
    let properties: Vec<_> =
        properties.iter().map(|(key, value)| (Value::from(*key), value.clone())).collect();
    encode_application_properties(&properties, &mut output);
    encode_body_value(body, &mut output);
    output.freeze()
}

/// Whether a response belongs to the request with this id; a response to an earlier one may arrive late.
fn answers(payload: &Bytes, id: &str) -> bool {
    let properties = Sections::split(payload).and_then(|sections| sections.decode_properties());
    properties.is_ok_and(|properties| properties.correlation_id.as_str() == Some(id))
}

fn read_response(payload: &Bytes) -> Result<Response, ClientError> {
    let sections = Sections::split(payload)?;
    let properties = Sections::decode_map(&sections.application_properties)?;
    // `$cbs` hyphenates the names, management nodes use camel case.
    let find = |camel: &str, hyphen: &str| lookup(&properties, camel).or_else(|| lookup(&properties, hyphen));
    let status = find("statusCode", "status-code").and_then(Value::as_i64);
    let status = status.ok_or_else(|| ClientError::Unreadable("a response without a status".to_owned()))?;
    if (200..300).contains(&status) {
        return Ok(Response { status, body: sections.body_value()? });
    }
    let description = find("statusDescription", "status-description").and_then(Value::as_str);
    let condition = find("errorCondition", "error-condition").and_then(Value::as_str);
    let condition = condition.map_or_else(|| condition_of(status), str::to_owned);
    Err(ClientError::refused(&condition, description.unwrap_or_default()))
}

/// The condition for a status: `$cbs` sends none.
fn condition_of(status: i64) -> String {
    match status {
        401 | 403 => "amqp:unauthorized-access".to_owned(),
        404 => "amqp:not-found".to_owned(),
        other => other.to_string(),
    }
}

/// A message of one slice.
pub(super) fn outgoing(payload: Bytes, tag: u64) -> Outgoing {
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(tag.to_be_bytes()).for_each(|(byte, of_tag)| *byte = of_tag);
    Outgoing { tag: Some(bytes), settled: false, message_format: 0, payload: SmallVec::from_iter([payload]) }
}
