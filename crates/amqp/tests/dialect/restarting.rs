//! Restarts of the broker in the middle of a history.

use peeklock_engine::runtime::Response;
use peeklock_engine::{Command, NewMessage};

use super::world::{ENTITIES, World};

impl World {
    /// Ends the broker with all connections, in order or not, and starts it again with what it has stored.
    pub(crate) async fn restart(&mut self, in_order: bool) {
        let refuses = |path| self.bus.check_sends(path).and(self.bus.check_room(path, 0)).is_err();
        if ENTITIES.into_iter().any(refuses) {
            // The next number of such an entity can't be asked for.
            return;
        }
        for number in 0..self.peers.len() {
            self.hang_up(number);
        }
        self.rest().await;
        self.broker.restart(in_order).await;
        self.bus.restart();
        for path in ENTITIES.into_iter().filter(|path| !path.contains('/')) {
            if !self.bus.exists(path) {
                continue;
            }
            let next = self.ask_next_number(path).await;
            self.bus.continue_numbers(path, next);
        }
        (0..self.peers.len()).for_each(|number| self.replace_peer(number));
        self.rest().await;
    }

    /// Reserves a number. Numbers that were reserved before may be given out again: their transactions are gone.
    async fn ask_next_number(&self, path: &'static str) -> u64 {
        let now = self.broker.namespace.clock().now();
        let message = NewMessage {
            scheduled_enqueue_time: Some(now.plus_ms(1)),
            session_id: Some("any".into()),
            ..NewMessage::default()
        };
        let command = Command::Send { messages: std::iter::once(message).collect() };
        let (partition, _) = self.find(path).expect("an entity");
        match partition.ask(Command::Provisional(Box::new(command))).await {
            Some(Response::Provisional(Ok(numbers))) => numbers.first().expect("a number").0,
            other => panic!("{other:?}"),
        }
    }
}
