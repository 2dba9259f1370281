//! Checks forwarding: undeclared targets, cycles, and chains that are too long.

use std::collections::{HashMap, HashSet, VecDeque};

use peeklock_engine::{Forwarding, HOPS_MAX, name_key};

use super::Report;
use super::place::Step;
use crate::config::{FileConfig, ServeArgs};

/// An option that forwards messages.
struct Edge<'a> {
    /// The name of its entity in messages.
    title: String,
    /// The option's name in the file.
    key: &'static str,
    /// The queue or topic whose messages it forwards.
    source: &'a str,
    target: &'a str,
    /// Whether it forwards every message, not only dead letters.
    is_for_all: bool,
    steps: Vec<Step<'static>>,
}

impl Edge<'_> {
    fn describe(&self, what: &str) -> String {
        format!("{}{}: {what}", self.title, self.key)
    }
}

/// The edges that forward every message, by the key of their source's name.
type Graph<'a, 'f> = HashMap<Box<str>, Vec<&'a Edge<'f>>>;

/// Reports forwarding that a start would refuse, and cycles, which no message ever leaves. `is_stored`: entities may
/// exist that the file does not declare.
pub(super) fn check(file: &FileConfig, args: &ServeArgs, is_stored: bool, report: &Report<'_>) {
    let edges = edges(file);
    check_targets(file, args, &edges, is_stored, report);
    let mut graph = Graph::new();
    for edge in edges.iter().filter(|edge| edge.is_for_all) {
        graph.entry(name_key(edge.source)).or_default().push(edge);
    }
    if !check_cycles(&edges, &graph, report) {
        check_lengths(&edges, &graph, report);
    }
}

fn check_targets(
    file: &FileConfig,
    args: &ServeArgs,
    edges: &[Edge<'_>],
    is_stored: bool,
    report: &Report<'_>,
) {
    let queues = file.queues.iter().map(|queue| queue.name.as_str());
    let topics = file.topics.iter().map(|topic| topic.name.as_str());
    let asked =
        args.queues.iter().map(String::as_str).chain(args.topics.iter().map(|asked| asked.topic.as_str()));
    let known: HashSet<Box<str>> = queues.chain(topics).chain(asked).map(name_key).collect();
    for edge in edges.iter().filter(|edge| !known.contains(&name_key(edge.target))) {
        let target = edge.target;
        if is_stored {
            let what =
                format!("\"{target}\" is not declared in this file; a start is refused unless it is stored");
            report.note(&edge.steps, edge.describe(&what));
        } else {
            let what = format!("there is no queue or topic \"{target}\"; declare it");
            report.problem(&edge.steps, edge.describe(&what));
        }
    }
}

/// Returns whether there are cycles. Each is reported at its first edge.
fn check_cycles(edges: &[Edge<'_>], graph: &Graph<'_, '_>, report: &Report<'_>) -> bool {
    let mut reported: HashSet<Box<str>> = HashSet::new();
    for edge in edges.iter().filter(|edge| edge.is_for_all) {
        if reported.contains(&name_key(edge.source)) {
            continue;
        }
        let Some(way) = way(graph, edge.target, edge.source) else { continue };
        reported.extend(way.iter().map(|name| name_key(name)));
        let names: Vec<String> =
            [edge.source].into_iter().chain(way).map(|name| format!("\"{name}\"")).collect();
        let what = format!(
            "forwarding forms a loop, {}; after {HOPS_MAX} times each message is dead-lettered",
            names.join(" to ")
        );
        report.note(&edge.steps, edge.describe(&what));
    }
    !reported.is_empty()
}

/// The shortest path, including both ends.
fn way<'f>(graph: &Graph<'_, 'f>, from: &'f str, to: &str) -> Option<Vec<&'f str>> {
    let mut seen = HashSet::from([name_key(from)]);
    let mut ways = VecDeque::from([vec![from]]);
    while let Some(way) = ways.pop_front() {
        let last = way.last().copied().map(name_key)?;
        if last == name_key(to) {
            return Some(way);
        }
        for edge in graph.get(&last).into_iter().flatten() {
            if seen.insert(name_key(edge.target)) {
                ways.push_back([way.as_slice(), &[edge.target]].concat());
            }
        }
    }
    None
}

/// Reports chains that are too long for any message, at their beginning. There are no cycles.
fn check_lengths(edges: &[Edge<'_>], graph: &Graph<'_, '_>, report: &Report<'_>) {
    let targets: HashSet<Box<str>> =
        edges.iter().filter(|edge| edge.is_for_all).map(|edge| name_key(edge.target)).collect();
    let begins = edges.iter().filter(|edge| edge.is_for_all && !targets.contains(&name_key(edge.source)));
    for edge in begins {
        let mut reached = HashSet::from([name_key(edge.target)]);
        for _ in 0..HOPS_MAX {
            let next = reached.iter().filter_map(|name| graph.get(name)).flatten();
            reached = next.map(|edge| name_key(edge.target)).collect();
        }
        if !reached.is_empty() {
            let what = format!(
                "messages would be forwarded more than {HOPS_MAX} times from here; each is dead-lettered before the end"
            );
            report.note(&edge.steps, edge.describe(&what));
        }
    }
}

/// All edges in the order of the file.
fn edges(file: &FileConfig) -> Vec<Edge<'_>> {
    let mut edges = Vec::new();
    let (queues, topics, subscriptions) = if file.is_emulators {
        ("Queues", "Topics", "Subscriptions")
    } else {
        ("queues", "topics", "subscriptions")
    };
    let root = root(file.is_emulators);
    for (index, queue) in file.queues.iter().enumerate() {
        let steps = [root, &[Step::Key(queues), Step::Index(index)]].concat();
        let title = format!("queue \"{}\": ", queue.name);
        add(&mut edges, file.is_emulators, &title, &queue.name, &queue.options.forwarding, &steps);
    }
    for (index, topic) in file.topics.iter().enumerate() {
        for (inner, subscription) in topic.subscriptions.iter().enumerate() {
            let own = [Step::Key(topics), Step::Index(index), Step::Key(subscriptions), Step::Index(inner)];
            let steps = [root, &own].concat();
            let title = format!("topic \"{}\", subscription \"{}\": ", topic.name, subscription.name);
            add(&mut edges, file.is_emulators, &title, &topic.name, &subscription.options.forwarding, &steps);
        }
    }
    edges
}

const fn root(is_emulators: bool) -> &'static [Step<'static>] {
    if is_emulators { &[Step::Key("UserConfig"), Step::Key("Namespaces"), Step::Index(0)] } else { &[] }
}

fn add<'f>(
    edges: &mut Vec<Edge<'f>>,
    is_emulators: bool,
    title: &str,
    source: &'f str,
    forwarding: &'f Forwarding,
    steps: &[Step<'static>],
) {
    let keys = if is_emulators {
        ["ForwardTo", "ForwardDeadLetteredMessagesTo"]
    } else {
        ["forward_to", "forward_dead_lettered_messages_to"]
    };
    let targets = [&forwarding.forward_to, &forwarding.forward_dead_lettered_messages_to];
    for (key, target) in keys.into_iter().zip(targets) {
        let Some(target) = target.as_deref() else { continue };
        let mut steps = steps.to_vec();
        if is_emulators {
            steps.push(Step::Key("Properties"));
        }
        steps.push(Step::Key(key));
        let is_for_all = key.eq_ignore_ascii_case("forward_to") || key == "ForwardTo";
        edges.push(Edge { title: title.to_owned(), key, source, target, is_for_all, steps });
    }
}
