//! The operation of a request: its method and the end of its path.

use axum::http::Method;
use peeklock_access::{EntityNode, ResolvedNode};
use peeklock_engine::Right;
use percent_encoding::percent_decode_str;

/// An operation and its target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Operation {
    /// The queue, topic or subscription, or a sub-queue of it.
    pub(crate) entity: EntityNode,
    /// The operation.
    pub(crate) verb: Verb,
}

/// The operations (admin reference §7). Operations on a locked message name its lock, as its `Location` does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verb {
    /// Send a message or a batch: `POST …/messages`.
    Send,
    /// Receive a message under a lock: `POST …/messages/head`.
    PeekLock,
    /// Receive a message and remove it: `DELETE …/messages/head`.
    ReceiveAndDelete,
    /// Delete messages without receiving them: `POST …/messages/purge`.
    Purge,
    /// Remove a locked message: `DELETE …/messages/{number}/{lock}`.
    Complete(String),
    /// Abandon a locked message: `PUT …/messages/{number}/{lock}`.
    Unlock(String),
    /// Renew a lock: `POST …/messages/{number}/{lock}`.
    Renew(String),
}

impl Verb {
    /// The right that it needs.
    pub(super) fn right(&self) -> Right {
        if *self == Self::Send { Right::Send } else { Right::Listen }
    }

    /// The methods that its path supports.
    pub(super) const fn methods(&self) -> &'static str {
        match self {
            Self::Send | Self::Purge => "POST",
            Self::PeekLock | Self::ReceiveAndDelete => "POST, DELETE",
            Self::Complete(_) | Self::Unlock(_) | Self::Renew(_) => "POST, PUT, DELETE",
        }
    }
}

impl Operation {
    /// Parses method and path; `None` if they are no operation on messages.
    pub(crate) fn read(method: &Method, path: &str) -> Option<Self> {
        let (entity, verb) = read_verb(method, path.trim_end_matches('/'))?;
        match ResolvedNode::of(entity) {
            Ok(ResolvedNode::Entity(entity)) if !entity.management => Some(Self { entity, verb }),
            _ => None,
        }
    }
}

/// Removes the operation from the end of a path; the rest is the address of an entity, still encoded.
fn read_verb<'a>(method: &Method, path: &'a str) -> Option<(&'a str, Verb)> {
    let (rest, last) = pop(path)?;
    if is(&last, "messages") {
        return (*method == Method::POST).then_some((rest, Verb::Send));
    }
    let (rest, second) = pop(rest)?;
    if is(&second, "messages") && is(&last, "head") {
        return match *method {
            Method::POST => Some((rest, Verb::PeekLock)),
            Method::DELETE => Some((rest, Verb::ReceiveAndDelete)),
            _ => None,
        };
    }
    if is(&second, "messages") && is(&last, "purge") {
        return (*method == Method::POST).then_some((rest, Verb::Purge));
    }
    // `second` is the message's number or id; the lock alone identifies it.
    let (rest, third) = pop(rest)?;
    let verb = match *method {
        Method::DELETE => Verb::Complete(last),
        Method::PUT => Verb::Unlock(last),
        Method::POST => Verb::Renew(last),
        _ => return None,
    };
    is(&third, "messages").then_some((rest, verb))
}

/// The last segment of a path, decoded, and the rest; `None` if one of them is empty.
fn pop(path: &str) -> Option<(&str, String)> {
    let (rest, last) = path.rsplit_once('/')?;
    let last = percent_decode_str(last).decode_utf8().ok()?;
    (!last.is_empty() && !rest.is_empty() && !rest.ends_with('/')).then(|| (rest, last.into_owned()))
}

fn is(segment: &str, word: &str) -> bool {
    segment.eq_ignore_ascii_case(word)
}

#[cfg(test)]
mod tests {
    use peeklock_engine::SubQueue;

    use super::*;

    fn read(method: Method, path: &str) -> Option<(String, SubQueue, Verb)> {
        let read = Operation::read(&method, path)?;
        Some((read.entity.entity_path(), read.entity.sub_queue, read.verb))
    }

    #[test]
    fn method_and_path_select_the_operation() {
        let main = |entity: &str, verb| Some((entity.to_owned(), SubQueue::Main, verb));
        assert_eq!(read(Method::POST, "/q/messages"), main("q", Verb::Send));
        assert_eq!(read(Method::POST, "/a/b/Messages/"), main("a/b", Verb::Send));
        assert_eq!(read(Method::POST, "/q/messages/head"), main("q", Verb::PeekLock));
        assert_eq!(read(Method::DELETE, "/q/messages/HEAD"), main("q", Verb::ReceiveAndDelete));
        assert_eq!(read(Method::POST, "/a/b/messages/Purge"), main("a/b", Verb::Purge));
        let lock = || "l".to_owned();
        assert_eq!(read(Method::DELETE, "/a/q/messages/7/l"), main("a/q", Verb::Complete(lock())));
        assert_eq!(read(Method::PUT, "/q/messages/an%2Fid/l"), main("q", Verb::Unlock(lock())));
        assert_eq!(
            read(Method::POST, "/t/subscriptions/s/messages/7/l"),
            main("t/Subscriptions/s", Verb::Renew(lock()))
        );
    }

    #[test]
    fn queues_inside_are_found() {
        let dead = |entity: &str| Some((entity.to_owned(), SubQueue::DeadLetter, Verb::PeekLock));
        assert_eq!(read(Method::POST, "/q/$DeadLetterQueue/messages/head"), dead("q"));
        assert_eq!(
            read(Method::POST, "/t/Subscriptions/s/%24deadletterqueue/messages/head"),
            dead("t/Subscriptions/s")
        );
        let (_, sub_queue, _) =
            read(Method::DELETE, "/q/$Transfer/$DeadLetterQueue/messages/head").expect("known");
        assert_eq!(sub_queue, SubQueue::TransferDeadLetter);
    }

    /// In the path of a rule, the word `messages` is the subscription's name.
    #[test]
    fn a_subscription_may_be_called_messages() {
        for method in [Method::PUT, Method::DELETE, Method::POST] {
            assert_eq!(read(method, "/t/subscriptions/messages/rules/r"), None);
        }
        assert_eq!(read(Method::POST, "/t/subscriptions/messages"), None);
        let send = Some(("t/Subscriptions/messages".to_owned(), SubQueue::Main, Verb::Send));
        assert_eq!(read(Method::POST, "/t/subscriptions/messages/messages"), send);
    }

    #[test]
    fn slashes_may_be_escaped() {
        for path in ["/a%2Fb/messages", "//a/b/messages/"] {
            assert_eq!(
                read(Method::POST, path),
                Some(("a/b".to_owned(), SubQueue::Main, Verb::Send)),
                "{path}"
            );
        }
        let dead = read(Method::POST, "/t%2Fsubscriptions%2fs%2F%24DeadLetterQueue/messages/head");
        assert_eq!(dead, Some(("t/Subscriptions/s".to_owned(), SubQueue::DeadLetter, Verb::PeekLock)));
    }

    #[test]
    fn other_requests_are_not_message_operations() {
        let others = [
            (Method::GET, "/q/messages"),
            (Method::PUT, "/q/messages"),
            (Method::GET, "/q/messages/head"),
            (Method::DELETE, "/q/messages/purge"),
            (Method::DELETE, "/q"),
            (Method::PUT, "/t/subscriptions/s/rules/r"),
            (Method::POST, "/messages"),
            (Method::POST, "/q/$nowhere/messages/head"),
            (Method::POST, "/q/$management/messages"),
            (Method::POST, "/$Resources/queues/messages"),
            (Method::POST, "/q//messages"),
            (Method::POST, "/q/messages//head"),
            (Method::POST, "/a//b/messages"),
            (Method::POST, "/q%252fx/messages"),
            (Method::POST, "/%ff/messages"),
            (Method::DELETE, "/"),
        ];
        for (method, path) in others {
            assert_eq!(read(method, path), None, "{path}");
        }
    }
}
