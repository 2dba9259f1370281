//! Sessions that other receivers may take over.

use std::io;

use super::Client;
use super::performative::{attach, terminus};
use crate::codec::{Value, code};

/// The key of the filter.
const FILTER: &str = "com.microsoft:non-exclusive-session-filter";
/// The descriptor of its value.
const DESCRIPTOR: u64 = 0x13_7000_000E;

impl Client {
    /// Attaches a receiver for a session that others may take over: the one of this name or the next available, or the
    /// one held with `token`. Returns the session and token of the answer.
    pub fn attach_shared_session(
        &mut self,
        handle: u32,
        address: &str,
        (session, token): (Option<&str>, Option<[u8; 16]>),
        credit: u32,
    ) -> io::Result<Result<(String, [u8; 16]), Value>> {
        let session = session.map_or(Value::Null, Value::string);
        let fields = Value::List(vec![session, token.map_or(Value::Null, Value::Uuid)]);
        let filter = Value::Described(Box::new(Value::Ulong(DESCRIPTOR)), Box::new(fields));
        let mut source = vec![Value::string(address)];
        source.resize(7, Value::Null);
        source.push(Value::Map(vec![(Value::symbol(FILTER), filter)]));
        let (name, source) = (format!("receiver-{handle}"), Value::composite(code::SOURCE, source));
        self.say(&attach(handle, &name, true, source, terminus(code::TARGET, &name)))?;
        let answer = match self.answered(handle)? {
            Ok(answer) => answer,
            Err(error) => return Ok(Err(error)),
        };
        self.grant(handle, credit)?;
        let Some(Value::Described(_, fields)) = answer.field(5).field(7).get(FILTER) else {
            panic!("the answer repeats no filter: {answer:?}")
        };
        match &**fields {
            Value::List(fields) => match &fields[..] {
                [Value::String(session), Value::Uuid(token)] => Ok(Ok((session.clone(), *token))),
                other => panic!("no session and token but {other:?}"),
            },
            other => panic!("no list but {other:?}"),
        }
    }
}
