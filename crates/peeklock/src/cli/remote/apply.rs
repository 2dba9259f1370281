//! `peeklock apply`

use std::path::PathBuf;

use clap::Args;
use peeklock_client::{Admin, Options};
use peeklock_engine::{Rule, Tier, same_name};
use serde_json::json;

use super::plan::{Plan, Step, rule_text};
use super::text::counted;
use super::{ConnectionArgs, Failure, entities, export, output};
use crate::config::{self, FileConfig, SubscriptionConfig, TopicConfig};

pub(super) const EXAMPLES: &str = "\
Examples:
  peeklock apply entities.toml --diff     what would change?
  peeklock apply entities.toml            create and change what differs
  peeklock apply entities.toml --prune    and delete entities that the file doesn't have
The file is a configuration file (config/peeklock.toml) or the emulator's Config.json; its queues, topics, subscriptions and rules
count. Applying it twice changes nothing the second time.";

/// What to apply.
#[derive(Debug, Args)]
pub(in crate::cli) struct ApplyArgs {
    /// The file with the entities: TOML, or the emulator's if its name ends with .json.
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Only show what would change.
    #[arg(long, visible_alias = "dry-run")]
    diff: bool,

    /// Delete queues, topics and subscriptions that the file doesn't have, with their messages.
    #[arg(long)]
    prune: bool,

    /// Print one JSON object per change.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    connection: ConnectionArgs,
}

pub(super) async fn run(args: ApplyArgs) -> Result<(), Failure> {
    let admin = args.connection.admin()?;
    let tier = entities::tier(&admin).await;
    let file = config::load_for(&args.file, tier).map_err(|problems| Failure::usage(problems.to_string()))?;
    let plan = plan(&admin, &file, args.prune).await?;
    for step in &plan.steps {
        if args.json {
            output::json_line(
                &json!({ "change": step.verb(), "path": step.path(), "details": step.details(), "applied": !args.diff }),
            );
        } else {
            output::line(format!("{} {}", step.sign(), step.title()));
            step.details().iter().for_each(|detail| output::line(format!("    {detail}")));
        }
    }
    if !args.diff {
        for step in &plan.steps {
            carry_out(&admin, tier, step).await?;
        }
    }
    if !args.json {
        let changes = counted(u64::try_from(plan.steps.len()).unwrap_or(u64::MAX), "change");
        match (plan.steps.is_empty(), args.diff) {
            (true, _) => output::line("nothing to change"),
            (false, true) => output::line(format!("{changes} to be made")),
            (false, false) => output::line(format!("{changes} made")),
        }
    }
    Ok(())
}

async fn plan(admin: &Admin, file: &FileConfig, prunes: bool) -> Result<Plan, Failure> {
    let tier = file.namespace.tier;
    let mut plan = Plan::default();
    for queue in &file.queues {
        let options = Options::Queue(Box::new(tier.complete(queue.options.clone())));
        let current = admin.options(&queue.name).await?;
        plan.entity(&queue.name, current, options, None)?;
    }
    for topic in &file.topics {
        let options = Options::Topic(Box::new(tier.complete(topic.options.clone())));
        let current = admin.options(&topic.name).await?;
        let existing = match &current {
            Some(_) => export::subscriptions(admin, &topic.name).await?,
            None => Vec::new(),
        };
        plan.entity(&topic.name, current, options, None)?;
        subscriptions(&mut plan, topic, &existing)?;
        if prunes {
            let is_declared = |known: &&SubscriptionConfig| {
                topic.subscriptions.iter().any(|subscription| same_name(&subscription.name, &known.name))
            };
            let others = existing.iter().filter(|known| !is_declared(known));
            plan.steps.extend(others.map(|known| Step::Delete { path: path_of(topic, &known.name) }));
        }
    }
    if prunes {
        let names = file.queues.iter().map(|queue| &queue.name);
        let names: Vec<&String> = names.chain(file.topics.iter().map(|topic| &topic.name)).collect();
        for found in admin.list().await? {
            let is_inside = found.kind == peeklock_client::EntityKind::Subscription;
            if !is_inside && !names.iter().any(|name| same_name(name, &found.path)) {
                plan.steps.push(Step::Delete { path: found.path });
            }
        }
    }
    plan.finish();
    Ok(plan)
}

fn path_of(topic: &TopicConfig, subscription: &str) -> String {
    format!("{}/Subscriptions/{subscription}", topic.name)
}

fn subscriptions(
    plan: &mut Plan,
    topic: &TopicConfig,
    existing: &[SubscriptionConfig],
) -> Result<(), Failure> {
    for subscription in &topic.subscriptions {
        let path = path_of(topic, &subscription.name);
        let known = existing.iter().find(|known| same_name(&known.name, &subscription.name));
        let current = known.map(|known| Options::Subscription(Box::new(known.options.clone())));
        let options = Options::Subscription(Box::new(subscription.options.clone()));
        plan.entity(&path, current, options, subscription.rules.first())?;
        match known {
            Some(known) => rules(plan, &path, &known.rules, &subscription.rules),
            None => new_rules(plan, &path, &subscription.rules),
        }
    }
    Ok(())
}

/// Rules for a new subscription, which already has its first rule, or the one that matches everything.
fn new_rules(plan: &mut Plan, path: &str, rules: &[Rule]) {
    if rules.is_empty() {
        let name = peeklock_engine::DEFAULT_RULE.to_owned();
        plan.steps.push(Step::RemoveRule { path: path.to_owned(), name });
    }
    let others = rules.iter().skip(1);
    plan.steps.extend(others.map(|rule| Step::AddRule { path: path.to_owned(), rule: rule.clone() }));
}

fn rules(plan: &mut Plan, path: &str, existing: &[Rule], declared: &[Rule]) {
    for rule in declared {
        let known = existing.iter().find(|known| same_name(&known.name, &rule.name));
        let (path, rule) = (path.to_owned(), rule.clone());
        match known {
            None => plan.steps.push(Step::AddRule { path, rule }),
            Some(known) if rule_text(known) != rule_text(&rule) => {
                plan.steps.push(Step::ReplaceRule { path, rule, before: rule_text(known) });
            }
            Some(_) => {}
        }
    }
    let is_declared = |known: &&Rule| declared.iter().any(|rule| same_name(&rule.name, &known.name));
    for known in existing.iter().filter(|known| !is_declared(known)) {
        plan.steps.push(Step::RemoveRule { path: path.to_owned(), name: known.name.to_string() });
    }
}

async fn carry_out(admin: &Admin, tier: Tier, step: &Step) -> Result<(), Failure> {
    let done = match step {
        Step::Create { path, options, rule } => admin.create(path, options, tier, rule.as_ref()).await,
        Step::Update { path, options, .. } => admin.update(path, options, tier).await,
        Step::Delete { path } => admin.delete(path).await,
        Step::AddRule { path, rule } => admin.put_rule(path, rule, false).await,
        Step::ReplaceRule { path, rule, .. } => admin.put_rule(path, rule, true).await,
        Step::RemoveRule { path, name } => admin.delete(&format!("{path}/Rules/{name}")).await,
    };
    done.map_err(|error| Failure::about(&step.title(), error))
}
