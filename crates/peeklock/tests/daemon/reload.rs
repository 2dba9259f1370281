//! SIGHUP: the configuration is read again.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::broker::{Home, wait_for, write};

const RELOADED: &str = "reloaded; ";
const REFUSED: &str = "reload refused, the running configuration is unchanged: ";

/// A broker whose log is read while it runs.
struct Watched {
    child: Child,
    log: BufReader<ChildStderr>,
}

impl Watched {
    fn start(home: &Home, command: &mut Command) -> Self {
        command.args(["--config", "p.toml", "--ready-file", "ready.json"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        wait_for(|| home.path("ready.json").exists().then_some(()));
        Self { child, log }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// The log from now to the line that ends a reload.
    fn reload(&mut self) -> String {
        self.signal(Signal::HUP);
        let mut text = String::new();
        while !text.contains(RELOADED) && !text.contains(REFUSED) {
            assert_ne!(self.log.read_line(&mut text).unwrap(), 0, "it ended: {text}");
        }
        text
    }

    /// The log until the process ends.
    fn stop(mut self) -> String {
        self.signal(Signal::TERM);
        let text = self.log.by_ref().lines().map(Result::unwrap).collect::<Vec<_>>().join("\n");
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{text}");
        text
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn started(home: &Home, text: &str) -> Watched {
    write(&home.path("p.toml"), text);
    Watched::start(home, &mut home.command())
}

#[test]
fn entities_are_declared_again_and_each_change_is_logged() {
    let home = Home::new();
    let mut broker = started(&home, "[[queues]]\nname = \"orders\"\n[[topics]]\nname = \"news\"\n");
    let log = broker.reload();
    assert!(log.contains("reloaded; changes: 0"), "{log}");
    write(
        &home.path("p.toml"),
        "[[queues]]\nname = \"orders\"\nmax_delivery_count = 5\n[[queues]]\nname = \"more\"\n\
         [[topics]]\nname = \"news\"\n[[topics.subscriptions]]\nname = \"all\"\n",
    );
    let log = broker.reload();
    for change in [
        "the properties of queue \"orders\" were changed",
        "queue \"more\" was created",
        "subscription \"all\" of topic \"news\" was created",
        "reloaded; changes: 3",
    ] {
        assert!(log.contains(change), "{log}");
    }
    assert!(broker.reload().contains("reloaded; changes: 0"));
    write(&home.path("p.toml"), "[[queues]]\nname = \"orders\"\n[[topics]]\nname = \"news\"\n");
    let log = broker.reload();
    assert!(log.contains("queue \"more\"") && log.contains("they are kept and served"), "{log}");
    broker.stop();
}

#[test]
fn the_log_level_changes_unless_a_flag_says_it() {
    let home = Home::new();
    let mut broker = started(&home, "[log]\nlevel = \"info\"\n");
    write(&home.path("p.toml"), "[log]\nlevel = \"info,peeklock=debug\"\n");
    let log = broker.reload();
    assert!(
        log.contains("the log level is now info,peeklock=debug") && log.contains("reloaded; changes: 1"),
        "{log}"
    );
    drop(broker);
    std::fs::remove_file(home.path("ready.json")).unwrap();
    let mut broker = Watched::start(&home, home.command().args(["--log-level", "info"]));
    write(&home.path("p.toml"), "[log]\nlevel = \"error\"\n");
    assert!(broker.reload().contains("reloaded; changes: 0"));
    broker.stop();
}

#[test]
fn a_configuration_that_is_not_right_changes_nothing_and_says_why() {
    let home = Home::new();
    let mut broker = started(&home, "[[queues]]\nname = \"orders\"\n");
    write(&home.path("p.toml"), "[log]\nlevel = \"loud\"\n[[queues]]\nname = \"a@b\"\n");
    let log = broker.reload();
    assert!(log.contains("p.toml:2:9: ") && log.contains("\"loud\" is not a log level"), "{log}");
    // A change that an entity does not allow prevents the change of the log level as well.
    write(
        &home.path("p.toml"),
        "[log]\nlevel = \"off\"\n[[queues]]\nname = \"orders\"\nrequires_session = true\n",
    );
    let log = broker.reload();
    assert!(log.contains("requires_session of an existing queue can't be changed"), "{log}");
    assert!(!log.contains("can't start"), "{log}");
    std::fs::remove_file(home.path("p.toml")).unwrap();
    let log = broker.reload();
    assert!(log.contains("p.toml:1:1: can't be read"), "{log}");
    let log = broker.stop();
    assert!(log.contains("stopped"), "the log level is still info: {log}");
}

/// A topic refuses its subscriptions itself, after queues and topics are declared.
#[test]
fn a_subscription_that_is_refused_leaves_queues_and_topics_as_they_were() {
    let topic =
        |more: &str| format!("[[topics]]\nname = \"news\"\n[[topics.subscriptions]]\nname = \"all\"\n{more}");
    let home = Home::new();
    let mut broker = started(&home, &topic(""));
    let long =
        format!("[[topics.subscriptions.rules]]\nname = \"r\"\nsql = \"a = '{}'\"\n", "x".repeat(1_100));
    for (more, reason) in [
        (
            "requires_session = true\n".to_owned(),
            "requires_session of an existing subscription can't be changed",
        ),
        (
            "[[topics.subscriptions]]\nname = \"b\"\nforward_to = \"nowhere\"\n".to_owned(),
            "neither a queue nor a topic",
        ),
        // The limit of the running broker applies.
        (
            format!(
                "[[topics.subscriptions]]\nname = \"b\"\n{long}[limits]\nsql_expression_characters = 2000\n"
            ),
            "at most 1024 are accepted",
        ),
    ] {
        write(&home.path("p.toml"), &format!("[[queues]]\nname = \"added\"\n{}", topic(&more)));
        let log = broker.reload();
        assert!(log.contains(REFUSED) && log.contains(reason), "{log}");
    }
    // A target may be declared together with its source.
    let both = "[[topics.subscriptions]]\nname = \"b\"\nforward_to = \"added\"\n";
    write(&home.path("p.toml"), &format!("[[queues]]\nname = \"added\"\n{}", topic(both)));
    let log = broker.reload();
    assert!(log.contains("queue \"added\" was created"), "none of the refused files has created it: {log}");
    broker.stop();
}

#[test]
fn values_that_need_a_restart_are_named_at_each_reload() {
    let home = Home::new();
    let mut broker = started(&home, "");
    write(
        &home.path("p.toml"),
        "[amqp]\nidle_time_out = \"PT1M\"\n[storage]\nsegment_size = \"1 MiB\"\n[log]\nformat = \"json\"\n\
         [console]\nenabled = false\n",
    );
    for _ in 0..2 {
        let log = broker.reload();
        for what in ["[amqp]", "[storage]", "log.format", "[console]"] {
            assert!(
                log.contains(&format!("{what} has changed in the configuration; that needs a restart")),
                "{log}"
            );
        }
        assert!(!log.contains("listen has changed") && log.contains("reloaded; changes: 0"), "{log}");
    }
    broker.stop();
}

#[test]
fn a_reload_does_not_open_the_default_key_to_other_machines() {
    let home = Home::new();
    let own = "[[authorization.rules]]\nname = \"own\"\nrights = [\"Listen\", \"Send\", \"Manage\"]\nprimary_key = \"a-key-of-ones-own\"\nsecondary_key = \"another-key-of-ones-own\"\n";
    let listen = |host: &str| format!("amqp.listen = \"{host}:0\"\nhttp.listen = \"127.0.0.1:0\"\n");
    write(&home.path("p.toml"), &[&*listen("0.0.0.0"), own].concat());
    let mut command = crate::broker::peeklock();
    command.current_dir(home.path(".")).arg("--data-dir").arg(home.path("data"));
    let mut broker = Watched::start(&home, &mut command);
    // Alone, this change would be valid, but a changed address needs a restart.
    write(&home.path("p.toml"), &listen("127.0.0.1"));
    let log = broker.reload();
    assert!(log.contains(REFUSED) && log.contains("the key in force is the emulator's"), "{log}");
    write(&home.path("p.toml"), &[&*listen("127.0.0.1"), own].concat());
    let log = broker.reload();
    assert!(log.contains(RELOADED) && log.contains("amqp.listen has changed"), "{log}");
}

#[test]
fn an_empty_configuration_that_was_empty_before_is_applied() {
    let home = Home::new();
    let mut broker = started(&home, "");
    let log = broker.reload();
    assert!(log.contains("reloaded; changes: 0"), "{log}");
    broker.stop();
}

/// A pipe is empty when it is read again, and a file while it is being written.
#[test]
fn keys_stay_when_the_configuration_is_empty_or_a_pipe() {
    let home = Home::new();
    let text = "[[authorization.rules]]\nname = \"own\"\nrights = [\"Listen\", \"Send\", \"Manage\"]\nprimary_key = \"a-key-of-ones-own\"\n";
    let mut broker = started(&home, text);
    write(&home.path("p.toml"), "");
    let log = broker.reload();
    assert!(log.contains(REFUSED) && log.contains("\"p.toml\" is empty"), "{log}");
    std::fs::remove_file(home.path("p.toml")).unwrap();
    let pipe = std::process::Command::new("mkfifo").arg(home.path("p.toml")).status().unwrap();
    assert!(pipe.success());
    let log = broker.reload();
    assert!(log.contains(REFUSED) && log.contains("can be read only once"), "{log}");
    broker.stop();
}
