//! `com.microsoft:enumerate-rules`: lists the rules of a subscription, page by page.

use peeklock_engine::Command;
use peeklock_engine::runtime::Response;

use super::{Arguments, Prepared, rule_description};
use crate::servicebus::delivery::Encoder;
use crate::servicebus::entities::Entity;
use crate::servicebus::envelope::Answer;
use crate::servicebus::errors::Fault;
use crate::wire::Value;

/// Maximum number of rules in one response: each may have some kilobytes.
const RULES_MAX: u32 = 100;

/// Estimated size of an outstanding answer, in bytes.
const ANSWER_BYTES_ESTIMATE: usize = 128 << 10;

pub(super) fn prepare(arguments: &Arguments, entity: &Entity) -> Result<Prepared, Fault> {
    let (skip, top) = arguments.page(RULES_MAX)?;
    let command = Command::ListRules { queue: entity.queue, skip, top };
    Ok(Prepared::new(command, finish).answering(ANSWER_BYTES_ESTIMATE))
}

fn finish(response: Response, _encoder: &mut Encoder) -> Result<Answer, Fault> {
    let rules = match response {
        Response::Rules(Ok(rules)) => rules,
        Response::Rules(Err(refusal)) => return Err(refusal.into()),
        _ => return Err(Fault::Internal),
    };
    if rules.is_empty() {
        return Ok(Answer::no_content());
    }
    let entry = |description| Value::Map(vec![("rule-description".into(), description)]);
    let rules = rules.iter().map(|rule| entry(rule_description::write(rule))).collect();
    Ok(Answer::ok(vec![("rules", Value::List(rules))]))
}
