//! `peeklock rule`

use clap::{Args, Subcommand};
use peeklock_engine::{CorrelationFilter, Filter, Rule, SqlAction, Timestamp, check_rule_name};
use peeklock_message::rule_properties;

use super::address::{Address, whole};
use super::properties::{Property, property};
use super::{ConnectionArgs, Failure, output, rule_test, show};

pub(super) const EXAMPLES: &str = "\
Examples:
  peeklock rule ls news/Subscriptions/eu
  peeklock rule add news/Subscriptions/eu eu --sql \"region = 'eu' AND amount > 5\"
  peeklock rule add news/Subscriptions/red red --correlation label=red --action \"SET seen = TRUE\"
  peeklock rule rm news/Subscriptions/eu '$Default'
  peeklock rule test news --subject order --prop amount:int=5
  peeklock rule test --sql \"amount > 3\" --prop amount:int=5";

/// What to do with rules.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum RuleCommand {
    /// List the rules of a subscription.
    Ls(RuleLsArgs),
    /// Add a rule, or replace one with --replace.
    Add(Box<RuleAddArgs>),
    /// Remove a rule.
    Rm(RuleRmArgs),
    /// Show which rules match a message, and the message after their actions; nothing is sent.
    Test(rule_test::RuleTestArgs),
}

/// Whose rules.
#[derive(Debug, Args)]
pub(in crate::cli) struct RuleLsArgs {
    /// The subscription: topic/Subscriptions/name.
    #[arg(value_name = "SUBSCRIPTION", value_parser = whole)]
    address: Address,

    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Which rule.
#[derive(Debug, Args)]
pub(in crate::cli) struct RuleAddArgs {
    /// The subscription: topic/Subscriptions/name.
    #[arg(value_name = "SUBSCRIPTION", value_parser = whole)]
    address: Address,

    /// Name of the rule.
    #[arg(value_name = "NAME")]
    name: String,

    /// Messages that match this condition.
    #[arg(long, value_name = "SQL", group = "filter")]
    sql: Option<String>,

    /// Messages with this value: correlation_id, message_id, to, reply_to, label, session_id, reply_to_session_id, content_type, or
    /// a property of the application (name:int=5 for another type than text). May be repeated: all must match.
    #[arg(long, value_name = "FIELD=VALUE", value_parser = property, group = "filter")]
    correlation: Vec<Property>,

    /// Every message (the default).
    #[arg(long = "true", group = "filter")]
    all: bool,

    /// No message.
    #[arg(long = "false", group = "filter")]
    none: bool,

    /// The action of the rule on the subscription's copy, such as "SET priority = 'high'".
    #[arg(long, value_name = "SQL")]
    action: Option<String>,

    /// Replace the rule of this name.
    #[arg(long)]
    replace: bool,

    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Which rule.
#[derive(Debug, Args)]
pub(in crate::cli) struct RuleRmArgs {
    /// The subscription: topic/Subscriptions/name.
    #[arg(value_name = "SUBSCRIPTION", value_parser = whole)]
    address: Address,

    /// Name of the rule.
    #[arg(value_name = "NAME")]
    name: String,

    /// Only show what would be removed.
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    connection: ConnectionArgs,
}

pub(super) async fn run(command: RuleCommand) -> Result<(), Failure> {
    match command {
        RuleCommand::Ls(args) => list(args).await,
        RuleCommand::Add(args) => add(*args).await,
        RuleCommand::Rm(args) => remove(args).await,
        RuleCommand::Test(args) => rule_test::run(args).await,
    }
}

async fn list(args: RuleLsArgs) -> Result<(), Failure> {
    let path = subscription(&args.address)?;
    let rules = args.connection.admin()?.rules(path).await.map_err(|error| Failure::about(path, error))?;
    if args.json {
        rules.iter().for_each(|rule| output::json_line(&show::rule_json(rule)));
    } else {
        show::rule_table(&rules).print();
    }
    Ok(())
}

async fn add(args: RuleAddArgs) -> Result<(), Failure> {
    let path = subscription(&args.address)?;
    check_rule_name(&args.name).map_err(|reason| {
        Failure::usage(format!("\"{}\" can't be the name of a rule: {reason}", args.name))
    })?;
    let unreadable =
        |what: &str, error: &dyn std::fmt::Display| Failure::usage(format!("the SQL of the {what}: {error}"));
    let filter = match (&args.sql, args.correlation.as_slice()) {
        (Some(sql), _) => Filter::sql(sql, Vec::new()).map_err(|error| unreadable("filter", &error))?,
        (None, []) if args.none => Filter::False,
        (None, []) => Filter::True,
        (None, fields) => Filter::Correlation(Box::new(correlation(fields)?)),
    };
    let action = args.action.as_deref().map(|sql| SqlAction::new(sql, Vec::new())).transpose();
    let action = action.map_err(|error| unreadable("action", &error))?;
    let rule = Rule { name: args.name.as_str().into(), filter, action, created_at: Timestamp::default() };
    let put = args.connection.admin()?.put_rule(path, &rule, args.replace).await;
    put.map_err(|error| Failure::about(path, error))?;
    output::line(format!("{} rule {} of {path}", if args.replace { "replaced" } else { "added" }, args.name));
    Ok(())
}

fn correlation(fields: &[Property]) -> Result<CorrelationFilter, Failure> {
    let mut filter = CorrelationFilter::default();
    for Property { name, value } in fields {
        let field = match name.as_str() {
            "correlation_id" => &mut filter.correlation_id,
            "message_id" => &mut filter.message_id,
            "to" => &mut filter.to,
            "reply_to" => &mut filter.reply_to,
            "label" | "subject" => &mut filter.label,
            "session_id" => &mut filter.session_id,
            "reply_to_session_id" => &mut filter.reply_to_session_id,
            "content_type" => &mut filter.content_type,
            other => {
                filter.user.push((other.into(), rule_properties::given_from_value(value.clone())));
                continue;
            }
        };
        let text = value.as_str().ok_or_else(|| Failure::usage(format!("{name} is a text")))?;
        *field = Some(text.into());
    }
    Ok(filter)
}

async fn remove(args: RuleRmArgs) -> Result<(), Failure> {
    let path = subscription(&args.address)?;
    let admin = args.connection.admin()?;
    let about = |error| Failure::about(path, error);
    if args.dry_run {
        let rules = admin.rules(path).await.map_err(about)?;
        let rule = rules.iter().find(|rule| rule.name.eq_ignore_ascii_case(&args.name));
        let rule = rule.ok_or_else(|| Failure::new(format!("{path} has no rule {}", args.name)))?;
        output::line(format!("would remove rule {}: {}", rule.name, show::filter_text(&rule.filter)));
        return Ok(());
    }
    admin.delete(&format!("{path}/Rules/{}", args.name)).await.map_err(about)?;
    output::line(format!("removed rule {} of {path}", args.name));
    Ok(())
}

fn subscription(address: &Address) -> Result<&str, Failure> {
    match address.subscription() {
        Some(_) => Ok(&address.entity),
        None => Err(Failure::usage(format!(
            "{} is not a subscription; write topic/Subscriptions/name",
            address.entity
        ))),
    }
}
