//! `peeklock rule test`: which rules match a message, and the results of their actions. The rules are read from the
//! namespace and evaluated here, by the broker's own code.

use clap::Args;
use peeklock_client::Message;
use peeklock_engine::{Filter, PropertyChanges, Rule, SqlAction, Timestamp};
use serde_json::{Value as Json, json};

use super::address::{Address, whole};
use super::message_args::MessageArgs;
use super::text::shown_instant;
use super::{ConnectionArgs, Failure, output};
use crate::cli::table::Table;
use crate::config::value_text;

/// Which rules, and which message.
#[derive(Debug, Args)]
pub(in crate::cli) struct RuleTestArgs {
    /// The topic, or one of its subscriptions (topic/Subscriptions/name); not needed with --sql.
    #[arg(value_name = "ENTITY", required_unless_present = "sql", conflicts_with = "sql", value_parser = whole)]
    address: Option<Address>,

    /// Test this condition instead of the rules of a namespace.
    #[arg(long, value_name = "SQL")]
    sql: Option<String>,

    /// Test this action as well.
    #[arg(long, value_name = "SQL", requires = "sql")]
    action: Option<String>,

    #[command(flatten)]
    message: Box<MessageArgs>,

    /// Print one JSON object per rule.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    connection: ConnectionArgs,
}

/// The result of a rule for the message.
struct Verdict {
    subscription: String,
    rule: String,
    matches: Result<bool, String>,
    changes: Option<Result<PropertyChanges, String>>,
}

pub(super) async fn run(args: RuleTestArgs) -> Result<(), Failure> {
    let message = Message::decode(&args.message.encode(&args.message.body()?, None, None))?;
    let mut verdicts = Vec::new();
    for (subscription, rules) in rules(&args).await? {
        for rule in &rules {
            verdicts.push(judge(&subscription, rule, &message)?);
        }
    }
    if args.json {
        verdicts.iter().for_each(|verdict| output::json_line(&verdict.json()));
        return Ok(());
    }
    let mut table = Table::new(&["SUBSCRIPTION", "RULE", "MATCHES", "CHANGES"]);
    verdicts.iter().for_each(|verdict| table.row(verdict.row()));
    if table.is_empty() {
        output::note("no rules");
    } else {
        table.print();
    }
    Ok(())
}

/// The rules to test, by subscription.
async fn rules(args: &RuleTestArgs) -> Result<Vec<(String, Vec<Rule>)>, Failure> {
    let Some(address) = &args.address else { return Ok(vec![("-".to_owned(), vec![written(args)?])]) };
    let admin = args.connection.admin()?;
    let about = |error| Failure::about(&address.entity, error);
    if address.subscription().is_some() {
        return Ok(vec![(address.entity.clone(), admin.rules(&address.entity).await.map_err(about)?)]);
    }
    let mut found = Vec::new();
    for subscription in admin.subscriptions(&address.entity).await.map_err(about)? {
        let rules = admin.rules(&subscription.path).await.map_err(about)?;
        found.push((subscription.path, rules));
    }
    Ok(found)
}

fn written(args: &RuleTestArgs) -> Result<Rule, Failure> {
    let wrong = |error: &dyn std::fmt::Display| Failure::usage(format!("not the SQL of rules: {error}"));
    let sql = args.sql.as_deref().unwrap_or_default();
    let filter = Filter::sql(sql, Vec::new()).map_err(|error| wrong(&error))?;
    let action = args.action.as_deref().map(|sql| SqlAction::new(sql, Vec::new())).transpose();
    let action = action.map_err(|error| wrong(&error))?;
    Ok(Rule { name: "-".into(), filter, action, created_at: Timestamp::default() })
}

fn judge(subscription: &str, rule: &Rule, message: &Message) -> Result<Verdict, Failure> {
    let matches = message.judge(&rule.filter)?;
    let changes = match (&matches, &rule.action) {
        (Ok(true), Some(action)) => Some(message.changes(action)?),
        _ => None,
    };
    Ok(Verdict { subscription: subscription.to_owned(), rule: rule.name.to_string(), matches, changes })
}

impl Verdict {
    fn row(&self) -> [String; 4] {
        let matches = match &self.matches {
            Ok(matches) => matches.to_string(),
            Err(reason) => format!("error: {reason}"),
        };
        let changes = match &self.changes {
            None => "-".to_owned(),
            Some(Err(reason)) => format!("error: {reason}"),
            Some(Ok(changes)) => {
                let changes = listed(changes).into_iter();
                let shown = changes.map(|(name, value)| {
                    value.map_or_else(|| format!("{name} removed"), |value| format!("{name} = {value}"))
                });
                shown.collect::<Vec<_>>().join(", ")
            }
        };
        [self.subscription.clone(), self.rule.clone(), matches, changes]
    }

    fn json(&self) -> Json {
        let changed = self.changes.as_ref().and_then(|changes| changes.as_ref().ok());
        let changed = changed.map(|changes| {
            let changes = listed(changes).into_iter();
            changes.map(|(name, value)| (name, Json::from(value))).collect::<serde_json::Map<_, _>>()
        });
        let of_action = self.changes.as_ref().and_then(|changes| changes.as_ref().err());
        json!({
            "subscription": self.subscription,
            "rule": self.rule,
            "matches": self.matches.as_ref().ok(),
            "error": self.matches.as_ref().err().or(of_action),
            "changed": changed,
        })
    }
}

/// The changes by name; without a value the property is removed.
fn listed(changes: &PropertyChanges) -> Vec<(String, Option<String>)> {
    let texts = changes.texts.iter();
    let mut listed: Vec<_> = texts
        .map(|(property, value)| (format!("sys.{property:?}"), value.as_deref().map(str::to_owned)))
        .collect();
    if let Some(at_ms) = changes.scheduled_enqueue_time_ms {
        let at = at_ms.map(|at_ms| shown_instant(i64::try_from(at_ms).unwrap_or(i64::MAX)));
        listed.push(("sys.ScheduledEnqueueTimeUtc".to_owned(), at));
    }
    if let Some(length_ms) = changes.time_to_live_ms {
        let length = length_ms.map(crate::config::duration_text);
        listed.push(("sys.TimeToLive".to_owned(), length));
    }
    let user = changes.user.iter();
    listed.extend(user.map(|(name, value)| (name.to_string(), value.as_ref().map(value_text))));
    listed
}
