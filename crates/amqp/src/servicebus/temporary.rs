//! Dynamic nodes: queues and topics that the broker creates and names for a link, and deletes when the link ends
//! (AMQP 1.0, 3.5.3).
//!
//! JMS clients request them as the target of a link on which they send nothing; other clients request a queue as the
//! source of a link on which they receive.

use peeklock_access::Resource;
use peeklock_engine::runtime::Temporary;
use peeklock_engine::{EntityOptions, QueueOptions, TopicOptions};
use rand::RngExt;

use super::ConnectionHandler;
use super::attach::not_implemented;
use super::entities::Kind;
use super::errors::Fault;
use super::holds::{Creating, TEMPORARY_QUEUE, TEMPORARY_TOPIC, temporary_kind};
use crate::endpoint::LinkId;
use crate::wire::performative::{Attach, Role, Target, Terminus};
use crate::wire::{Str, Value};

/// The property of a dynamic node that defines when it is deleted.
const LIFETIME_POLICY: &str = "lifetime-policy";
/// The only supported policy: when the link ends; its descriptor in both forms.
const DELETE_ON_CLOSE: &str = "amqp:delete-on-close:list";
const DELETE_ON_CLOSE_CODE: u64 = 0x2b;

/// The terminus of an attach that names a node, if it is dynamic.
pub(super) fn dynamic(attach: &Attach) -> Option<&Terminus> {
    let terminus = match (attach.role, &attach.target) {
        (Role::Receiver, _) => attach.source.as_ref()?,
        (Role::Sender, Some(Target::Node(target))) => target,
        (Role::Sender, _) => return None,
    };
    terminus.dynamic.then_some(terminus)
}

impl ConnectionHandler {
    /// Creates the node of a dynamic terminus; the attach is answered when the node exists.
    pub(super) fn attach_dynamic(&mut self, link: LinkId, session: u16, attach: Attach) -> Result<(), Fault> {
        let Some(terminus) = dynamic(&attach) else { return Err(Fault::Internal) };
        let kind = wanted_kind(terminus)?;
        if attach.role == Role::Receiver && kind == Kind::Topic {
            return Err(not_implemented(
                "A dynamic source is a temporary queue; a temporary topic is a target.",
            ));
        }
        let name = format!("{}-{:032x}", prefix(kind), self.random.random::<u128>());
        let uri = self.uri(&name);
        self.check_manages(&Resource::entity(&name), &uri)?;
        self.check_holds()?;
        let options = self.options_of_temporary(kind);
        let attach = self.keep_attach(attach)?;
        let creating = Creating { session, attach, address: name.clone(), missing: None };
        self.hold(link, None, creating, |handler, tag| {
            let wanted = Temporary::Entity { name, options };
            handler.entities.create_temporary(wanted, handler.outbox.return_address(), tag)
        });
        Ok(())
    }

    fn options_of_temporary(&self, kind: Kind) -> EntityOptions {
        match kind {
            Kind::Topic => {
                TopicOptions { auto_delete_on_idle_ms: self.client.topic_idle_ms, ..TopicOptions::default() }
                    .into()
            }
            Kind::Queue | Kind::Subscription => {
                QueueOptions { auto_delete_on_idle_ms: self.client.queue_idle_ms, ..QueueOptions::default() }
                    .into()
            }
        }
    }
}

const fn prefix(kind: Kind) -> &'static str {
    match kind {
        Kind::Queue | Kind::Subscription => TEMPORARY_QUEUE,
        Kind::Topic => TEMPORARY_TOPIC,
    }
}

/// The kind of node that a dynamic terminus requests.
///
/// # Errors
/// It requests neither or both kinds, another lifetime policy, or gives an address.
fn wanted_kind(terminus: &Terminus) -> Result<Kind, Fault> {
    if terminus.address.is_some() {
        return Err(Fault::InvalidField(
            "The broker names dynamic nodes: the address must be absent.".to_owned(),
        ));
    }
    let policies = terminus.dynamic_node_properties.iter().filter(|(key, _)| &**key == LIFETIME_POLICY);
    if let Some((_, policy)) = policies.into_iter().find(|(_, policy)| !is_delete_on_close(policy)) {
        tracing::debug!(?policy, "the client requested a dynamic node with an unsupported lifetime");
        return Err(not_implemented(
            "A dynamic node lives as long as its link: lifetime-policy delete-on-close.",
        ));
    }
    let asked: &[Str] = &terminus.capabilities;
    temporary_kind(asked).ok_or_else(|| {
        not_implemented("A dynamic node needs one of the capabilities temporary-queue and temporary-topic.")
    })
}

fn is_delete_on_close(policy: &Value) -> bool {
    match policy {
        Value::Null => true,
        Value::Described(described) => match &described.descriptor {
            Value::ULong(code) => *code == DELETE_ON_CLOSE_CODE,
            Value::Symbol(symbol) => &**symbol == DELETE_ON_CLOSE,
            _ => false,
        },
        _ => false,
    }
}
