//! Everything due happens now: what a clock that jumped leaves to be done.

use tokio::sync::oneshot;

use super::entities::Entities;
use super::entity::Spawner;

/// Resolves once everything due at the present instant has happened, in every entity, and all that came of it is
/// durable and handed out. What one entity does may make another one due: rounds follow until a whole one found
/// nothing to do.
pub(super) async fn catch_up(entities: &Entities, spawner: &Spawner) {
    let until = spawner.shared.clock.now();
    loop {
        let asked: Vec<oneshot::Receiver<bool>> =
            entities.all().iter().filter_map(|entity| entity.catch_up(spawner, until)).collect();
        let mut was_due = false;
        for answer in asked {
            // An actor that ends meanwhile has nothing left to do.
            was_due |= answer.await.unwrap_or(false);
        }
        if !was_due {
            return;
        }
    }
}
