//! Commands and configurations in the documentation are accepted by the command line and the configuration parser. A
//! block that is meant to be refused is fenced as ```` ```toml,ignore ```` or ```` ```sh,ignore ````.

use std::fs;
use std::path::PathBuf;

use clap::Parser;
use clap::error::ErrorKind;

use super::Cli;
use crate::config;

fn pages() -> Vec<PathBuf> {
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let mut pages: Vec<PathBuf> = ["", "docs", "examples", "packaging"]
        .iter()
        .filter_map(|directory| fs::read_dir(root.join(directory)).ok())
        .flat_map(|entries| entries.map(|entry| entry.unwrap().path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    pages.sort();
    pages
}

/// A fenced block, with the line of the page where it starts.
struct Block {
    language: String,
    line: usize,
    text: String,
}

fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (index, line) in text.lines().enumerate() {
        let fence = line.trim_start().strip_prefix("```");
        match (fence, open.take()) {
            (Some(_), Some(block)) => blocks.push(block),
            (Some(language), None) => {
                open = Some(Block { language: language.to_owned(), line: index + 1, text: String::new() });
            }
            (None, Some(block)) => open = Some(Block { text: block.text + line + "\n", ..block }),
            (None, None) => {}
        }
    }
    blocks
}

/// The words of a shell line up to the end of its first command: quotes are removed, variables unchanged.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for char in line.chars() {
        match (quote, char) {
            (Some(open), _) if open == char => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(char),
            (None, '"' | '\'') => {
                quote = Some(char);
                word.get_or_insert_default();
            }
            (None, '#' | '&' | '|' | ';' | '>' | ')') if word.is_none() || char != '#' => break,
            (None, ' ' | '\t') => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(char),
        }
    }
    words.extend(word);
    words
}

/// The arguments of a line that runs this program, also after variables, `sudo`, `docker exec` and the like.
fn command(line: &str) -> Option<Vec<String>> {
    let is_program = |word: &str| word == "peeklock" || word.ends_with("/peeklock") && !word.contains('=');
    let program = line.split_whitespace().find(|word| is_program(word))?;
    let at = program.as_ptr().addr() - line.as_ptr().addr();
    let is_start = |word: &&str| {
        let is_variable = word.contains('=') && word.chars().next().is_some_and(char::is_uppercase);
        is_variable || ["until", "if", "!", "sudo", "$", "time"].contains(word)
    };
    let before: Vec<&str> = line.get(..at)?.split_whitespace().collect();
    let runs = before.iter().all(is_start)
        || before.starts_with(&["docker", "exec"]) && before.len() == 3
        || before.starts_with(&["kubectl", "exec"]) && before.last() == Some(&"--")
        || before.starts_with(&["sudo", "-u"]) && before.len() == 3;
    runs.then(|| words(line.get(at..).unwrap_or_default()))
}

#[test]
fn every_command_in_the_documentation_is_understood() {
    let (mut count, mut wrong) = (0, Vec::new());
    for page in pages() {
        for block in blocks(&fs::read_to_string(&page).unwrap()) {
            if !["sh", "console", "bash"].contains(&block.language.trim()) {
                continue;
            }
            for line in block.text.replace("\\\n", " ").lines() {
                let Some(arguments) = command(line.trim()) else { continue };
                count += 1;
                let Err(error) = Cli::try_parse_from(&arguments) else { continue };
                if !matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
                    wrong.push(format!("{}:{}: {line}\n{error}", page.display(), block.line));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= 20, "only {count} commands were found");
}

/// The commands of this program in the text of a page, between backticks.
fn inline_commands(text: &str) -> Vec<&str> {
    let mut is_code = false;
    let mut found = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            found.extend(line.split('`').skip(1).step_by(2).filter(|span| span.starts_with("peeklock ")));
        }
    }
    found
}

/// Whether a command is only named, without its arguments: `peeklock store`, `peeklock config check`.
fn is_only_named(span: &str, error: &clap::Error) -> bool {
    let lacks = [ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand, ErrorKind::MissingRequiredArgument];
    lacks.contains(&error.kind()) || span.contains('…')
}

#[test]
fn every_command_in_the_text_is_understood() {
    let (mut count, mut wrong) = (0, Vec::new());
    for page in pages() {
        for span in inline_commands(&fs::read_to_string(&page).unwrap()) {
            count += 1;
            let Err(error) = Cli::try_parse_from(words(span)) else { continue };
            let is_shown = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            if !is_shown && !is_only_named(span, &error) {
                wrong.push(format!("{}: {span}\n{error}", page.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= 30, "only {count} commands were found");
}

#[test]
fn every_configuration_in_the_documentation_is_understood() {
    let (mut count, mut wrong) = (0, Vec::new());
    for page in pages() {
        for block in blocks(&fs::read_to_string(&page).unwrap()) {
            if block.language.trim() != "toml" {
                continue;
            }
            count += 1;
            let place = format!("{}:{}", page.display(), block.line);
            if let Err(problems) = config::parse(&place, &block.text) {
                wrong.push(problems.to_string());
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= 4, "only {count} configurations were found");
}

#[test]
fn commands_are_found_in_lines_of_a_shell() {
    for (line, expected) in [
        (
            "peeklock serve --data-dir ./data --queue orders &",
            Some("peeklock|serve|--data-dir|./data|--queue|orders"),
        ),
        ("until peeklock health; do sleep 0.1; done", Some("peeklock|health")),
        (
            "docker exec broker peeklock store backup /backups/monday",
            Some("peeklock|store|backup|/backups/monday"),
        ),
        ("PEEKLOCK_QUEUES=a peeklock # a queue", Some("peeklock")),
        ("peeklock config convert Config.json > peeklock.toml", Some("peeklock|config|convert|Config.json")),
        ("peeklock --rate \"256 MiB\" x", Some("peeklock|--rate|256 MiB|x")),
        ("cargo run --release -p peeklock", None),
        ("docker build -t peeklock .", None),
        ("PEEKLOCK_BIN=target/release/peeklock python -m pytest", None),
    ] {
        assert_eq!(command(line).map(|words| words.join("|")).as_deref(), expected, "{line}");
    }
}
