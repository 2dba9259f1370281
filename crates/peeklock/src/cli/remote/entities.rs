//! `peeklock create`, `update` and `delete`

use clap::{Args, ValueEnum};
use peeklock_client::{Admin, EntityKind, Options};
use peeklock_engine::Tier;
use serde_json::json;

use super::address::{Address, whole};
use super::declaring::{self, Setting, setting};
use super::{ConnectionArgs, Failure, missing, output};
use crate::config::{FileConfig, quoted};

pub(super) const CREATE_EXAMPLES: &str = "\
Examples:
  peeklock create queue orders
  peeklock create queue orders lock_duration=PT1M requires_session=true max_delivery_count=5
  peeklock create topic news
  peeklock create subscription news/Subscriptions/all
Options have the names of config/peeklock.toml, or Service Bus's (LockDuration).";

pub(super) const UPDATE_EXAMPLES: &str = "\
Examples:
  peeklock update orders lock_duration=PT30S max_delivery_count=3
  peeklock update orders status=ReceiveDisabled
Other options keep their values.";

pub(super) const DELETE_EXAMPLES: &str = "\
Examples:
  peeklock delete orders --dry-run      what would be lost?
  peeklock delete news/Subscriptions/all";

/// What to create.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum KindArg {
    /// A queue.
    Queue,
    /// A topic.
    Topic,
    /// A subscription of a topic.
    Subscription,
}

/// What to create.
#[derive(Debug, Args)]
pub(in crate::cli) struct CreateArgs {
    /// The kind of entity.
    #[arg(value_enum)]
    kind: KindArg,

    /// Its name; for a subscription topic/Subscriptions/name.
    #[arg(value_name = "NAME", value_parser = whole)]
    address: Address,

    /// Options that differ from their defaults.
    #[arg(value_name = "OPTION=VALUE", value_parser = setting)]
    settings: Vec<Setting>,

    #[command(flatten)]
    connection: ConnectionArgs,
}

/// What to change.
#[derive(Debug, Args)]
pub(in crate::cli) struct UpdateArgs {
    /// Queue, topic or subscription (topic/Subscriptions/name).
    #[arg(value_name = "ENTITY", value_parser = whole)]
    address: Address,

    /// Options and their new values.
    #[arg(value_name = "OPTION=VALUE", value_parser = setting, required = true)]
    settings: Vec<Setting>,

    #[command(flatten)]
    connection: ConnectionArgs,
}

/// What to delete.
#[derive(Debug, Args)]
pub(in crate::cli) struct DeleteArgs {
    /// Queue, topic or subscription (topic/Subscriptions/name), with all messages in it.
    #[arg(value_name = "ENTITY", value_parser = whole)]
    address: Address,

    /// Only show what would be deleted.
    #[arg(long)]
    dry_run: bool,

    /// Print the result as JSON.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    connection: ConnectionArgs,
}

pub(super) async fn create(args: CreateArgs) -> Result<(), Failure> {
    let kind = match args.kind {
        KindArg::Queue => EntityKind::Queue,
        KindArg::Topic => EntityKind::Topic,
        KindArg::Subscription => EntityKind::Subscription,
    };
    let admin = args.connection.admin()?;
    let tier = tier(&admin).await;
    let options = written(kind, &args.address, &args.settings, tier)?;
    let path = &args.address.entity;
    let created = admin.create(path, &options, tier, None).await;
    created.map_err(|error| Failure::about(path, error))?;
    output::line(format!("created {} {path}", kind.name()));
    Ok(())
}

pub(super) async fn update(args: UpdateArgs) -> Result<(), Failure> {
    let admin = args.connection.admin()?;
    let path = &args.address.entity;
    let about = |error| Failure::about(path, error);
    let current = admin.options(path).await.map_err(about)?.ok_or_else(|| missing(path))?;
    let kind = match &current {
        Options::Queue(_) => EntityKind::Queue,
        Options::Topic(_) => EntityKind::Topic,
        Options::Subscription(_) => EntityKind::Subscription,
    };
    let tier = tier(&admin).await;
    let written = written(kind, &args.address, &args.settings, tier)?;
    let updated = declaring::with_settings(current.clone(), &written, &args.settings);
    if updated == current {
        output::line(format!("{path} has these values already"));
        return Ok(());
    }
    admin.update(path, &updated, tier).await.map_err(about)?;
    output::line(format!("updated {path}"));
    Ok(())
}

pub(super) async fn delete(args: DeleteArgs) -> Result<(), Failure> {
    let admin = args.connection.admin()?;
    let path = &args.address.entity;
    let about = |error| Failure::about(path, error);
    let found = admin.find(path).await.map_err(about)?.ok_or_else(|| missing(path))?;
    let counts = found.described.counts();
    let messages = counts.active + counts.scheduled + counts.dead_letter + counts.transfer_dead_letter;
    if !args.dry_run {
        admin.delete(path).await.map_err(about)?;
    }
    if args.json {
        output::json_line(
            &json!({ "path": path, "kind": found.kind.name(), "messages": messages, "deleted": !args.dry_run }),
        );
    } else {
        let verb = if args.dry_run { "would delete" } else { "deleted" };
        let messages = super::text::counted(messages, "message");
        output::line(format!("{verb} {} {path} with {messages}", found.kind.name()));
    }
    Ok(())
}

/// The tier of the namespace: Premium, which has every option, if the namespace does not tell.
pub(super) async fn tier(admin: &Admin) -> Tier {
    admin.tier().await.ok().flatten().unwrap_or_default()
}

/// The options declared on the command line, for a namespace of this tier.
fn written(
    kind: EntityKind,
    address: &Address,
    settings: &[Setting],
    tier: Tier,
) -> Result<Options, Failure> {
    let lines = declaring::lines(settings);
    let toml = match (kind, address.subscription()) {
        (EntityKind::Queue, None) => format!("[[queues]]\nname = {}\n{lines}", quoted(&address.entity)),
        (EntityKind::Topic, None) => format!("[[topics]]\nname = {}\n{lines}", quoted(&address.entity)),
        (EntityKind::Subscription, Some((topic, name))) => format!(
            "[[topics]]\nname = {}\n[[topics.subscriptions]]\nname = {}\n{lines}",
            quoted(&topic),
            quoted(&name)
        ),
        (EntityKind::Subscription, None) => {
            return Err(Failure::usage("a subscription's name is topic/Subscriptions/name"));
        }
        (EntityKind::Queue | EntityKind::Topic, Some(_)) => {
            return Err(Failure::usage(format!("{} is the name of a subscription", address.entity)));
        }
    };
    let FileConfig { mut queues, mut topics, .. } = declaring::parse(&toml, tier)?;
    let found = match kind {
        EntityKind::Queue => queues.pop().map(|queue| Options::Queue(Box::new(queue.options))),
        EntityKind::Topic => topics.pop().map(|topic| Options::Topic(Box::new(topic.options))),
        EntityKind::Subscription => {
            let subscription = topics.pop().and_then(|mut topic| topic.subscriptions.pop());
            subscription.map(|subscription| Options::Subscription(Box::new(subscription.options)))
        }
    };
    found.ok_or_else(|| Failure::usage("nothing is declared"))
}
