//! `peeklock show`

use clap::Args;
use peeklock_client::EntityKind;
use peeklock_engine::{Filter, Rule};
use serde_json::{Value as Json, json};

use super::address::{Address, whole};
use super::{ConnectionArgs, Failure, ls, missing, output};
use crate::cli::table::Table;

/// Which entity.
#[derive(Debug, Args)]
pub(in crate::cli) struct ShowArgs {
    /// Queue, topic or subscription (topic/Subscriptions/name).
    #[arg(value_name = "ENTITY", value_parser = whole)]
    address: Address,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    connection: ConnectionArgs,
}

pub(super) async fn run(args: ShowArgs) -> Result<(), Failure> {
    let admin = args.connection.admin()?;
    let path = &args.address.entity;
    let found = admin.find(path).await.map_err(|error| Failure::about(path, error))?;
    let found = found.ok_or_else(|| missing(path))?;
    let rules = match found.kind {
        EntityKind::Subscription => Some(admin.rules(path).await?),
        EntityKind::Queue | EntityKind::Topic => None,
    };
    if args.json {
        let mut entity = ls::entity_json(&found);
        if let (Json::Object(entity), Some(rules)) = (&mut entity, &rules) {
            entity.insert("rules".to_owned(), rules.iter().map(rule_json).collect());
        }
        output::json_line(&entity);
        return Ok(());
    }
    let mut table = Table::new(&["OPTION", "VALUE"]);
    table.row(["Kind".to_owned(), found.kind.name().to_owned()]);
    for (name, text) in found.described.elements() {
        table.row([name.clone(), text.clone()]);
    }
    let counts = found.described.counts();
    for (name, count) in [
        ("Active messages", counts.active),
        ("Scheduled messages", counts.scheduled),
        ("Dead letters", counts.dead_letter),
        ("Transfer dead letters", counts.transfer_dead_letter),
    ] {
        table.row([name.to_owned(), count.to_string()]);
    }
    table.print();
    if let Some(rules) = rules {
        output::line("");
        rule_table(&rules).print();
    }
    Ok(())
}

/// Rules as a table.
pub(super) fn rule_table(rules: &[Rule]) -> Table {
    let mut table = Table::new(&["RULE", "FILTER", "ACTION"]);
    for rule in rules {
        let action = rule.action.as_ref().map_or("-", |action| action.expression());
        table.row([rule.name.to_string(), filter_text(&rule.filter), action.to_owned()]);
    }
    table
}

/// A filter in human-readable form.
pub(super) fn filter_text(filter: &Filter) -> String {
    match filter {
        Filter::True => "true".to_owned(),
        Filter::False => "false".to_owned(),
        Filter::Sql(filter) => filter.expression().to_owned(),
        Filter::Selector(selector) => selector.text().to_owned(),
        Filter::Correlation(filter) => {
            let fields = correlation(filter).into_iter();
            fields.map(|(name, text)| format!("{name} = {text}")).collect::<Vec<_>>().join(", ")
        }
    }
}

fn correlation(filter: &peeklock_engine::CorrelationFilter) -> Vec<(String, String)> {
    let system = crate::config::correlation_fields(filter).into_iter();
    let system = system.map(|(name, text)| (name.to_owned(), text.to_owned()));
    let user = filter.user.iter().map(|(name, value)| (name.to_string(), crate::config::value_text(value)));
    system.chain(user).collect()
}

/// A rule as JSON.
pub(super) fn rule_json(rule: &Rule) -> Json {
    let filter = match &rule.filter {
        Filter::True => json!({ "kind": "true" }),
        Filter::False => json!({ "kind": "false" }),
        Filter::Correlation(filter) => {
            let fields: serde_json::Map<String, Json> =
                correlation(filter).into_iter().map(|(name, text)| (name, Json::from(text))).collect();
            json!({ "kind": "correlation", "fields": fields })
        }
        other => json!({ "kind": "sql", "expression": filter_text(other) }),
    };
    json!({
        "name": rule.name,
        "filter": filter,
        "action": rule.action.as_ref().map(|action| action.expression()),
    })
}
