//! Addresses as clients write them: paths, leading slashes, full URLs, percent-encoding, any letter case.

use peeklock_access::Resource;
use peeklock_engine::SubQueue;
use percent_encoding::percent_decode_str;

/// Longest address looked at, in bytes: an entity name has at most 260 characters, the rest is authority and suffixes.
pub(crate) const ADDRESS_BYTES_MAX: usize = 2048;

/// What an address names. Text is as written; entity names match case-insensitively.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    /// `$cbs`: the node that takes tokens.
    Cbs,
    /// An entity, one of the queues inside it, or its management node.
    Entity(EntityAddress),
}

/// The parts of an entity's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EntityAddress {
    /// Queue or topic; may contain `/`.
    pub(crate) name: String,
    /// `<topic>/Subscriptions/<this>`.
    pub(crate) subscription: Option<String>,
    /// Which queue inside the entity.
    pub(crate) sub_queue: SubQueue,
    /// Whether `/$management` followed.
    pub(crate) management: bool,
}

impl EntityAddress {
    /// What rights are about: the queue, topic or subscription.
    #[must_use]
    pub(crate) fn resource(&self) -> Resource {
        match &self.subscription {
            Some(subscription) => Resource::subscription(&self.name, subscription),
            None => Resource::entity(&self.name),
        }
    }

    /// Canonical path in lower case, without `/$management`: the key of reply links.
    #[must_use]
    pub(crate) fn key(&self) -> String {
        let mut key = self.name.to_lowercase();
        if let Some(subscription) = &self.subscription {
            key.push_str("/subscriptions/");
            key.push_str(&subscription.to_lowercase());
        }
        key.push_str(match self.sub_queue {
            SubQueue::Main => "",
            SubQueue::DeadLetter => "/$deadletterqueue",
            SubQueue::TransferDeadLetter => "/$transfer/$deadletterqueue",
        });
        key
    }
}

/// Why text is no address of anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AddressError {
    /// Nothing but separators or suffixes.
    #[error("the address names no entity")]
    Empty,
    /// See [`ADDRESS_BYTES_MAX`].
    #[error("the address is longer than {ADDRESS_BYTES_MAX} bytes")]
    TooLong,
    /// A segment that starts with `$` and is none of the known ones.
    #[error("the address ends in an unknown sub-queue")]
    UnknownSubQueue,
}

/// Reads an address as written; suffixes are taken off from the right.
///
/// # Errors
/// [`AddressError`]; never panics.
pub(crate) fn parse(address: &str) -> Result<Address, AddressError> {
    if address.len() > ADDRESS_BYTES_MAX {
        return Err(AddressError::TooLong);
    }
    let path = without_authority(address).trim_matches('/');
    if is(path, "$cbs") {
        return Ok(Address::Cbs);
    }
    let mut segments: Vec<&str> = path.split('/').collect();
    let management = pop(&mut segments, "$management");
    let mut sub_queue = SubQueue::Main;
    if pop(&mut segments, "$deadletterqueue") {
        sub_queue =
            if pop(&mut segments, "$transfer") { SubQueue::TransferDeadLetter } else { SubQueue::DeadLetter };
    }
    let mut subscription = None;
    if let [topic @ .., keyword, name] = segments.as_slice()
        && !topic.is_empty()
        && is(keyword, "subscriptions")
    {
        subscription = Some((*name).to_owned());
        segments = topic.to_vec();
    }
    if segments.iter().any(|segment| segment.starts_with('$')) {
        return Err(AddressError::UnknownSubQueue);
    }
    let name = segments.join("/");
    if name.is_empty() || subscription.as_deref() == Some("") {
        return Err(AddressError::Empty);
    }
    Ok(Address::Entity(EntityAddress { name, subscription, sub_queue, management }))
}

/// The address with `%xx` decoded, when that changes it and gives UTF-8. .NET encodes what it sends; names can't
/// contain `%`, so a reader tries the raw text first and this second.
#[must_use]
pub(crate) fn percent_decoded(address: &str) -> Option<String> {
    if !address.contains('%') || address.len() > ADDRESS_BYTES_MAX {
        return None;
    }
    let decoded = percent_decode_str(address).decode_utf8().ok()?;
    (decoded != address).then(|| decoded.into_owned())
}

fn without_authority(address: &str) -> &str {
    match address.split_once("://") {
        Some((scheme, rest)) if !scheme.contains('/') => rest.split_once('/').map_or("", |(_, path)| path),
        _ => address,
    }
}

fn pop(segments: &mut Vec<&str>, word: &str) -> bool {
    let found = segments.last().is_some_and(|last| is(last, word));
    if found {
        segments.pop();
    }
    found
}

fn is(text: &str, word: &str) -> bool {
    text.eq_ignore_ascii_case(word)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entity(name: &str, sub_queue: SubQueue, management: bool) -> Address {
        Address::Entity(EntityAddress { name: name.into(), subscription: None, sub_queue, management })
    }

    #[test]
    fn reads_every_form_the_sdks_send() {
        let main = entity("my/queue", SubQueue::Main, false);
        for text in ["my/queue", "/my/queue", "my/queue/", "amqps://host:5671/my/queue", "sb://host/my/queue"]
        {
            assert_eq!(parse(text).unwrap(), main, "{text}");
        }
        assert_eq!(parse("q/$management").unwrap(), entity("q", SubQueue::Main, true));
        assert_eq!(parse("q/$DeadLetterQueue").unwrap(), entity("q", SubQueue::DeadLetter, false));
        assert_eq!(parse("Q/$deadletterqueue/$Management").unwrap(), entity("Q", SubQueue::DeadLetter, true));
        assert_eq!(
            parse("q/$Transfer/$DeadLetterQueue/$management").unwrap(),
            entity("q", SubQueue::TransferDeadLetter, true)
        );
        assert_eq!(parse("$CBS").unwrap(), Address::Cbs);
        assert_eq!(parse("amqp://h/$cbs").unwrap(), Address::Cbs);
    }

    #[test]
    fn reads_subscriptions() {
        let Address::Entity(read) = parse("amqp://h/a/b/subscriptions/S/$DeadLetterQueue").unwrap() else {
            panic!("an entity");
        };
        assert_eq!((read.name.as_str(), read.subscription.as_deref()), ("a/b", Some("S")));
        assert_eq!(read.key(), "a/b/subscriptions/s/$deadletterqueue");
        assert_eq!(parse("subscriptions/s").unwrap(), entity("subscriptions/s", SubQueue::Main, false));
    }

    #[test]
    fn refuses_what_names_nothing() {
        assert_eq!(parse(""), Err(AddressError::Empty));
        assert_eq!(parse("amqp://host"), Err(AddressError::Empty));
        assert_eq!(parse("/$management"), Err(AddressError::Empty));
        assert_eq!(parse("q/$Nowhere"), Err(AddressError::UnknownSubQueue));
        assert_eq!(parse("q/$DeadLetterQueue/$DeadLetterQueue"), Err(AddressError::UnknownSubQueue));
        assert_eq!(parse(&"x".repeat(ADDRESS_BYTES_MAX + 1)), Err(AddressError::TooLong));
    }

    #[test]
    fn decodes_percent_only_when_it_is_sound() {
        assert_eq!(percent_decoded("/my%20queue").as_deref(), Some("/my queue"));
        assert_eq!(percent_decoded("a%2"), None);
        assert_eq!(percent_decoded("a%zz"), None);
        assert_eq!(percent_decoded("%ff"), None);
        assert_eq!(percent_decoded("plain"), None);
    }

    proptest! {
        #[test]
        fn never_panics(text in "\\PC{0,60}") {
            let _ = (parse(&text), percent_decoded(&text));
        }

        #[test]
        fn never_panics_on_address_like_text(parts in prop::collection::vec(
            prop_oneof!["[a-z%$:/]{0,4}", Just("/$management".to_owned()), Just("/$Transfer".to_owned()),
                Just("/$DeadLetterQueue".to_owned()), Just("/Subscriptions/".to_owned()), Just("amqp://".to_owned())],
            0..8,
        )) {
            let text = parts.concat();
            if let Ok(Address::Entity(read)) = parse(&text) {
                prop_assert!(!read.name.is_empty());
                prop_assert_eq!(read.key(), read.key().to_lowercase());
            }
        }
    }
}
