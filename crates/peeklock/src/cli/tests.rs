//! The command line as its users see it.

use clap::{CommandFactory, Parser};

use super::*;

#[test]
fn the_definition_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn serving_is_the_default_and_takes_the_same_flags() {
    let flags =
        ["--data-dir", "d", "--amqp", "127.0.0.1:0", "--queue", "a", "--queue", "b,c", "--topic", "t/s,u"];
    let bare = Cli::parse_from(["peeklock"].into_iter().chain(flags));
    assert!(bare.command.is_none());
    assert_eq!(bare.serve.queues, ["a", "b", "c"]);
    let Some(Command::Serve(args)) = Cli::parse_from(["peeklock", "serve"].into_iter().chain(flags)).command
    else {
        panic!("not serve");
    };
    assert_eq!(args.queues, bare.serve.queues);
    let topics: Vec<&str> = bare.serve.topics.iter().map(|asked| asked.topic.as_str()).collect();
    assert_eq!(topics, ["t", "u"]);
    assert_eq!(args.topics, bare.serve.topics);
    assert_eq!(args.amqp, bare.serve.amqp);
    assert_eq!(args.data_dir, bare.serve.data_dir);
}

#[test]
fn wrong_usage_exits_with_code_2_and_help_with_0() {
    for (arguments, code) in [
        (["peeklock", "--amqp", "nowhere"], 2),
        (["peeklock", "--queue", "a@b"], 2),
        (["peeklock", "--topic", "a/b@c"], 2),
        (["peeklock", "--log-level", "loud"], 2),
        (["peeklock", "serve", "--nonsense"], 2),
        (["peeklock", "serve", "--help"], 0),
    ] {
        assert_eq!(Cli::try_parse_from(arguments).unwrap_err().exit_code(), code, "{arguments:?}");
    }
}

#[test]
fn help_is_the_snapshot() {
    let help = Cli::command().term_width(110).render_long_help().to_string();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/cli/help.txt");
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(path, &help).unwrap();
    }
    let expected = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(help, expected, "run with UPDATE_SNAPSHOTS=1 if the change is intended");
}
