//! The entities and their forwarding targets.

use bytes::Bytes;
use peeklock_engine::runtime::Namespace;
use peeklock_engine::{
    EntityOptions, EntityStatus, Forwarding, MessageView, QueueOptions, Rule, RuleProperties,
    SubscriptionOptions, TopicOptions,
};

/// How long ids are kept for duplicate detection.
pub(super) const WINDOW_MS: u64 = 20_000;

/// A queue, topic or subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::simulation) enum Node {
    /// → `Second`.
    First,
    /// → `Sink`.
    Second,
    /// The end of most routes. At times it accepts only forwarded messages.
    Sink,
    /// Dead letters → `Sink`.
    Works,
    /// → changing targets, itself included.
    Loose,
    /// → `Unique`.
    Ids,
    /// Detects duplicates.
    Unique,
    /// Is deleted and created again.
    Ghost,
    /// → `Fan`.
    Pages,
    /// A topic with the following subscriptions.
    Fan,
    /// → `Sink`.
    East,
    /// → `Second`.
    West,
    /// → changing targets.
    Turns,
}

pub(super) const QUEUES: [Node; 9] = [
    Node::Sink,
    Node::Second,
    Node::First,
    Node::Works,
    Node::Loose,
    Node::Unique,
    Node::Ids,
    Node::Ghost,
    Node::Pages,
];
pub(super) const SUBSCRIPTIONS: [Node; 3] = [Node::East, Node::West, Node::Turns];
pub(in crate::simulation) const SOURCES: [Node; 10] = [
    Node::First,
    Node::Second,
    Node::Sink,
    Node::Works,
    Node::Loose,
    Node::Ids,
    Node::Unique,
    Node::Ghost,
    Node::Pages,
    Node::Fan,
];
/// Entities with receivers at times.
pub(in crate::simulation) const READ: [Node; 5] =
    [Node::Sink, Node::Works, Node::Loose, Node::Unique, Node::Turns];
/// Possible forwarding targets of `Loose` and of `Turns`.
pub(in crate::simulation) const LOOSE_TO: [Option<Node>; 6] =
    [None, Some(Node::First), Some(Node::Second), Some(Node::Sink), Some(Node::Ghost), Some(Node::Loose)];
pub(in crate::simulation) const TURNS_TO: [Option<Node>; 3] = [None, Some(Node::Loose), Some(Node::Ghost)];

impl Node {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Second => "second",
            Self::Sink => "sink",
            Self::Works => "works",
            Self::Loose => "loose",
            Self::Ids => "ids",
            Self::Unique => "unique",
            Self::Ghost => "ghost",
            Self::Pages => "pages",
            Self::Fan => "fan",
            Self::East => "east",
            Self::West => "west",
            Self::Turns => "turns",
        }
    }

    /// How many copies of a message sent here exist in the end.
    pub(super) const fn copies(self) -> u32 {
        if matches!(self, Self::Fan | Self::Pages) { 3 } else { 1 }
    }

    pub(super) const fn may_come_to_ghost(self) -> bool {
        matches!(self, Self::Fan | Self::Pages | Self::Loose | Self::Ghost)
    }

    /// Whether it never has receivers, except for its dead letters.
    pub(super) const fn always_forwards(self) -> bool {
        matches!(self, Self::First | Self::Second | Self::East | Self::West | Self::Ids | Self::Pages)
    }

    /// Number of hops on a constant route to the target, if there is one.
    pub(super) fn hops_to(self, target: Self) -> Option<u8> {
        match (self, target) {
            (Self::First | Self::Pages, Self::Sink) => Some(2),
            (Self::Second | Self::Fan, Self::Sink) | (Self::Ids, Self::Unique) => Some(1),
            _ => None,
        }
    }

    pub(super) fn queue_options(self) -> QueueOptions {
        let to =
            |target: Self| Forwarding { forward_to: Some(target.name().into()), ..Forwarding::default() };
        let mut options = QueueOptions::default();
        match self {
            Self::First => options.forwarding = to(Self::Second),
            Self::Second => options.forwarding = to(Self::Sink),
            Self::Ids => options.forwarding = to(Self::Unique),
            Self::Pages => options.forwarding = to(Self::Fan),
            Self::Works => {
                options.max_delivery_count = 2;
                options.dead_lettering_on_message_expiration = true;
                options.forwarding.forward_dead_lettered_messages_to = Some(Self::Sink.name().into());
            }
            Self::Unique => {
                options.requires_duplicate_detection = true;
                options.duplicate_detection_history_time_window_ms = WINDOW_MS;
            }
            _ => {}
        }
        options
    }
}

/// Options of `Loose`.
pub(super) fn loose(to: Option<Node>, dead_letters_go: bool) -> QueueOptions {
    let forwarding = Forwarding {
        forward_to: to.map(|to| to.name().into()),
        forward_dead_lettered_messages_to: dead_letters_go.then(|| Node::Sink.name().into()),
    };
    QueueOptions { forwarding, ..QueueOptions::default() }
}

/// Options of `Sink`.
pub(super) fn sink(takes: bool) -> QueueOptions {
    let status = if takes { EntityStatus::Active } else { EntityStatus::SendDisabled };
    QueueOptions { status, ..QueueOptions::default() }
}

pub(super) fn subscription(to: Option<Node>) -> SubscriptionOptions {
    let forward_to = to.map(|to| to.name().into());
    SubscriptionOptions {
        forwarding: Forwarding { forward_to, ..Forwarding::default() },
        ..SubscriptionOptions::default()
    }
}

/// Declares the entities that don't exist.
pub(in crate::simulation) async fn declare(namespace: &Namespace) {
    if namespace.options(Node::Fan.name()).is_some() {
        return;
    }
    let fan = (Node::Fan.name().to_owned(), EntityOptions::from(TopicOptions::default()));
    let queues = QUEUES.map(|node| (node.name().to_owned(), EntityOptions::from(node.queue_options())));
    namespace.declare_all(std::iter::once(fan).chain(queues)).await.unwrap();
    let subscriptions = SUBSCRIPTIONS.map(|node| {
        let to = match node {
            Node::East => Some(Node::Sink),
            Node::West => Some(Node::Second),
            _ => None,
        };
        (node.name().to_owned(), subscription(to), vec![Rule::default_rule()])
    });
    namespace.declare_subscriptions(Node::Fan.name(), subscriptions.into()).await.unwrap();
}

/// The id in a body, if it has one.
pub(super) fn id_of(content: &str) -> Option<&str> {
    Some(content.split_once('#')?.1)
}

/// The rule properties of a body, for rules and duplicate detection.
pub(in crate::simulation) fn read_rule_properties(
    content: &Bytes,
    _: &MessageView,
) -> Option<RuleProperties> {
    let id = id_of(std::str::from_utf8(content).ok()?);
    Some(RuleProperties { message_id: id.map(Box::from), ..RuleProperties::default() })
}
