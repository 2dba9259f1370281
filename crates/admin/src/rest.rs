//! The messaging API: messages over HTTP.
