//! What a request asks for: its method and the end of its path.

use axum::http::Method;
use peeklock_engine::{Right, SubQueue};

use crate::path::{EntityPath, Segments};

/// What is to be done, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Operation {
    /// The queue, topic or subscription.
    pub(crate) entity: EntityPath,
    /// Which queue inside it.
    pub(crate) sub_queue: SubQueue,
    /// What.
    pub(crate) verb: Verb,
}

/// The operations (admin reference §7). Those on a message name its lock, as its `Location` does.
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
    /// Give a locked message back: `PUT …/messages/{number}/{lock}`.
    Unlock(String),
    /// Prolong a lock: `POST …/messages/{number}/{lock}`.
    Renew(String),
}

impl Verb {
    /// What it takes.
    pub(super) fn right(&self) -> Right {
        if *self == Self::Send { Right::Send } else { Right::Listen }
    }
}

impl Operation {
    /// Reads method and path; `None` for what is no operation on messages.
    pub(crate) fn read(method: &Method, path: &str) -> Option<Self> {
        let mut segments = Segments::read(path)?;
        let verb = if segments.pop_word("messages") {
            (*method == Method::POST).then_some(Verb::Send)?
        } else {
            let last = segments.pop()?;
            let is_of_messages = segments.pop_word("messages");
            if is_of_messages && last.eq_ignore_ascii_case("head") {
                match *method {
                    Method::POST => Verb::PeekLock,
                    Method::DELETE => Verb::ReceiveAndDelete,
                    _ => return None,
                }
            } else if is_of_messages && last.eq_ignore_ascii_case("purge") {
                (*method == Method::POST).then_some(Verb::Purge)?
            } else {
                // The message's number or id; its lock says it all.
                segments.pop()?;
                if !segments.pop_word("messages") {
                    return None;
                }
                match *method {
                    Method::DELETE => Verb::Complete(last),
                    Method::PUT => Verb::Unlock(last),
                    Method::POST => Verb::Renew(last),
                    _ => return None,
                }
            }
        };
        let sub_queue = match segments.pop_word("$deadletterqueue") {
            true if segments.pop_word("$transfer") => SubQueue::TransferDeadLetter,
            true => SubQueue::DeadLetter,
            false => SubQueue::Main,
        };
        Some(Self { entity: segments.into_entity()?, sub_queue, verb })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(method: Method, path: &str) -> Option<(String, SubQueue, Verb)> {
        let read = Operation::read(&method, path)?;
        Some((read.entity.to_string(), read.sub_queue, read.verb))
    }

    #[test]
    fn method_and_path_say_what_to_do() {
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

    #[test]
    fn what_is_no_operation_on_messages_is_left_to_others() {
        let others = [
            (Method::GET, "/q/messages"),
            (Method::PUT, "/q/messages"),
            (Method::GET, "/q/messages/head"),
            (Method::DELETE, "/q/messages/purge"),
            (Method::DELETE, "/q"),
            (Method::PUT, "/t/subscriptions/s/rules/r"),
            (Method::POST, "/messages"),
            (Method::POST, "/q/$nowhere/messages/head"),
            (Method::DELETE, "/"),
        ];
        for (method, path) in others {
            assert_eq!(read(method, path), None, "{path}");
        }
    }
}
