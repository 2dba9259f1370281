//! TLS, passwords and client certificates, with a certificate authority of the test.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use peeklock_postgres::{Database, DatabaseOptions, Durability, PostgresMetrics};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use crate::harness::Server;

struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "authority of a test");
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// Certificate and key.
    fn issue(&self, names: &[&str], common_name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, common_name);
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }
}

/// A server that admits `app` and `rotated` by password and `shown` by certificate, both with TLS only.
fn server() -> Option<&'static (Authority, Server)> {
    static SERVER: OnceLock<Option<(Authority, Server)>> = OnceLock::new();
    SERVER.get_or_init(start).as_ref()
}

fn start() -> Option<(Authority, Server)> {
    let (authority, server) = (Authority::new(), Server::start("")?);
    server.sql("create role shown login in role app");
    let (certificate, key) = authority.issue(&["localhost"], "server");
    server.write("server.crt", &certificate);
    server.write("server.key", &key);
    server.write("root.crt", &authority.pem);
    server.write(
        "pg_hba.conf",
        "host all root 127.0.0.1/32 trust
         hostssl app app 127.0.0.1/32 scram-sha-256
         hostssl app rotated 127.0.0.1/32 scram-sha-256
         hostssl app shown 127.0.0.1/32 cert
         local app app scram-sha-256",
    );
    server.sql("alter system set ssl_ca_file = 'root.crt'");
    server.set("ssl", "on");
    Some((authority, server))
}

async fn connect(url: &str) -> Result<(), String> {
    let options = DatabaseOptions::parse(url).map_err(|error| error.to_string())?;
    let options = options.with_durability(Durability::Service);
    let database = Database::new(options, PostgresMetrics::default()).map_err(|error| error.to_string())?;
    database.connect("test").await.map(|_| ()).map_err(|error| error.to_string())
}

fn file(folder: &Path, name: &str, contents: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, contents).unwrap();
    path.display().to_string()
}

#[tokio::test]
async fn the_modes_of_tls_check_what_they_say() {
    let Some((authority, server)) = server() else { return };
    let folder = tempfile::tempdir().unwrap();
    let ca = file(folder.path(), "ca.pem", &authority.pem);
    let other_ca = file(folder.path(), "other.pem", &Authority::new().pem);
    let url = |host: &str, query: &str| format!("postgres://app:secret@{host}:{}/app?{query}", server.port);
    for (host, query) in [
        ("localhost", format!("sslmode=verify-full&sslrootcert={ca}&hostaddr=127.0.0.1")),
        ("127.0.0.1", format!("sslmode=verify-ca&sslrootcert={ca}")),
        ("127.0.0.1", format!("sslmode=require&sslrootcert={ca}")),
        ("127.0.0.1", "sslmode=require".to_owned()),
        ("127.0.0.1", "sslmode=prefer&channel_binding=require".to_owned()),
        ("127.0.0.1", String::new()),
    ] {
        connect(&url(host, &query)).await.unwrap_or_else(|error| panic!("{query}: {error}"));
    }
    for (query, reason) in [
        (format!("sslmode=verify-full&sslrootcert={ca}"), "certificate"),
        (format!("sslmode=verify-ca&sslrootcert={other_ca}"), "certificate"),
        (format!("sslmode=require&sslrootcert={other_ca}"), "certificate"),
        ("sslmode=disable".to_owned(), "no encryption"),
        ("sslmode=verify-full&sslrootcert=/nowhere.pem".to_owned(), "sslrootcert /nowhere.pem"),
    ] {
        let refused = connect(&url("127.0.0.1", &query)).await.unwrap_err();
        assert!(refused.contains(reason), "{query}: {refused}");
        assert!(!refused.contains("secret"), "{refused}");
    }
}

#[tokio::test]
async fn a_wrong_password_is_refused_and_a_right_one_or_a_certificate_is_not() {
    let Some((authority, server)) = server() else { return };
    let port = server.port;
    let wrong = connect(&format!("postgres://app:wrong@127.0.0.1:{port}/app")).await.unwrap_err();
    assert!(wrong.contains("password authentication failed") && !wrong.contains("wrong"), "{wrong}");
    let options = DatabaseOptions::parse(&format!("postgres://app:wrong@127.0.0.1:{port}/app")).unwrap();
    let options = options.with_durability(Durability::Service).with_password("secret");
    Database::new(options, PostgresMetrics::default()).unwrap().connect("test").await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = authority.issue(&[], "shown");
    let certificate = file(folder.path(), "client.pem", &certificate);
    let key = file(folder.path(), "client.key", &key);
    let shown =
        format!("postgres://shown@127.0.0.1:{port}/app?sslmode=require&sslcert={certificate}&sslkey={key}");
    connect(&shown).await.unwrap();
    let url = format!("postgres://shown@127.0.0.1:{port}/app?sslmode=require");
    assert!(connect(&url).await.unwrap_err().contains("certificate"));
}

#[tokio::test]
async fn renewed_certificates_are_used_by_the_next_connection() {
    let Some((authority, server)) = server() else { return };
    let folder = tempfile::tempdir().unwrap();
    let replace = |(certificate, key): (String, String)| {
        (file(folder.path(), "client.pem", &certificate), file(folder.path(), "client.key", &key))
    };
    let (certificate, key) = replace(Authority::new().issue(&[], "shown"));
    let ca = file(folder.path(), "ca.pem", &Authority::new().pem);
    let url = format!(
        "postgres://shown@127.0.0.1:{}/app?sslmode=verify-ca&sslrootcert={ca}&sslcert={certificate}&sslkey={key}",
        server.port
    );
    let options = DatabaseOptions::parse(&url).unwrap().with_durability(Durability::Service);
    let database = Database::new(options, PostgresMetrics::default()).unwrap();
    database.connect("test").await.unwrap_err();
    file(folder.path(), "ca.pem", &authority.pem);
    database.connect("test").await.unwrap_err();
    replace(authority.issue(&[], "shown"));
    database.connect("test").await.unwrap();
    // Files that are being written.
    file(folder.path(), "client.key", "-----BEGIN");
    database.connect("test").await.unwrap();
}

#[tokio::test]
async fn a_rotated_password_in_the_file_is_used_by_the_next_connection() {
    let Some((_, server)) = server() else { return };
    server.sql("create role rotated login in role app password 'first'");
    server.sql("alter role rotated in database app set role app");
    let folder = tempfile::tempdir().unwrap();
    let url = |password: &str| format!("postgres://rotated:{password}@127.0.0.1:{}/app", server.port);
    let path = file(folder.path(), "url", &url("first"));
    let options = DatabaseOptions::parse(&url("first")).unwrap().with_durability(Durability::Service);
    let options = options.with_url_source(move || fs::read_to_string(&path));
    let database = Database::new(options, PostgresMetrics::default()).unwrap();
    let open = database.connect("test").await.unwrap();
    server.sql("alter role rotated password 'second'");
    assert!(database.connect("test").await.unwrap_err().to_string().contains("authentication failed"));
    file(folder.path(), "url", &url("second"));
    database.connect("test").await.unwrap();
    // A file that is being written.
    file(folder.path(), "url", "postgres:");
    database.connect("test").await.unwrap();
    open.query_one("select 1", &[]).await.unwrap();
}

#[tokio::test]
async fn a_socket_in_the_file_system_needs_no_tls() {
    let Some((_, server)) = server() else { return };
    let folder = server.folder().display().to_string().replace('/', "%2F");
    connect(&format!("postgres://app:secret@{folder}:{}/app", server.port)).await.unwrap();
}
