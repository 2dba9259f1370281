//! A terminal that is redrawn repeatedly while keys are read.

use std::io::{Write, stdout};
use std::thread;

use console::{Key as Pressed, Term};
use tokio::sync::mpsc;

/// Control sequences that switch to the alternate screen of the terminal, and back.
const ENTER: &str = "\u{1b}[?1049h\u{1b}[?25l";
const LEAVE: &str = "\u{1b}[?25h\u{1b}[?1049l";
const HOME: &str = "\u{1b}[H";
const CLEAR_LINE: &str = "\u{1b}[K";
const CLEAR_BELOW: &str = "\u{1b}[J";

/// A key that was pressed.
pub(super) enum Key {
    /// q, Escape or Ctrl+C, or the end of input.
    Quit,
    /// Another key.
    Other(char),
}

/// Restores the terminal when dropped.
pub(super) struct Screen {
    term: Term,
    keys: mpsc::Receiver<Key>,
}

impl Screen {
    /// Switches the terminal to the alternate screen.
    pub(super) fn open() -> Self {
        let (sender, keys) = mpsc::channel(8);
        // Reading a key can't be interrupted, so the thread ends with the key that ends the program.
        thread::spawn(move || {
            let term = Term::stdout();
            loop {
                let key = match term.read_key_raw() {
                    Ok(Pressed::Char('q' | 'Q') | Pressed::Escape | Pressed::CtrlC) | Err(_) => Key::Quit,
                    Ok(Pressed::Char(character)) => Key::Other(character),
                    Ok(_) => continue,
                };
                let is_last = matches!(key, Key::Quit);
                if sender.blocking_send(key).is_err() || is_last {
                    return;
                }
            }
        });
        let screen = Self { term: Term::stdout(), keys };
        screen.write(ENTER);
        screen
    }

    /// Resolves to the next key.
    pub(super) async fn key(&mut self) -> Key {
        self.keys.recv().await.unwrap_or(Key::Quit)
    }

    /// Draws as many lines as fit, and the current error.
    pub(super) fn draw(&self, lines: &[String], trouble: Option<&str>) {
        let (height, width) = self.term.size();
        let (height, width) = (usize::from(height), usize::from(width));
        let mut picture = HOME.to_owned();
        let lines = lines.iter().map(String::as_str);
        for (index, line) in trouble.into_iter().chain(lines).take(height).enumerate() {
            if index > 0 {
                picture.push_str("\r\n");
            }
            picture.extend(line.chars().filter(|character| !character.is_control()).take(width));
            picture.push_str(CLEAR_LINE);
        }
        picture.push_str(CLEAR_BELOW);
        self.write(&picture);
    }

    fn write(&self, text: &str) {
        let mut output = stdout();
        // If the terminal was closed, the reader of keys ends as well.
        let _ = output.write_all(text.as_bytes()).and_then(|()| output.flush());
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.write(LEAVE);
    }
}
