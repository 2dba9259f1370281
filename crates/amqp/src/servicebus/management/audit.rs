//! Changes of rules are administrative: each is noted, made or refused.

use peeklock_engine::runtime::Response;

use super::done;
use crate::servicebus::delivery::Encoder;
use crate::servicebus::entities::Entity;
use crate::servicebus::envelope::Answer;
use crate::servicebus::errors::Fault;

/// Events with this target are administrative changes; the process decides where they are kept.
const TARGET: &str = "peeklock::audit";

/// [`done`], with a note of how it ended.
pub(super) fn noted(
    operation: &'static str,
    entity: &Entity,
    rule: &str,
) -> impl Fn(Response, &mut Encoder) -> Result<Answer, Fault> + Send + 'static + use<> {
    let entity = format!("{}/rules/{rule}", entity.address.key());
    move |response, encoder| {
        let answer = done(response, encoder);
        let outcome = answer.as_ref().map_or_else(ToString::to_string, |_| "ok".to_owned());
        tracing::info!(target: TARGET, protocol = "amqp", operation, entity, outcome);
        answer
    }
}
