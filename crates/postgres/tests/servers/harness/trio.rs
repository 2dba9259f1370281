//! A primary with two standbys, of which one must confirm each commit.

use std::sync::OnceLock;

use peeklock_postgres::{Database, DatabaseOptions};

use super::server::{Server, database, options};

/// The three servers; see the module.
#[derive(Debug)]
pub(crate) struct Trio {
    pub(crate) primary: Server,
    pub(crate) standbys: Vec<Server>,
}

impl Trio {
    /// `None` if PostgreSQL is not installed.
    pub(crate) fn start() -> Option<Self> {
        let mut primary =
            Server::start("synchronous_standby_names = 'ANY 1 (*)'\nsynchronous_commit = local")?;
        primary.stop();
        let mut standbys: Vec<Server> = (0..2).map(|_| primary.copy("")).collect();
        primary.launch();
        for standby in &mut standbys {
            standby.follow(&primary);
            standby.launch();
        }
        primary.await_sql("select count(*) from pg_stat_replication where sync_state = 'quorum'", "2");
        Some(Self { primary, standbys })
    }

    /// Ends the connections between the primary and its standbys. The primary keeps running.
    pub(crate) fn separate(&self) {
        for standby in &self.standbys {
            standby.sql("alter system set primary_conninfo = 'host=127.0.0.1 port=1'");
            standby.sql("select pg_reload_conf()");
        }
        self.primary.await_sql("select count(*) from pg_stat_replication", "0");
    }

    /// After [`Self::separate`]: makes the first standby the primary of the other one.
    pub(crate) fn promote(&self) {
        let [promoted, other] = self.standbys.as_slice() else { panic!("two standbys") };
        promoted.promote();
        let to = format!("'host=127.0.0.1 port={} user=root application_name=s'", promoted.port);
        other.sql(&format!("alter system set primary_conninfo = {to}"));
        other.sql("select pg_reload_conf()");
        promoted.await_sql("select count(*) from pg_stat_replication where state = 'streaming'", "1");
    }

    /// The instance shared by tests that change nothing but their own schema.
    pub(crate) fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<Trio>> = OnceLock::new();
        SHARED.get_or_init(Self::start).as_ref()
    }

    /// Options with all three servers.
    pub(crate) fn options(&self, schema: &str) -> DatabaseOptions {
        let servers = std::iter::once(&self.primary).chain(&self.standbys);
        let hosts: Vec<String> = servers.map(|server| format!("127.0.0.1:{}", server.port)).collect();
        let url = format!("postgres://app:secret@{}/app?target_session_attrs=read-write", hosts.join(","));
        options(&url, schema)
    }

    pub(crate) fn database(&self, schema: &str) -> Database {
        database(self.options(schema))
    }
}
