//! Checks the number of declared entities against the limits.

use peeklock_engine::RuleLimits;

use super::Report;
use super::place::Step;
use crate::config::Config;

/// Reports numbers that a start would refuse. `is_stored`: stored entities are kept even beyond the limits.
pub(super) fn check(config: &Config, is_stored: bool, report: &Report<'_>) {
    let tell = |steps: &[Step<'_>], what: String| {
        if is_stored {
            report.note(steps, format!("{what}; a start is refused unless they are stored"));
        } else {
            report.problem(steps, what);
        }
    };
    let declared = config.queues.len() + config.topics.len();
    let most = config.limits.entities_max;
    if u64::try_from(declared).is_ok_and(|declared| declared > most) {
        let what =
            format!("{declared} queues and topics are declared, and limits.entities_max allows {most}");
        tell(&[Step::Key("limits"), Step::Key("entities_max")], what);
    }
    let RuleLimits { subscriptions_per_topic: most, .. } = config.limits.rules;
    for topic in config.topics.iter().filter(|topic| topic.subscriptions.len() > most) {
        let declared = topic.subscriptions.len();
        let what = format!(
            "topic \"{}\": {declared} subscriptions are declared, and limits.subscriptions_per_topic allows {most}",
            topic.name
        );
        tell(&[Step::Key("limits"), Step::Key("subscriptions_per_topic")], what);
    }
}
