//! A recorded conversation as a list of steps.
//!
//! | line | |
//! |---|---|
//! | `# ..` | a comment: the content of the client's next frame, or what its program made of the answers |
//! | `connect N` | the client opens connection N |
//! | `send N HEX` | it writes a frame; `2e*500` is the byte 2e 500 times |
//! | `request N METHOD TARGET` | it sends a request; headers and body on the lines that follow, an empty one between |
//! | `want N ANSWER` | it waits for an answer (`answers.rs`), in which `$(..)` are placeholders (`expectation.rs`) |
//! | `hang-up N` | it closes its side of the connection |
//! | `travel SECONDS` | the daemon's time is advanced: the client's program waited |
//! | `kill`, `start` | the daemon is killed, started again |
//! | `holds ENTITY BODIES` | another client sees exactly these messages there, in this order |
//! | `\| ..` | continues the previous line |

/// One line of a conversation.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    Connect(u32),
    Send(u32, Vec<u8>),
    /// The head, without `Content-Length`, and the body.
    Request(u32, String, String),
    Want(u32, String),
    HangUp(u32),
    /// Seconds.
    Travel(f64),
    Kill,
    Start,
    Holds(String, Vec<String>),
}

/// The steps of a conversation, with the numbers of their lines.
pub(super) fn steps(text: &str) -> Vec<(usize, Step)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        match (line.strip_prefix('|'), lines.last_mut()) {
            (Some(more), Some((_, whole))) => {
                whole.push('\n');
                whole.push_str(more.strip_prefix(' ').unwrap_or(more));
            }
            _ if line.is_empty() || line.starts_with('#') => {}
            _ => lines.push((index + 1, line.to_owned())),
        }
    }
    lines.into_iter().map(|(number, line)| (number, step(number, &line))).collect()
}

fn step(number: usize, line: &str) -> Step {
    let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
    let (first, what) = rest.split_once(' ').unwrap_or((rest, ""));
    let connection = || first.parse().unwrap_or_else(|_| panic!("line {number}: {first:?} is no connection"));
    match verb {
        "connect" => Step::Connect(connection()),
        "send" => Step::Send(connection(), frame(what)),
        "request" => {
            let (head, body) = what.split_once("\n\n").unwrap_or((what, ""));
            Step::Request(connection(), head.to_owned(), body.to_owned())
        }
        "want" => Step::Want(connection(), what.to_owned()),
        "hang-up" => Step::HangUp(connection()),
        "travel" => Step::Travel(rest.parse().unwrap()),
        "kill" => Step::Kill,
        "start" => Step::Start,
        "holds" => Step::Holds(first.to_owned(), what.split_whitespace().map(str::to_owned).collect()),
        _ => panic!("line {number}: {line}"),
    }
}

/// The bytes of a frame.
fn frame(text: &str) -> Vec<u8> {
    let piece = |piece: &str| match piece.split_once('*') {
        Some((byte, times)) => super::expectation::octets(byte).repeat(times.parse().unwrap()),
        None => super::expectation::octets(piece),
    };
    text.split_whitespace().flat_map(piece).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_go_on_and_comments_are_passed_over() {
        let text = "# a comment\nrequest 1 PUT /q\n| Host: h\n|\n| <a>\n|  <b/>\nsend 2 00 ff*3\n";
        let expected = [
            (2, Step::Request(1, "PUT /q\nHost: h".to_owned(), "<a>\n <b/>".to_owned())),
            (7, Step::Send(2, vec![0, 0xff, 0xff, 0xff])),
        ];
        assert_eq!(steps(text), expected);
    }
}
