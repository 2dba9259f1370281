//! Where steps act: mostly where they can do something, sometimes anywhere.

use super::acting::pick;
use super::bus::{Message, Path, Place, Queue};
use super::message::SESSIONS;
use super::step::Ask;
use super::world::{ENTITIES, World};

/// Groups of entities on which a history concentrates.
const GROUPS: [&[Path]; 8] = [
    &["q"],
    &["d"],
    &["s"],
    &["t", "t/Subscriptions/a"],
    &["t", "t/Subscriptions/b"],
    &["f", "g", "q", "s", "d", "t/Subscriptions/a"],
    &["q", "s", "t", "t/Subscriptions/b"],
    &["e", "e", "x"],
];

impl World {
    /// An entity by number: mostly one of the history's group.
    pub(crate) fn entity(&self, number: u8) -> Path {
        let group = GROUPS[usize::from(self.setup.group) % GROUPS.len()];
        let from = if number < 40 { &ENTITIES[..] } else { group };
        from[usize::from(number) % from.len()]
    }

    /// The entity of a request: mostly one to which it applies.
    pub(crate) fn place_of(&self, peer: usize, number: u8, at: (Path, Place), ask: &Ask) -> (Path, Place) {
        if number.is_multiple_of(8) {
            return at;
        }
        let having = |suits: &dyn Fn(&Queue, &Message) -> bool| -> Vec<(Path, Place)> {
            self.bus
                .sources()
                .flat_map(|(path, queue)| queue.messages.values().map(move |one| (path, queue, one)))
                .filter(|(_, queue, one)| suits(queue, one))
                .map(|(path, _, one)| (path, one.place))
                .collect()
        };
        let with = |suits: &dyn Fn(Path, &Queue) -> bool| -> Vec<(Path, Place)> {
            let paths =
                self.bus.queues.iter().filter(|(path, queue)| suits(path, queue)).map(|(path, _)| *path);
            paths.map(|path| (path, Place::Main)).collect()
        };
        let found: Vec<(Path, Place)> = match ask {
            Ask::Renew { .. } | Ask::Dispose { .. } => {
                let own = self.peers[peer].deliveries.iter().filter(|one| one.work.is_none());
                own.map(|one| (one.path, one.place)).collect()
            }
            Ask::Receive { .. } => having(&|_, one| one.is_deferred),
            Ask::Cancel { .. } => {
                let mut found = having(&|_, one| one.due_ms.is_some());
                let topics = self.bus.topics.iter().filter(|(_, topic)| !topic.own.messages.is_empty());
                found.extend(topics.map(|(path, _)| (*path, Place::Main)));
                found
            }
            Ask::Schedule(_) => return (at.0.split('/').next().unwrap_or(at.0), Place::Main),
            Ask::RenewSession(_) | Ask::GetState(_) | Ask::SetState(..) | Ask::Sessions { .. } => {
                with(&|_, queue| queue.shape.sessions)
            }
            Ask::AddRule(_) | Ask::RemoveRule(_) | Ask::Rules { .. } => with(&|path, _| path.contains('/')),
            Ask::Peek { .. } | Ask::Delete { .. } => having(&|_, _| true),
            Ask::Bad(_) => Vec::new(),
        };
        pick(&found, number).unwrap_or(at)
    }

    /// A place with messages that are available.
    pub(crate) fn available(&self, number: u8) -> Option<(Path, Place)> {
        let mut found = Vec::new();
        for (path, queue) in self.bus.sources() {
            let is_topic = self.bus.topics.contains_key(path);
            let places = [Place::Main, Place::Dead, Place::Transfer].into_iter();
            let places = places.filter(|place| !is_topic || *place == Place::Transfer);
            let has = |place: &Place| queue.messages.values().any(|one| one.is_available(*place));
            found.extend(places.filter(has).map(|place| (path, place)));
        }
        pick(&found, number)
    }

    /// A session by number: mostly one that the client holds.
    pub(crate) fn session_of(&self, peer: usize, path: Path, number: u8) -> &'static str {
        let id = SESSIONS[usize::from(number) % SESSIONS.len()];
        if number >= 200 {
            return id;
        }
        let Some(queue) = self.bus.queues.get(path) else { return id };
        let held: Vec<&str> = SESSIONS.into_iter().filter(|id| queue.holder(peer, id).is_ok()).collect();
        pick(&held, number).unwrap_or(id)
    }
}
