//! Everything due happens now: what a clock that jumped leaves to be done.

use tokio::sync::mpsc;

use super::actor::CatchUp;
use super::entities::Entities;
use super::entity::Spawner;

/// Resolves once everything due at the present instant has happened, in every entity, and all that came of it is
/// durable, handed out, or forwarded. What one entity does may make another one due: rounds follow until a whole one found
/// nothing to do.
pub(super) async fn catch_up(entities: &Entities, spawner: &Spawner) {
    let until = spawner.shared.clock.now();
    loop {
        let (answer, mut answers) = mpsc::unbounded_channel();
        for entity in entities.all() {
            entity.catch_up(spawner, CatchUp { until, answer: answer.clone() });
        }
        drop(answer);
        let mut was_due = false;
        // It ends when nobody has anything left to do: also who ends meanwhile.
        while let Some(was_due_there) = answers.recv().await {
            was_due |= was_due_there;
        }
        if !was_due {
            return;
        }
    }
}
