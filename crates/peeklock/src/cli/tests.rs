//! The command line from a user's point of view.

use clap::Parser;

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

/// The words of a shell command in the documentation's notation: up to a comment, redirection or pipe.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote): (Vec<String>, Option<String>, Option<char>) = Default::default();
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(end), _) if character == end => quote = None,
            (Some('"'), '\\') => word.get_or_insert_default().extend(characters.next()),
            (Some(_), _) => word.get_or_insert_default().push(character),
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, '#' | '>' | '|' | '&') if word.is_none() => break,
            (None, ' ') => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    words
}

/// Removes the explanation after an example in `--help`: it begins after two or more spaces.
fn without_explanation(line: &str) -> &str {
    line.split("  ").next().unwrap_or(line)
}

fn assert_parses(line: &str) {
    let words = words(line);
    match Cli::try_parse_from(&words) {
        Ok(_) => {}
        Err(error) if error.exit_code() == 0 => {}
        Err(error) => panic!("{line}\n{words:?}\n{error}"),
    }
}

#[test]
fn every_command_in_the_documentation_parses() {
    let text = include_str!("../../../../docs/cli.md");
    let lines = text.lines().map(str::trim).filter(|line| line.starts_with("peeklock "));
    assert!(lines.clone().count() > 40);
    lines.for_each(assert_parses);
}

#[test]
fn every_example_of_the_help_parses() {
    let mut commands = vec![Cli::command()];
    let mut examples = 0;
    while let Some(command) = commands.pop() {
        let help = command.get_after_help().or(command.get_after_long_help());
        let help = help.map(ToString::to_string).unwrap_or_default();
        for line in help.lines().map(str::trim).filter(|line| line.starts_with("peeklock ")) {
            assert_parses(without_explanation(line));
            examples += 1;
        }
        commands.extend(command.get_subcommands().cloned());
    }
    assert!(examples > 60, "{examples}");
}

#[test]
fn every_command_has_completions_in_every_shell() {
    use clap::ValueEnum;
    for shell in clap_complete::Shell::value_variants() {
        let script = completions::text(*shell);
        for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            assert!(script.contains(command.get_name()), "{shell} lacks {}", command.get_name());
        }
    }
}

#[test]
fn manual_pages_are_written_for_every_command() {
    let directory = tempfile::tempdir().unwrap();
    clap_mangen::generate_to(Cli::command(), directory.path()).unwrap();
    for page in ["peeklock.1", "peeklock-send.1", "peeklock-rule-add.1"] {
        let text = std::fs::read_to_string(directory.path().join(page)).unwrap();
        assert!(text.contains("peeklock"), "{page}");
    }
}

#[test]
fn destructive_commands_have_a_dry_run() {
    for path in [
        &["delete"][..],
        &["purge"],
        &["resubmit"],
        &["move"],
        &["undefer"],
        &["rule", "rm"],
        &["sessions", "clear"],
        &["connections", "close"],
        &["locks", "release"],
    ] {
        let mut command = Cli::command();
        for name in path {
            command = command.find_subcommand(name).unwrap().clone();
        }
        assert!(command.get_arguments().any(|argument| argument.get_long() == Some("dry-run")), "{path:?}");
    }
}
