//! What `GET /metrics` answers: numbers about the whole broker, in Prometheus's text format. Nothing about single entities:
//! unauthenticated clients may ask.

use std::fmt::Display;
use std::fs;

use peeklock_budget::{Budget, Owner};
use peeklock_engine::runtime::Namespace;
use rustix::process::{Resource, getrlimit};

use super::health::{Health, State};

/// Prometheus's text format.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// All metrics.
pub(super) fn text(health: &Health) -> String {
    let mut text = Text::default();
    let is_ready = u8::from(health.state() == State::Ready);
    text.gauge("peeklock_ready", "Whether connections are accepted and the store works.", is_ready);
    if let Some(namespace) = health.namespace() {
        damage(&namespace, &mut text);
        memory(namespace.budget(), &mut text);
    }
    descriptors(&mut text);
    text.0
}

fn damage(namespace: &Namespace, text: &mut Text) {
    let help = "Damaged places of the store that were found since the start.";
    text.gauge("peeklock_damage", help, namespace.damage_count());
    let help = "Messages that are out of delivery because what is stored of them is damaged.";
    text.gauge("peeklock_quarantined_messages", help, namespace.quarantined_count());
}

fn memory(budget: &Budget, text: &mut Text) {
    let help = "Memory that clients can make the broker hold (limits.memory_max).";
    text.gauge("peeklock_memory_limit_bytes", help, budget.limit_bytes());
    let name = "peeklock_memory_used_bytes";
    text.head(name, "What is held of it, by what it is held for.");
    for owner in Owner::ALL {
        text.value(&format!("{name}{{owner=\"{}\"}}", owner.name()), budget.used_by(owner));
    }
}

/// Under the names that Prometheus's own client libraries use. Left out where the system does not say.
fn descriptors(text: &mut Text) {
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        text.gauge("process_open_fds", "Open file descriptors.", open.count());
    }
    if let Some(limit) = getrlimit(Resource::Nofile).current {
        text.gauge("process_max_fds", "Limit of open file descriptors.", limit);
    }
}

#[derive(Default)]
struct Text(String);

impl Text {
    fn head(&mut self, name: &str, help: &str) {
        self.0.push_str(&format!("# HELP {name} {help}\n# TYPE {name} gauge\n"));
    }

    fn value(&mut self, series: &str, value: impl Display) {
        self.0.push_str(&format!("{series} {value}\n"));
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.head(name, help);
        self.value(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_before_the_store_is_open_is_told() {
        let text = text(&Health::default());
        assert!(text.contains("# TYPE peeklock_ready gauge\npeeklock_ready 0\n"), "{text}");
        assert!(!text.contains("peeklock_damage"), "{text}");
        assert!(text.lines().all(|line| line.starts_with('#') || line.split(' ').count() == 2), "{text}");
    }
}
