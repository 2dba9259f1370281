//! The replicated log of a shard on PostgreSQL, with synchronous standbys.
