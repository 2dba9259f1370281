//! The rules of the topic's subscriptions: the outcome of each for a message, and the identity of its copies.

use peeklock_engine::{
    CorrelationFilter, DEFAULT_RULE, Failure, Filter, PropertyValue, Received, Rule, RuleProperties,
    SqlAction, SqlFilter, Timestamp,
};

/// Labels of messages, by flavour.
const LABELS: [Option<&str>; 3] = [Some("x"), Some("y"), None];

/// Names of rules; those with actions are evaluated in this order.
pub(super) const RULES: [&str; 9] =
    [DEFAULT_RULE, "acts", "acts on y", "fails", "fails to act on x", "is x", "nothing", "x", "y"];

/// What a subscription gets of a message, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Share {
    /// A copy as it was sent.
    Plain,
    /// A copy changed by the action of this rule.
    Changed(usize),
    /// A dead letter, because a rule failed.
    Failed,
}

impl Share {
    /// All possible values.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        [Self::Plain, Self::Failed].into_iter().chain((0..RULES.len()).map(Self::Changed))
    }

    /// Text that identifies the copy among all others.
    pub(super) fn of(self, content: &str) -> String {
        match self {
            Self::Plain => content.to_owned(),
            Self::Changed(rule) => format!("{content} by {}", RULES[rule]),
            Self::Failed => format!("{content} failed"),
        }
    }
}

/// The outcome of a rule for a message of this flavour.
pub(super) fn says(rule: usize, flavour: usize) -> Option<Share> {
    let label = LABELS[flavour];
    match RULES[rule] {
        DEFAULT_RULE => Some(Share::Plain),
        "acts" => Some(Share::Changed(rule)),
        "acts on y" => (label == Some("y")).then_some(Share::Changed(rule)),
        "fails" => label.is_some().then_some(Share::Failed),
        "fails to act on x" => (label == Some("x")).then_some(Share::Failed),
        "is x" => (label == Some("x")).then_some(Share::Plain),
        name => (label == Some(name)).then_some(Share::Plain),
    }
}

/// Only a message with a label has rule properties.
pub(super) fn rule_properties(flavour: usize) -> Option<RuleProperties> {
    let label = LABELS[flavour]?;
    let user = vec![("n".into(), PropertyValue::Integer(flavour as i64))];
    Some(RuleProperties { label: Some(label.into()), user, ..RuleProperties::default() })
}

pub(super) fn rule(index: usize) -> Rule {
    let sql = |condition| Filter::Sql(Box::new(SqlFilter::new(condition, Vec::new()).unwrap()));
    let correlation = |label: &str| {
        let label = Some(label.into());
        Filter::Correlation(Box::new(CorrelationFilter { label, ..CorrelationFilter::default() }))
    };
    let (filter, action) = match RULES[index] {
        DEFAULT_RULE => (Filter::True, None),
        "acts" => (Filter::True, Some("SET id = newid()")),
        "acts on y" => (correlation("y"), Some("SET sys.Label = sys.Label + '!'; REMOVE n")),
        "fails" => (sql("n / 0 = 1"), None),
        "fails to act on x" => (sql("sys.Label = 'x'"), Some("SET n = n / 0")),
        "is x" => (sql("sys.Label LIKE 'x%' AND n >= 0"), None),
        "nothing" => (Filter::False, None),
        label => (correlation(label), None),
    };
    let action = action.map(|action| SqlAction::new(action, Vec::new()).unwrap());
    Rule { name: RULES[index].into(), filter, action, created_at: Timestamp::default() }
}

/// The identity of a message, as [`Share::of`] returns it: its body, with the rule that it names or its failure. A changed
/// copy
/// must have all the changes of its rule.
pub(super) fn identity(message: &Received) -> String {
    let content = String::from_utf8(message.content.to_vec()).expect("sent bodies are text");
    let failures = [Some(Failure::FILTER), Some(Failure::ACTION)];
    let why = message.view.dead_letter.as_ref().and_then(|why| why.reason.as_deref());
    if failures.contains(&why) {
        assert_eq!(message.view.changes, None, "{content} failed and was changed");
        return Share::Failed.of(&content);
    }
    let Some(changes) = &message.view.changes else { return content };
    let name = changes.user.iter().find_map(|(name, value)| match value {
        Some(PropertyValue::Text(rule)) if &**name == "RuleName" => Some(rule),
        _ => None,
    });
    let name = name.unwrap_or_else(|| panic!("no rule changed {content}: {changes:?}"));
    let whole = match &**name {
        "acts" => matches!(&changes.user[..], [(id, Some(PropertyValue::Uuid(_))), _] if &**id == "id"),
        "acts on y" => {
            let label = &changes.texts[..];
            matches!(label, [(_, Some(label))] if &**label == "y!") && changes.user[0] == ("n".into(), None)
        }
        _ => false,
    };
    assert!(whole, "{content} was changed otherwise: {changes:?}");
    Share::Changed(RULES.iter().position(|known| *known == &**name).expect("a rule")).of(&content)
}
