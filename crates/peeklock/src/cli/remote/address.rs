//! The address in a command: an entity, or a sub-queue.

use std::fmt;
use std::str::FromStr;

use peeklock_access::ResolvedNode;

/// A queue of an entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SubQueue {
    /// Its own messages.
    Main,
    /// Its dead letters.
    DeadLetter,
    /// The transfer dead-letter queue.
    TransferDeadLetter,
}

/// An entity and one of its queues, as written on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    /// `queue`, `topic` or `topic/Subscriptions/name`.
    pub(super) entity: String,
    /// The addressed queue.
    pub(super) sub_queue: SubQueue,
}

impl Address {
    /// The address for attaching a receiver.
    pub(super) fn path(&self) -> String {
        let end = match self.sub_queue {
            SubQueue::Main => "",
            SubQueue::DeadLetter => "/$DeadLetterQueue",
            SubQueue::TransferDeadLetter => "/$Transfer/$DeadLetterQueue",
        };
        format!("{}{end}", self.entity)
    }

    /// The dead letters of the entity, unless another queue was specified.
    pub(super) fn or_dead_letters(self) -> Self {
        match self.sub_queue {
            SubQueue::Main => Self { sub_queue: SubQueue::DeadLetter, ..self },
            SubQueue::DeadLetter | SubQueue::TransferDeadLetter => self,
        }
    }

    /// Topic and subscription, if it is a subscription.
    pub(super) fn subscription(&self) -> Option<(String, String)> {
        match ResolvedNode::of(&self.entity) {
            Ok(ResolvedNode::Entity(node)) => node.subscription.map(|name| (node.name, name)),
            _ => None,
        }
    }

    /// The entity to send to: for a subscription its topic.
    pub(super) fn destination(&self) -> String {
        self.subscription().map_or_else(|| self.entity.clone(), |(topic, _)| topic)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.path())
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim_matches('/');
        let lower = text.to_lowercase();
        let ends = [
            ("/$transfer/$deadletterqueue", SubQueue::TransferDeadLetter),
            ("/$transfer/$dlq", SubQueue::TransferDeadLetter),
            ("/$transfer", SubQueue::TransferDeadLetter),
            ("/$deadletterqueue", SubQueue::DeadLetter),
            ("/$dlq", SubQueue::DeadLetter),
        ];
        let found = ends.iter().find(|(end, _)| lower.ends_with(end));
        let (length, sub_queue) = found.map_or((0, SubQueue::Main), |(end, which)| (end.len(), *which));
        let entity = text.get(..text.len() - length).unwrap_or(text);
        match ResolvedNode::of(entity) {
            Ok(ResolvedNode::Entity(node)) if node.is_whole() => {
                Ok(Self { entity: entity.to_owned(), sub_queue })
            }
            Ok(_) => Err(
                "name a queue, topic or subscription, such as orders, news/Subscriptions/all or orders/$dlq"
                    .to_owned(),
            ),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Parses the address of a whole entity: operations on an entity must not accept a sub-queue.
///
/// # Errors
/// A message with the valid form.
pub(super) fn whole(text: &str) -> Result<Address, String> {
    let address: Address = text.parse()?;
    match address.sub_queue {
        SubQueue::Main => Ok(address),
        SubQueue::DeadLetter | SubQueue::TransferDeadLetter => Err(format!(
            "this command applies to a whole entity, not to one of its sub-queues: write {}",
            address.entity
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_inside_an_entity_does_not_stand_for_the_entity() {
        assert_eq!(whole("orders").map(|address| address.entity).as_deref(), Ok("orders"));
        for inside in ["orders/$dlq", "orders/$transfer", "news/Subscriptions/all/$DeadLetterQueue"] {
            assert!(whole(inside).unwrap_err().contains("whole entity"), "{inside}");
        }
    }

    #[test]
    fn queues_inside_entities_have_short_names() {
        let path = |text: &str| text.parse::<Address>().map(|address| address.path());
        assert_eq!(path("orders").as_deref(), Ok("orders"));
        assert_eq!(path("a/b/$dlq").as_deref(), Ok("a/b/$DeadLetterQueue"));
        assert_eq!(path("orders/$DeadLetterQueue").as_deref(), Ok("orders/$DeadLetterQueue"));
        assert_eq!(path("orders/$transfer").as_deref(), Ok("orders/$Transfer/$DeadLetterQueue"));
        assert!(path("").is_err() && path("$cbs").is_err() && path("news/Subscriptions").is_err());
    }

    #[test]
    fn messages_for_a_subscription_are_sent_to_its_topic() {
        let address: Address = "news/Subscriptions/all/$dlq".parse().unwrap();
        assert_eq!(address.destination(), "news");
        assert_eq!(address.subscription(), Some(("news".to_owned(), "all".to_owned())));
        let queue: Address = "orders".parse().unwrap();
        assert_eq!(queue.or_dead_letters().path(), "orders/$DeadLetterQueue");
    }
}
