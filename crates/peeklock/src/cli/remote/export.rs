//! `peeklock export`

use clap::Args;
use peeklock_client::{Admin, EntityKind, Found, Options};
use peeklock_engine::AuthorizationRule;

use super::text::counted;
use super::{ConnectionArgs, Failure, ls, missing, output};
use crate::config::{
    FileConfig, QueueConfig, SubscriptionConfig, TopicConfig, ambiguous_parameters, to_toml,
};

pub(super) const EXAMPLES: &str = "\
Examples:
  peeklock export > entities.toml
  peeklock export 'orders*' > orders.toml
  peeklock export -c \"$AZURE_CONNECTION\" > entities.toml    from Azure Service Bus; then
  peeklock apply entities.toml                               into a broker, or
  peeklock serve --config entities.toml                      as a broker's configuration";

/// What to export.
#[derive(Debug, Args)]
pub(in crate::cli) struct ExportArgs {
    /// Only queues and topics whose name matches: * is any text, ? one character.
    #[arg(value_name = "PATTERN")]
    pattern: Option<String>,

    #[command(flatten)]
    connection: ConnectionArgs,
}

pub(super) async fn run(args: ExportArgs) -> Result<(), Failure> {
    let admin = args.connection.admin()?;
    let found = ls::matching(&admin, args.pattern.as_deref()).await?;
    let mut file = FileConfig::default();
    let mut keys = 0;
    for found in found.iter().filter(|found| found.kind != EntityKind::Subscription) {
        match options(&admin, &found.path).await? {
            Options::Queue(options) => {
                keys += count(&options.authorization_rules);
                file.queues.push(QueueConfig { name: found.path.clone(), options: *options });
            }
            Options::Topic(options) => {
                keys += count(&options.authorization_rules);
                let subscriptions = subscriptions(&admin, &found.path).await?;
                file.topics.push(TopicConfig { name: found.path.clone(), options: *options, subscriptions });
            }
            Options::Subscription(_) => {}
        }
    }
    output::text(to_toml(&file));
    if keys > 0 {
        output::note(format!(
            "{keys} shared access rules of entities were left out: their keys belong into no output"
        ));
    }
    refuse_ambiguous(&file)
}

/// Refuses rules that a file can't express, naming them.
fn refuse_ambiguous(file: &FileConfig) -> Result<(), Failure> {
    let subscriptions =
        file.topics.iter().flat_map(|topic| topic.subscriptions.iter().map(move |one| (&topic.name, one)));
    let rules =
        subscriptions.flat_map(|(topic, one)| one.rules.iter().map(move |rule| (topic, &one.name, rule)));
    let mut ambiguous = 0;
    for (topic, subscription, rule) in rules {
        let names = ambiguous_parameters(rule);
        if names.is_empty() {
            continue;
        }
        ambiguous += 1;
        output::note(format!(
            "rule {} of {topic}/Subscriptions/{subscription}: filter and action have different values for {}, and a file has \
             one; it has the filter's",
            rule.name,
            names.join(", ")
        ));
    }
    match ambiguous {
        0 => Ok(()),
        count => Err(Failure::new(format!("{} could not be written as they are", counted(count, "rule")))),
    }
}

fn count(rules: &[AuthorizationRule]) -> usize {
    rules.len()
}

async fn options(admin: &Admin, path: &str) -> Result<Options, Failure> {
    let options = admin.options(path).await.map_err(|error| Failure::about(path, error))?;
    options.ok_or_else(|| missing(path))
}

/// The subscriptions of a topic with their rules.
pub(super) async fn subscriptions(admin: &Admin, topic: &str) -> Result<Vec<SubscriptionConfig>, Failure> {
    let mut subscriptions = Vec::new();
    for Found { path, described, .. } in admin.subscriptions(topic).await? {
        // A JMS client created it and will delete it.
        if described.get("IsClientAffine") == Some("true") {
            continue;
        }
        let rules = admin.rules(&path).await.map_err(|error| Failure::about(&path, error))?;
        if let Options::Subscription(options) = options(admin, &path).await? {
            let name = path.rsplit('/').next().unwrap_or_default().to_owned();
            subscriptions.push(SubscriptionConfig { name, options: *options, rules });
        }
    }
    Ok(subscriptions)
}
