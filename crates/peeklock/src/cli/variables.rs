//! Variables `PEEKLOCK_...` that no argument reads: a misspelt one would silently have no effect.

use std::collections::BTreeSet;
use std::env;

use clap::Command;

const PREFIX: &str = "PEEKLOCK_";

/// Letters by which a misspelt name may differ from the intended one; case and underscores do not count.
const DISTANCE_MAX: usize = 2;

/// Unknown variables of this process.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Unknown {
    /// Errors: each name with the intended one.
    pub(super) misspelt: Vec<String>,
    /// Notes: names that resemble no known one.
    pub(super) others: Vec<String>,
}

/// Checks the names of this process's variables against the arguments of all commands.
pub(super) fn unknown(command: &Command) -> Unknown {
    let mut known = BTreeSet::new();
    collect(command, &mut known);
    let names = env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
    compare(names, &known)
}

fn collect(command: &Command, known: &mut BTreeSet<String>) {
    let names = command.get_arguments().filter_map(|argument| argument.get_env());
    known.extend(names.map(|name| name.to_string_lossy().into_owned()));
    for inner in command.get_subcommands() {
        collect(inner, known);
    }
}

fn compare(names: impl Iterator<Item = String>, known: &BTreeSet<String>) -> Unknown {
    let mut unknown = Unknown::default();
    for name in names.filter(|name| !known.contains(name)) {
        if let Some(meant) = closest(&name, known) {
            unknown.misspelt.push(format!("unknown variable {name}; did you mean {meant}?"));
        } else if name.starts_with(PREFIX) && !is_service_link(&name) {
            unknown.others.push(format!("the variable {name} is unknown and has no effect"));
        }
    }
    unknown.misspelt.sort();
    unknown.others.sort();
    unknown
}

/// The intended variable, if the name begins like ours.
fn closest<'k>(name: &str, known: &'k BTreeSet<String>) -> Option<&'k str> {
    let letters = |name: &str| name.replace('_', "").to_uppercase();
    let wanted = letters(name);
    // "PEEKLOK_CONFIG" is ours, "WHEELOCK_CONFIG" is not.
    if !wanted.starts_with("PEEK") {
        return None;
    }
    let distance = |known: &&String| strsim::damerau_levenshtein(&wanted, &letters(known));
    known.iter().min_by_key(distance).filter(|best| distance(best) <= DISTANCE_MAX).map(String::as_str)
}

/// Whether Kubernetes sets the variable in every container beside a service named `peeklock`: `PEEKLOCK_SERVICE_HOST`,
/// `PEEKLOCK_PORT_5672_TCP_ADDR` and the like.
fn is_service_link(name: &str) -> bool {
    let rest = name.strip_prefix(PREFIX).unwrap_or_default();
    let rest = rest.rsplit_once("SERVICE_").map_or(rest, |(_, rest)| rest);
    rest == "HOST" || rest == "PORT" || rest.starts_with("PORT_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(names: &[&str]) -> Unknown {
        let known = ["PEEKLOCK_CONFIG", "PEEKLOCK_DATA_DIR", "PEEKLOCK_HTTP", "PEEKLOCK_QUEUES"];
        let known = known.iter().map(|name| (*name).to_owned()).collect();
        compare(names.iter().map(|name| (*name).to_owned()), &known)
    }

    #[test]
    fn a_misspelt_variable_is_named_with_the_one_that_was_meant() {
        for (name, meant) in [
            ("PEEKLOCK_DATADIR", "PEEKLOCK_DATA_DIR"),
            ("PEEKLOCK_QUEUE", "PEEKLOCK_QUEUES"),
            ("PEEKLOCK_CONIFG", "PEEKLOCK_CONFIG"),
            ("PEEKLOK_CONFIG", "PEEKLOCK_CONFIG"),
            ("peeklock_http", "PEEKLOCK_HTTP"),
        ] {
            let expected = vec![format!("unknown variable {name}; did you mean {meant}?")];
            assert_eq!(compared(&[name]), Unknown { misspelt: expected, others: Vec::new() });
        }
    }

    #[test]
    fn other_variables_are_left_alone() {
        assert_eq!(
            compared(&["PEEKLOCK_CONFIG", "PATH", "HTTP_PROXY", "WHEELOCK_CONFIG"]),
            Unknown::default()
        );
        let links = [
            "PEEKLOCK_SERVICE_HOST",
            "PEEKLOCK_SERVICE_PORT",
            "PEEKLOCK_SERVICE_PORT_AMQP",
            "PEEKLOCK_PORT",
            "PEEKLOCK_PORT_5672_TCP_ADDR",
            "PEEKLOCK_HEADLESS_SERVICE_HOST",
        ];
        assert_eq!(compared(&links), Unknown::default());
        let others = vec!["the variable PEEKLOCK_COLOUR is unknown and has no effect".to_owned()];
        assert_eq!(compared(&["PEEKLOCK_COLOUR"]), Unknown { misspelt: Vec::new(), others });
    }
}
