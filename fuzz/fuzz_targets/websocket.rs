//! A WebSocket: a byte that splits what follows, a request's headers up to an empty line, and frames.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((split, rest)) = input.split_first() else { return };
    peeklock_net::websocket::exercise_handshake(rest);
    peeklock_net::websocket::exercise(rest, usize::from(*split));
});
