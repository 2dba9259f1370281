//! Runs every parser of descriptions on the same bytes.

use peeklock_engine::partition::Counts;
use peeklock_engine::schema::OptionSet;
use peeklock_engine::{QueueOptions, SubscriptionOptions, Timestamp, TopicOptions};

use super::details::EntityDetails;
use super::properties::{self, Audience, Reading};
use super::xml::{Document, Element, parse};
use super::{action, filter, orders};
use crate::Limits;

/// Reads a body as every kind of description, and writes the results.
pub(crate) fn exercise(input: &[u8]) {
    let Ok(root) = parse(input) else { return };
    each(&root);
}

fn each(element: &Element) {
    let mut document = Document::new();
    options::<QueueOptions>(&mut document, element, orders::QUEUE);
    options::<TopicOptions>(&mut document, element, orders::TOPIC);
    options::<SubscriptionOptions>(&mut document, element, orders::SUBSCRIPTION);
    if let Ok(read) = filter::read(element) {
        filter::write(&mut document, &read);
    }
    if let Ok(read) = action::read(element) {
        action::write(&mut document, read.as_ref());
    }
    // The depth of a document is bounded.
    element.children.iter().for_each(each);
}

fn options<O: OptionSet>(document: &mut Document, element: &Element, order: &[&str]) {
    let (limits, now) = (&Limits::default(), Timestamp::default());
    let details = EntityDetails {
        times: Default::default(),
        accessed_at: None,
        counts: Counts::default(),
        is_damaged: false,
        subscriptions: 0,
        sql_filters: 0,
        correlation_filters: 0,
    };
    let audience = Audience { host: "localhost", api_version: "2024-05" };
    let reading = Reading::<O> { limits, namespace: "localhost", now, current: None, is_patch: false };
    if let Ok(options) = reading.options(element) {
        properties::write(document, order, (&options, &details), &audience);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_of_the_sdks_cut_anywhere_are_survived() {
        for body in [
            include_str!("tests/bodies/python-queue.xml"),
            include_str!("tests/bodies/python-rule.xml"),
            include_str!("tests/bodies/js-rule.xml"),
            include_str!("tests/bodies/python-sql-rule.xml"),
            include_str!("tests/bodies/js-sql-rule.xml"),
        ] {
            for end in 0..body.len() {
                exercise(&body.as_bytes()[..end]);
                exercise(&body.as_bytes()[end..]);
            }
            exercise(body.as_bytes());
        }
    }
}
