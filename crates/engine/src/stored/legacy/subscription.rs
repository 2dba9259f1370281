//! Subscriptions: version 1 was written before administration existed, version 2 before rules had actions.

use std::sync::Arc;

use serde::Deserialize;

use super::options::{self, Times};
use super::rule::{RuleWithAction, RuleWithoutAction};
use super::{read_fields, unknown, version};
use crate::{EntityTimes, QueueId, Rule, Subscription, SubscriptionOptions};

#[derive(Deserialize)]
struct Version3 {
    name: Box<str>,
    times: Times,
    options: options::Subscription,
    rules: Vec<RuleWithAction>,
}

#[derive(Deserialize)]
struct Version2 {
    name: Box<str>,
    times: Times,
    options: options::Subscription,
    rules: Vec<RuleWithoutAction>,
}

#[derive(Deserialize)]
struct Version1 {
    name: Box<str>,
    options: OptionsVersion1,
    rules: Vec<RuleWithoutAction>,
}

#[derive(Deserialize)]
struct OptionsVersion1 {
    lock_duration_ms: u64,
    max_delivery_count: u32,
    default_message_time_to_live_ms: Option<u64>,
    dead_lettering_on_message_expiration: bool,
    dead_lettering_on_filter_evaluation_exceptions: bool,
    requires_session: bool,
    auto_delete_on_idle_ms: Option<u64>,
}

impl From<OptionsVersion1> for SubscriptionOptions {
    fn from(options: OptionsVersion1) -> Self {
        let on_failure = options.dead_lettering_on_filter_evaluation_exceptions;
        Self {
            lock_duration_ms: options.lock_duration_ms,
            max_delivery_count: options.max_delivery_count,
            default_message_time_to_live_ms: options.default_message_time_to_live_ms,
            dead_lettering_on_message_expiration: options.dead_lettering_on_message_expiration,
            dead_lettering_on_filter_evaluation_exceptions: on_failure,
            requires_session: options.requires_session,
            auto_delete_on_idle_ms: options.auto_delete_on_idle_ms,
            ..Self::default()
        }
    }
}

pub(in crate::stored) fn read_subscription(queue: QueueId, bytes: &[u8]) -> Result<Subscription, String> {
    let (name, times, options, rules) = match version(bytes)? {
        1 => {
            let Version1 { name, options, rules } = read_fields(bytes)?;
            (name, EntityTimes::default(), options.into(), rules.into_iter().map(Into::into).collect())
        }
        2 => {
            let Version2 { name, times, options, rules } = read_fields(bytes)?;
            (name, times.into(), options.into(), rules.into_iter().map(Into::into).collect())
        }
        3 => {
            let Version3 { name, times, options, rules } = read_fields(bytes)?;
            (name, times.into(), options.into(), rules)
        }
        other => return unknown(other),
    };
    let rules: Vec<RuleWithAction> = rules;
    let rules = rules.into_iter().map(|stored| Rule::try_from(stored).map(Arc::new));
    let rules =
        rules.collect::<Result<_, _>>().map_err(|reason| format!("subscription '{name}': {reason}"))?;
    Ok(Subscription { queue, name, times, options, rules })
}
