//! Which node of a cluster serves which shard: leases that nodes hold in a table that all of them see.
