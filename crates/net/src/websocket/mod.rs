//! AMQP over WebSockets: the handshake, and a byte stream made of binary frames.
//!
//! Bytes are handed on as they come, in whatever frames and fragments, so that a frame's length is no matter of memory:
//! some clients put everything they have to say into one. Frame headers are tungstenite's; only their payloads are
//! ours.

mod handshake;
mod input;
mod stream;
#[cfg(test)]
mod tests;

pub use handshake::{PATH, Refused, exercise_handshake, is_asked_for, shake_hands};
pub use input::exercise;
pub use stream::WebSocket;
