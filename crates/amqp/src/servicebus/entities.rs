//! The dialect's interface to the engine beside partitions: lookup of entities.

use std::sync::Arc;

use peeklock_access::{EntityNode, Resource};
use peeklock_budget::throttle::Bucket;
use peeklock_engine::runtime::{
    ClientSubscription, EntityRef, Mailbox, Namespace, PartitionHandle, SubscriptionRef, Temporary,
    Transaction,
};
use peeklock_engine::{
    Command, EntityOptions, EntityStatus, NewMessage, QueueId, QueuePath, ReceiverId, Refusal, SubQueue,
    Timestamp, name_key,
};
use smallvec::SmallVec;

use super::delivery::Origin;
use super::errors::Fault;
use super::submission::RequiredProperties;
use super::transactions::{JointStep, Place};

/// The entities of a broker. [`Namespace`] implements it; tests and benchmarks have other implementations.
pub trait Entities: Send + Sync + 'static {
    /// Finds a queue or topic; names match case-insensitively.
    fn entity(&self, name: &str) -> Option<EntityRef>;

    /// Finds a subscription of a topic; names match case-insensitively.
    fn subscription(&self, topic: &str, name: &str) -> Option<SubscriptionRef>;

    /// An id never used before for a receiver or watcher of this partition.
    fn next_receiver_id(&self, partition: &PartitionHandle) -> ReceiverId;

    /// The broker's clock.
    fn now(&self) -> Timestamp;

    /// Starts a transaction, which takes effect as a whole.
    fn begin_transaction(&self) -> Box<dyn JointStep>;

    /// See [`Namespace::create_temporary`].
    fn create_temporary(&self, wanted: Temporary, mailbox: Mailbox, tag: u64) -> Hold;

    /// See [`Namespace::subscribe`].
    fn subscribe(&self, wanted: ClientSubscription, mailbox: Mailbox, tag: u64) -> Hold;

    /// See [`Namespace::unsubscribe`].
    fn unsubscribe(&self, name: &str, mailbox: Mailbox, tag: u64);

    /// See [`Namespace::topic_of_client_subscription`].
    fn topic_of_client_subscription(&self, name: &str) -> Option<String>;
}

/// Keeps a temporary entity or a subscription in existence until it is dropped.
pub type Hold = Box<dyn std::fmt::Debug + Send + Sync>;

impl Entities for Namespace {
    fn entity(&self, name: &str) -> Option<EntityRef> {
        Self::entity(self, name)
    }

    fn subscription(&self, topic: &str, name: &str) -> Option<SubscriptionRef> {
        Self::subscription(self, topic, name)
    }

    fn next_receiver_id(&self, partition: &PartitionHandle) -> ReceiverId {
        Self::next_receiver_id(self, partition)
    }

    fn now(&self) -> Timestamp {
        self.clock().now()
    }

    fn begin_transaction(&self) -> Box<dyn JointStep> {
        Box::new(Self::begin_transaction(self))
    }

    fn create_temporary(&self, wanted: Temporary, mailbox: Mailbox, tag: u64) -> Hold {
        Box::new(Self::create_temporary(self, wanted, mailbox, tag))
    }

    fn subscribe(&self, wanted: ClientSubscription, mailbox: Mailbox, tag: u64) -> Hold {
        Box::new(Self::subscribe(self, wanted, mailbox, tag))
    }

    fn unsubscribe(&self, name: &str, mailbox: Mailbox, tag: u64) {
        Self::unsubscribe(self, name, mailbox, tag);
    }

    fn topic_of_client_subscription(&self, name: &str) -> Option<String> {
        Self::topic_of_client_subscription(self, name)
    }
}

impl JointStep for Transaction {
    fn add(&mut self, entity: &PartitionHandle, command: Command) {
        Self::add(self, entity, command);
    }

    fn add_transfer(&mut self, via: &Place, target: &Place, messages: SmallVec<[NewMessage; 1]>) {
        Self::add_transfer(self, &via.partition, &target.partition, messages);
    }

    fn commit(self: Box<Self>, mailbox: Mailbox, tag: u64) {
        Self::commit(*self, mailbox, tag);
    }
}

/// The kind of entity a link is attached to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Can be sent to and received from.
    Queue,
    /// Can be sent to; only its transfer dead letters can be received.
    Topic,
    /// Can be received from: holds copies of its topic's messages.
    Subscription,
}

/// An entity that a link is attached to.
#[derive(Debug)]
pub(crate) struct Entity {
    /// The resolved address.
    pub(crate) address: EntityNode,
    /// The resource for authorization: the address without its sub-queue.
    pub(crate) resource: Resource,
    /// Identifies the management node: links with the same key answer each other.
    pub(crate) node: Box<str>,
    /// Identifies the top-level entity: a queue or topic, for a subscription its topic.
    pub(crate) root: Arc<str>,
    /// Full address, for error texts.
    pub(crate) uri: String,
    /// The partition that gets its commands.
    pub(crate) partition: PartitionHandle,
    /// The queue or subscription in commands; for a topic, the queue of its scheduled messages and transfer dead letters.
    pub(crate) queue: QueueId,
    /// Its kind.
    pub(crate) kind: Kind,
    /// Whether it exists only as long as the connection that created it, or as its consumers.
    pub(crate) is_temporary: bool,
    /// Whether messages belong to sessions; never changes.
    requires_session: bool,
    /// Whether its messages belong to partitions; of a subscription, its topic's. Never changes.
    pub(crate) is_partitioned: bool,
    /// The status of the queue or topic at the time of attach; of a subscription, its topic's.
    status: EntityStatus,
    /// Properties of sent messages that the entity needs; never changes.
    wanted: RequiredProperties,
    /// Largest encoded message accepted at the time of attach; of a subscription, its topic's.
    pub(crate) max_message_size_bytes: u64,
    /// Rate limits in messages per second of the entity and of the identity that attached, if any.
    pub(crate) buckets: Vec<Arc<Bucket>>,
}

impl Entity {
    /// A queue or topic that was found; `uri` is its address as written.
    pub(crate) fn new(address: EntityNode, uri: String, found: EntityRef) -> Self {
        let EntityRef { partition, queue, options } = found;
        let (kind, requires_session) = match &*options {
            EntityOptions::Queue(queue) => (Kind::Queue, queue.requires_session),
            EntityOptions::Topic(_) => (Kind::Topic, false),
        };
        let (wanted, is_partitioned) = (RequiredProperties::by(&options), options.is_partitioned());
        let is_temporary = options.is_temporary();
        let max_message_size_bytes = options.max_message_size_bytes();
        let status = options.status();
        let (node, resource) = (node(&address), address.resource());
        let root = name_key(&address.name).into();
        Self {
            address,
            resource,
            node,
            root,
            uri,
            partition,
            queue,
            kind,
            is_temporary,
            requires_session,
            is_partitioned,
            status,
            wanted,
            max_message_size_bytes,
            buckets: Vec::new(),
        }
    }

    /// A subscription that was found; `uri` is its address as written.
    pub(crate) fn subscription(address: EntityNode, uri: String, found: SubscriptionRef) -> Self {
        let SubscriptionRef { partition, queue, options, topic } = found;
        Self {
            kind: Kind::Subscription,
            is_temporary: options.is_temporary(),
            requires_session: options.requires_session,
            // Clients can't send to it.
            wanted: RequiredProperties::default(),
            ..Self::new(address, uri, EntityRef { partition, queue, options: topic })
        }
    }

    /// Properties of sent messages that the entity needs.
    pub(crate) const fn wanted(&self) -> RequiredProperties {
        self.wanted
    }

    /// The sub-queue of the entity that the address names.
    pub(crate) fn source(&self) -> QueuePath {
        QueuePath { queue: self.queue, sub_queue: self.address.sub_queue }
    }

    /// Whether receivers of this address need a session: those of dead letters never do (semantics §23, 10).
    pub(crate) fn has_sessions(&self) -> bool {
        self.requires_session && self.address.sub_queue == SubQueue::Main
    }

    /// The queue or topic as transactions name it.
    pub(crate) fn place(&self) -> Place {
        Place { partition: self.partition.clone(), queue: self.queue }
    }

    /// Properties of the entity that affect its messages as receivers get them.
    pub(crate) fn origin(&self) -> Origin {
        let (sessions, copies) = (self.requires_session, self.kind == Kind::Subscription);
        Origin { sessions, copies, partitioned: self.is_partitioned }
    }

    /// Checks that messages can be sent to this address.
    ///
    /// # Errors
    /// [`Fault::NotAllowed`].
    pub(crate) fn check_send_allowed(&self) -> Result<(), Fault> {
        if self.kind == Kind::Subscription {
            return Err(Fault::NotAllowed("Messages can't be sent to a subscription: send to its topic."));
        }
        if self.address.sub_queue != SubQueue::Main {
            return Err(Fault::NotAllowed("Messages can't be sent to a dead-letter queue directly."));
        }
        Ok(())
    }

    /// Checks that the entity's status allows sending; `namespace` is the name in the text.
    ///
    /// # Errors
    /// [`Fault::EntityDisabled`], [`Fault::SendDisabled`].
    pub(crate) fn check_enabled_for_sending(&self, namespace: &str) -> Result<(), Fault> {
        match self.status {
            EntityStatus::Active | EntityStatus::ReceiveDisabled => Ok(()),
            EntityStatus::SendDisabled => Err(self.send_fault(Refusal::EntityDisabled, namespace)),
            EntityStatus::Disabled => Err(self.fault(Refusal::EntityDisabled)),
        }
    }

    /// Checks that a receiver of this address can have a session.
    ///
    /// # Errors
    /// [`Fault::NotAllowed`] at a sub-queue (azure-sdk-for-java 10662), [`Refusal::SessionNotSupported`].
    pub(crate) fn check_session_allowed(&self) -> Result<(), Fault> {
        if self.requires_session && self.address.sub_queue != SubQueue::Main {
            return Err(Fault::NotAllowed("Cannot create a MessageSession for a sub-queue."));
        }
        if self.has_sessions() { Ok(()) } else { Err(Fault::Refused(Refusal::SessionNotSupported)) }
    }

    /// Checks that messages can be received from this address.
    ///
    /// # Errors
    /// [`Fault::NotAllowed`].
    pub(crate) fn check_receive_allowed(&self) -> Result<(), Fault> {
        match self.node_kind() {
            Kind::Queue | Kind::Subscription => Ok(()),
            Kind::Topic => Err(Fault::NotAllowed(
                "Messages can't be received from a topic: receive from one of its subscriptions.",
            )),
        }
    }

    /// The kind of the node that the address names: the transfer dead letters of a topic are a queue.
    pub(crate) fn node_kind(&self) -> Kind {
        if self.kind == Kind::Topic && self.address.sub_queue != SubQueue::Main {
            Kind::Queue
        } else {
            self.kind
        }
    }

    /// Maps a refusal of the engine for a link to this entity, or a request: texts that the SDKs parse name the entity.
    pub(crate) fn fault(&self, refusal: Refusal) -> Fault {
        match refusal {
            Refusal::EntityDeleted => Fault::EntityNotFound { uri: self.uri.clone() },
            Refusal::EntityDisabled => Fault::EntityDisabled { uri: self.uri.clone() },
            other => Fault::Refused(other),
        }
    }

    /// The error of a request to this entity, with the entity's name in refusals that say that it is disabled or was
    /// deleted; `namespace` is the name in the text of a request that sends.
    pub(crate) fn named(&self, fault: Fault, sends: bool, namespace: &str) -> Fault {
        match fault {
            Fault::Refused(refusal) if sends => self.send_fault(refusal, namespace),
            Fault::Refused(refusal) => self.fault(refusal),
            other => other,
        }
    }

    /// [`Self::fault`] for a link or request that sends; `namespace` is the name in the text.
    pub(crate) fn send_fault(&self, refusal: Refusal, namespace: &str) -> Fault {
        if refusal != Refusal::EntityDisabled {
            return self.fault(refusal);
        }
        let kind = if self.kind == Kind::Queue { "Queue" } else { "Topic" };
        Fault::SendDisabled { entity: format!("{namespace}:{kind}:{}", self.address.name) }
    }
}

fn node(address: &EntityNode) -> Box<str> {
    format!("{}/$management", address.key()).into()
}
