//! AMQP over WebSockets: the handshake, and a byte stream made of binary frames.
//!
//! Bytes are passed on as they arrive, in any frames and fragments, so that a frame's length does not affect memory:
//! some clients send everything in one frame. Frame headers are parsed by tungstenite; only the payload is handled
//! here.

mod handshake;
mod input;
mod stream;
#[cfg(test)]
mod tests;

pub use handshake::{PATH, Refused, exercise_handshake, is_asked_for, shake_hands};
pub use input::exercise;
pub use stream::WebSocket;
