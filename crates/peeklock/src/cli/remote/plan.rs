//! The changes that give a namespace the entities declared in a file.

use peeklock_client::Options;
use peeklock_engine::schema::{EntityOption, OPTIONS, OptionKind, OptionSet};
use peeklock_engine::{QueueOptions, Rule, SubscriptionOptions, TopicOptions};

use super::Failure;
use crate::config::{FileConfig, SubscriptionConfig, TopicConfig, option_text, to_toml};

/// One change.
#[derive(Debug, Clone)]
pub(super) enum Step {
    /// Creates an entity.
    Create {
        /// Its path.
        path: String,
        /// Its options.
        options: Options,
        /// The first rule of a subscription.
        rule: Option<Rule>,
    },
    /// Changes options.
    Update {
        /// The path of the entity.
        path: String,
        /// All of its options.
        options: Options,
        /// Name, old and new value of each changed option.
        changes: Vec<String>,
    },
    /// Deletes an entity that the file does not declare.
    Delete {
        /// Its path.
        path: String,
    },
    /// Adds a rule.
    AddRule {
        /// The subscription.
        path: String,
        /// The rule.
        rule: Rule,
    },
    /// Replaces a rule.
    ReplaceRule {
        /// The subscription.
        path: String,
        /// The new rule.
        rule: Rule,
        /// The old rule.
        before: String,
    },
    /// Removes a rule that the file does not declare.
    RemoveRule {
        /// The subscription.
        path: String,
        /// Its name.
        name: String,
    },
}

impl Step {
    /// The kind of change in one word.
    pub(super) fn verb(&self) -> &'static str {
        match self {
            Self::Create { .. } => "create",
            Self::Update { .. } => "update",
            Self::Delete { .. } => "delete",
            Self::AddRule { .. } => "add rule",
            Self::ReplaceRule { .. } => "replace rule",
            Self::RemoveRule { .. } => "remove rule",
        }
    }

    /// The kind of change as a sign.
    pub(super) fn sign(&self) -> char {
        match self {
            Self::Create { .. } | Self::AddRule { .. } => '+',
            Self::Update { .. } | Self::ReplaceRule { .. } => '~',
            Self::Delete { .. } | Self::RemoveRule { .. } => '-',
        }
    }

    /// The path of the entity.
    pub(super) fn path(&self) -> &str {
        match self {
            Self::Create { path, .. }
            | Self::Update { path, .. }
            | Self::Delete { path }
            | Self::AddRule { path, .. }
            | Self::ReplaceRule { path, .. }
            | Self::RemoveRule { path, .. } => path,
        }
    }

    /// The change in one line.
    pub(super) fn title(&self) -> String {
        let path = self.path();
        match self {
            Self::Create { options, .. } | Self::Update { options, .. } => {
                format!("{} {path}", noun(options))
            }
            Self::Delete { .. } => path.to_owned(),
            Self::AddRule { rule, .. } | Self::ReplaceRule { rule, .. } => {
                format!("rule {} of {path}", rule.name)
            }
            Self::RemoveRule { name, .. } => format!("rule {name} of {path}"),
        }
    }

    /// Details of the change, line by line.
    pub(super) fn details(&self) -> Vec<String> {
        let lines = |text: &str| text.lines().map(str::to_owned).collect();
        match self {
            Self::Create { options, rule, .. } => {
                let mut details = match options {
                    Options::Queue(options) => set_options(&**options),
                    Options::Topic(options) => set_options(&**options),
                    Options::Subscription(options) => set_options(&**options),
                };
                details.extend(
                    rule.iter()
                        .flat_map(|rule| rule_text(rule).lines().map(str::to_owned).collect::<Vec<_>>()),
                );
                details
            }
            Self::Update { changes, .. } => changes.clone(),
            Self::AddRule { rule, .. } => lines(&rule_text(rule)),
            Self::ReplaceRule { rule, before, .. } => {
                let before = before.lines().map(|line| format!("- {line}"));
                before.chain(rule_text(rule).lines().map(|line| format!("+ {line}"))).collect()
            }
            Self::Delete { .. } | Self::RemoveRule { .. } => Vec::new(),
        }
    }
}

fn noun(options: &Options) -> &'static str {
    match options {
        Options::Queue(_) => QueueOptions::NOUN,
        Options::Topic(_) => TopicOptions::NOUN,
        Options::Subscription(_) => SubscriptionOptions::NOUN,
    }
}

fn set_options<O: OptionSet>(options: &O) -> Vec<String> {
    let default = O::default();
    let changed = OPTIONS.iter().filter(|option| !option.is_equal(options, &default));
    changed
        .filter_map(|option| Some(format!("{} = {}", option.name, option_text(option, options)?)))
        .collect()
}

/// A rule as in a configuration file, without its name; equal texts mean equal rules.
pub(super) fn rule_text(rule: &Rule) -> String {
    let subscription = SubscriptionConfig {
        name: "s".to_owned(),
        options: SubscriptionOptions::default(),
        // With a rule beside it, so that the rule that matches everything is written as well.
        rules: vec![Rule { name: "r".into(), ..rule.clone() }],
    };
    let topic = TopicConfig {
        name: "t".to_owned(),
        options: TopicOptions::default(),
        subscriptions: vec![subscription],
    };
    let text = to_toml(&FileConfig { topics: vec![topic], ..FileConfig::default() });
    let lines = text.lines().skip_while(|line| !line.contains("rules]]")).skip(2);
    lines.collect::<Vec<_>>().join("\n")
}

/// All changes in the order in which they are made.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// The changes.
    pub(super) steps: Vec<Step>,
    /// Forwarding is set after all entities exist.
    last: Vec<Step>,
}

impl Plan {
    /// Compares an entity with its declaration.
    ///
    /// # Errors
    /// The entity can't be changed to match it.
    pub(super) fn entity(
        &mut self,
        path: &str,
        current: Option<Options>,
        wanted: Options,
        rule: Option<&Rule>,
    ) -> Result<(), Failure> {
        match (current, wanted) {
            (None, wanted) => self.create(path, wanted, rule),
            (Some(Options::Queue(current)), Options::Queue(wanted)) => {
                self.change(path, *current, &*wanted, |options| Options::Queue(Box::new(options)))?;
            }
            (Some(Options::Topic(current)), Options::Topic(wanted)) => {
                self.change(path, *current, &*wanted, |options| Options::Topic(Box::new(options)))?;
            }
            (Some(Options::Subscription(current)), Options::Subscription(wanted)) => {
                self.change(path, *current, &*wanted, |options| Options::Subscription(Box::new(options)))?;
            }
            (Some(current), wanted) => {
                let (is, shall_be) = (noun(&current), noun(&wanted));
                return Err(Failure::new(format!("{path} is a {is} and can't become a {shall_be}"))
                    .advise(format!("`peeklock delete {path}` deletes it with its messages")));
            }
        }
        Ok(())
    }

    fn create(&mut self, path: &str, mut options: Options, rule: Option<&Rule>) {
        let forwarding = match &mut options {
            Options::Queue(options) => Some(&mut options.forwarding),
            Options::Subscription(options) => Some(&mut options.forwarding),
            Options::Topic(_) => None,
        };
        let wanted = forwarding.map(std::mem::take).filter(|wanted| *wanted != Default::default());
        self.steps.push(Step::Create {
            path: path.to_owned(),
            options: options.clone(),
            rule: rule.cloned(),
        });
        let Some(wanted) = wanted else { return };
        let targets = [
            ("forward_to", &wanted.forward_to),
            ("forward_dead_lettered_messages_to", &wanted.forward_dead_lettered_messages_to),
        ];
        let changes =
            targets.iter().filter_map(|(name, target)| Some(format!("{name}: {}", target.as_deref()?)));
        let changes = changes.collect();
        match &mut options {
            Options::Queue(options) => options.forwarding = wanted,
            Options::Subscription(options) => options.forwarding = wanted,
            Options::Topic(_) => {}
        }
        self.last.push(Step::Update { path: path.to_owned(), options, changes });
    }

    fn change<O: OptionSet>(
        &mut self,
        path: &str,
        current: O,
        wanted: &O,
        wrap: fn(O) -> Options,
    ) -> Result<(), Failure> {
        let mut changed = current.clone();
        let mut changes = Vec::new();
        for option in OPTIONS.iter().filter(|option| !option.is_equal(&current, wanted)) {
            if is_silent(option, wanted) {
                continue;
            }
            if option.is_fixed {
                let advice =
                    format!("`peeklock delete {path}` deletes it with its messages; then apply again");
                let reason = format!("{path}: {} is set at creation and can't change", option.name);
                return Err(Failure::new(reason).advise(advice));
            }
            option.copy(wanted, &mut changed);
            let shown = |options: &O| option_text(option, options).unwrap_or_else(|| "none".to_owned());
            changes.push(format!("{}: {} -> {}", option.name, shown(&current), shown(wanted)));
        }
        if !changes.is_empty() {
            self.last.push(Step::Update { path: path.to_owned(), options: wrap(changed), changes });
        }
        Ok(())
    }

    /// Orders the changes.
    pub(super) fn finish(&mut self) {
        let (deletions, mut steps): (Vec<Step>, Vec<Step>) =
            std::mem::take(&mut self.steps).into_iter().partition(|step| matches!(step, Step::Delete { .. }));
        steps.append(&mut self.last);
        steps.extend(deletions);
        self.steps = steps;
    }
}

/// A file without shared access rules doesn't remove any, because few files contain keys.
fn is_silent<O: OptionSet>(option: &EntityOption, wanted: &O) -> bool {
    match &option.kind {
        OptionKind::AuthorizationRules(at) => at.get(wanted).is_none_or(Vec::is_empty),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(change: impl FnOnce(&mut QueueOptions)) -> Options {
        let mut options = QueueOptions::default();
        change(&mut options);
        Options::Queue(Box::new(options))
    }

    #[test]
    fn only_differences_are_steps() {
        let mut plan = Plan::default();
        plan.entity("same", Some(queue(|_| {})), queue(|_| {}), None).unwrap();
        plan.entity("new", None, queue(|_| {}), None).unwrap();
        plan.entity("other", Some(queue(|_| {})), queue(|options| options.max_delivery_count = 3), None)
            .unwrap();
        plan.finish();
        let titles: Vec<String> =
            plan.steps.iter().map(|step| format!("{} {}", step.sign(), step.title())).collect();
        assert_eq!(titles, ["+ queue new", "~ queue other"]);
        assert_eq!(plan.steps[1].details(), ["max_delivery_count: 10 -> 3"]);
    }

    #[test]
    fn forwarding_is_set_when_its_target_exists() {
        let mut plan = Plan::default();
        let forwards = queue(|options| options.forwarding.forward_to = Some("b".into()));
        plan.entity("a", None, forwards, None).unwrap();
        plan.entity("b", None, queue(|_| {}), None).unwrap();
        plan.finish();
        let verbs: Vec<_> = plan.steps.iter().map(|step| (step.verb(), step.path().to_owned())).collect();
        let expected = [("create", "a"), ("create", "b"), ("update", "a")];
        assert_eq!(verbs, expected.map(|(verb, path)| (verb, path.to_owned())));
    }

    #[test]
    fn changes_of_immutable_options_are_refused_with_advice() {
        let mut plan = Plan::default();
        let wanted = queue(|options| options.requires_session = true);
        let failure = plan.entity("a", Some(queue(|_| {})), wanted, None).unwrap_err();
        assert!(format!("{failure:?}").contains("peeklock delete a"), "{failure:?}");
    }

    #[test]
    fn rules_are_compared_as_text() {
        assert_eq!(rule_text(&Rule::default_rule()), "filter = \"true\"");
    }
}
