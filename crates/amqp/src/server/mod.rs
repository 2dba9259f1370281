//! Sockets: the listener and one task per connection.
