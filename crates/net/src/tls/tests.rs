//! Certificates made, kept, reloaded and refused.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::certificates::{CertificateSource, Certificates, Now, TlsOptions};
use super::local::Local;
use super::pem::{self, Identity};
use super::{Tls, certificate_fields, provider};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn local(directory: &Path, names: &[&str]) -> TlsOptions {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    TlsOptions {
        source: CertificateSource::Local { directory: directory.to_owned(), names },
        client_ca: None,
    }
}

/// A client that trusts `authority` and presents `own`.
fn client(authority: &Path, own: Option<Identity>) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    for certificate in pem::certificates("CA", authority).unwrap() {
        roots.add(certificate).unwrap();
    }
    let builder =
        ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_root_certificates(roots);
    let config = match own {
        None => builder.with_no_client_auth(),
        Some(own) => builder.with_client_auth_cert(own.chain, own.key).unwrap(),
    };
    TlsConnector::from(Arc::new(config))
}

/// The client's subject as seen by the server, or the error of the handshake.
async fn meet(tls: &Tls, client: &TlsConnector, name: &str) -> Result<Option<Arc<str>>, String> {
    let (near, far) = duplex(1 << 14);
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let server = async {
        let mut stream = tls.accept(far).await.map_err(|error| error.to_string())?;
        stream.write_all(b"!").await.map_err(|error| error.to_string())?;
        stream.flush().await.map_err(|error| error.to_string())?;
        Ok(Tls::subject(&stream))
    };
    let client = async {
        let mut stream = client.connect(name, near).await.map_err(|error| error.to_string())?;
        stream.read_u8().await.map_err(|error| error.to_string())
    };
    let (served, connected) = tokio::join!(server, client);
    connected.and(served)
}

#[tokio::test]
async fn a_broker_without_tls_files_makes_a_certificate_that_clients_can_verify() {
    let home = TempDir::new().unwrap();
    let tls = Arc::new(Tls::default());
    let certificates =
        Certificates::load(local(home.path(), &["broker.example", "192.0.2.7"]), Arc::clone(&tls), now());
    let client = client(&certificates.unwrap().authority().unwrap(), None);
    for name in ["localhost", "127.0.0.1", "::1", "broker.example", "192.0.2.7"] {
        assert_eq!(meet(&tls, &client, name).await, Ok(None), "{name}");
    }
    assert!(meet(&tls, &client, "other.example").await.is_err());
    for key in ["ca.key", "server.key"] {
        assert_eq!(fs::metadata(home.path().join(key)).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[tokio::test]
async fn a_connection_waits_for_the_first_certificate() {
    let home = TempDir::new().unwrap();
    let tls = Arc::new(Tls::default());
    let local_options = local(home.path(), &[]);
    Certificates::load(local_options.clone(), Arc::default(), now()).unwrap();
    let client = client(&home.path().join("ca.pem"), None);
    let load = async { Certificates::load(local_options, Arc::clone(&tls), now()).unwrap() };
    let (met, _) = tokio::join!(meet(&tls, &client, "localhost"), load);
    assert_eq!(met, Ok(None));
}

/// The machine's time.
fn now() -> Now {
    Arc::new(SystemTime::now)
}

/// The clock is ten years ahead at one start and right at the next: clients that trust the CA continue to trust the
/// broker.
#[test]
fn the_ca_comes_back_when_the_clock_does() {
    let home = TempDir::new().unwrap();
    let (now, years) = (SystemTime::now(), 3_650 * DAY);
    let local = Local::new(home.path().to_owned(), &[]);
    let first = local.ensure(now).unwrap();
    let authority = fs::read(local.authority()).unwrap();
    local.ensure(now + years).unwrap();
    let later = fs::read(local.authority()).unwrap();
    assert_ne!(later, authority);
    let back = local.ensure(now).unwrap();
    assert_eq!(fs::read(local.authority()).unwrap(), authority);
    assert_eq!(certificate_fields::issuer(&back.chain[0]), certificate_fields::issuer(&first.chain[0]));
    local.ensure(now + years).unwrap();
    assert_eq!(fs::read(local.authority()).unwrap(), later, "no third one is made");
}

/// A machine's clock may be behind by any number of days, down to the earliest time of the broker.
#[tokio::test]
async fn a_clock_that_is_behind_leaves_the_ca_alone() {
    let home = TempDir::new().unwrap();
    let now = SystemTime::now();
    let local = Local::new(home.path().to_owned(), &[]);
    local.ensure(now).unwrap();
    let authority = fs::read(local.authority()).unwrap();
    let tls = Arc::new(Tls::default());
    let client = client(&local.authority(), None);
    for (past, clients_agree) in [(now - 5 * DAY, true), (first_of_2023(), false), (now, true)] {
        let server = local.ensure(past).unwrap();
        assert!(certificate_fields::outlasts(&server.chain[0], past, DAY), "it is for the broker's time");
        tls.set(server, None).unwrap();
        assert_eq!(fs::read(local.authority()).unwrap(), authority);
        assert_eq!(meet(&tls, &client, "localhost").await.is_ok(), clients_agree);
    }
    assert!(!home.path().join("ca.pem.previous").exists());
}

/// The clock is ahead twice, and corrected each time.
#[test]
fn a_clock_that_is_ahead_again_and_again_ends_with_the_first_ca() {
    let home = TempDir::new().unwrap();
    let now = SystemTime::now();
    let local = Local::new(home.path().to_owned(), &[]);
    local.ensure(now).unwrap();
    let authority = fs::read(local.authority()).unwrap();
    for years in [10, 4, 30, 11] {
        local.ensure(now + years * 365 * DAY).unwrap();
        local.ensure(now + 2 * DAY).unwrap();
        assert_eq!(fs::read(local.authority()).unwrap(), authority, "{years}");
    }
}

/// The CA expired as time passed, and later the clock is once behind by some days.
#[test]
fn a_ca_that_ended_does_not_come_back_for_some_days() {
    let home = TempDir::new().unwrap();
    let start = SystemTime::now();
    let local = Local::new(home.path().to_owned(), &[]);
    local.ensure(start).unwrap();
    let end = start + (3_650 - 120) * DAY;
    local.ensure(end).unwrap();
    let second = fs::read(local.authority()).unwrap();
    local.ensure(end - 20 * DAY).unwrap();
    assert_eq!(fs::read(local.authority()).unwrap(), second);
}

/// A CA as earlier versions made it at the time `made`: its validity begins a day before.
fn earlier_authority(home: &TempDir, made: SystemTime) {
    let local = Local::new(home.path().to_owned(), &[]);
    local.ensure(made).unwrap();
    let stored = Identity::read(&local.authority(), &home.path().join("ca.key")).unwrap();
    let pair = rcgen::KeyPair::try_from(&stored.key).unwrap();
    let subject = certificate_fields::subject(&stored.chain[0]).unwrap();
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(rcgen::DnType::CommonName, subject.strip_prefix("CN=").unwrap());
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Constrained(0));
    params.not_before = (made - DAY).into();
    params.not_after = (made + 3_650 * DAY).into();
    fs::write(local.authority(), params.self_signed(&pair).unwrap().pem()).unwrap();
}

/// The first of January 2023: the broker's time is never earlier.
fn first_of_2023() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_672_531_200)
}

/// The clock is behind now, or was ahead then: either way clients need no new CA certificate.
#[tokio::test]
async fn a_ca_of_an_earlier_version_that_begins_later_keeps_its_key() {
    let (now, tls) = (SystemTime::now(), Arc::new(Tls::default()));
    for (made, restarted) in [(now, now - 5 * DAY), (now + 5 * DAY, now)] {
        let home = TempDir::new().unwrap();
        earlier_authority(&home, made);
        let local = Local::new(home.path().to_owned(), &[]);
        let told_before = client(&local.authority(), None);
        let key = fs::read(home.path().join("ca.key")).unwrap();
        let end = |local: &Local| {
            certificate_fields::end(&pem::certificates("CA", &local.authority()).unwrap()[0]).unwrap()
        };
        let ends = end(&local);
        tls.set(local.ensure(restarted).unwrap(), None).unwrap();
        assert_eq!(fs::read(home.path().join("ca.key")).unwrap(), key);
        assert_eq!(end(&local), ends);
        assert_eq!(meet(&tls, &told_before, "localhost").await, Ok(None));
        assert_eq!(meet(&tls, &client(&local.authority(), None), "localhost").await, Ok(None));
        let authority = fs::read(local.authority()).unwrap();
        for time in [first_of_2023(), now, made] {
            tls.set(local.ensure(time).unwrap(), None).unwrap();
            assert_eq!(fs::read(local.authority()).unwrap(), authority, "it begins for all times now");
        }
        assert!(!home.path().join("ca.pem.previous").exists());
    }
}

/// An earlier version replaced a CA whose validity had not begun, and both are valid now: which one clients trust is
/// unknown.
#[test]
fn of_two_good_cas_the_current_one_stays() {
    let home = TempDir::new().unwrap();
    let now = SystemTime::now();
    let local = Local::new(home.path().to_owned(), &[]);
    local.ensure(now).unwrap();
    for name in ["ca.key", "ca.pem"] {
        fs::rename(home.path().join(name), home.path().join(format!("{name}.previous"))).unwrap();
    }
    local.ensure(now - 5 * DAY).unwrap();
    let authority = fs::read(local.authority()).unwrap();
    local.ensure(now + DAY).unwrap();
    assert_eq!(fs::read(local.authority()).unwrap(), authority);
}

/// The hourly check uses the clock that certificates are made with, also when that is set back.
#[test]
fn a_clock_that_was_corrected_is_followed() {
    let home = TempDir::new().unwrap();
    let start = SystemTime::now();
    let time = Arc::new(std::sync::Mutex::new(start));
    let clock = Arc::clone(&time);
    let now: Now = Arc::new(move || *clock.lock().unwrap());
    let certificates = Certificates::load(local(home.path(), &[]), Arc::default(), now).unwrap();
    let authority = certificates.authority().unwrap();
    let first = fs::read(&authority).unwrap();
    *time.lock().unwrap() = start + 3_650 * DAY;
    certificates.look();
    assert_ne!(fs::read(&authority).unwrap(), first);
    *time.lock().unwrap() = start;
    certificates.look();
    assert_eq!(fs::read(&authority).unwrap(), first);
}

#[test]
fn the_ca_stays_and_the_certificate_is_made_anew_when_it_must() {
    let home = TempDir::new().unwrap();
    let now = SystemTime::now();
    let plain = Local::new(home.path().to_owned(), &[]);
    let first = plain.ensure(now).unwrap();
    let authority = fs::read(plain.authority()).unwrap();
    assert_eq!(plain.ensure(now + 59 * DAY).unwrap().chain, first.chain, "good for long enough");
    let renewed = plain.ensure(now + 61 * DAY).unwrap();
    assert_ne!(renewed.chain, first.chain);
    assert!(certificate_fields::end(&renewed.chain[0]) > certificate_fields::end(&first.chain[0]));
    let named = Local::new(home.path().to_owned(), &["Broker.Example".into()]).ensure(now).unwrap();
    assert!(certificate_fields::names(&named.chain[0]).contains("broker.example"));
    fs::write(home.path().join("server.pem"), "nonsense").unwrap();
    plain.ensure(now).unwrap();
    assert_eq!(fs::read(plain.authority()).unwrap(), authority);
    plain.ensure(now + 3_600 * DAY).unwrap();
    assert_ne!(fs::read(plain.authority()).unwrap(), authority, "a CA that would end too soon is replaced");
}

#[test]
fn a_damaged_ca_is_refused_with_advice() {
    let home = TempDir::new().unwrap();
    let local = Local::new(home.path().to_owned(), &[]);
    local.ensure(SystemTime::now()).unwrap();
    fs::remove_file(home.path().join("ca.key")).unwrap();
    let error = local.ensure(SystemTime::now()).unwrap_err().to_string();
    assert!(error.contains("ca.key") && error.contains("to create new certificates"), "{error}");
}

#[test]
fn a_ca_certificate_lost_in_a_crash_is_made_anew_from_its_key() {
    let home = TempDir::new().unwrap();
    let local = Local::new(home.path().to_owned(), &[]);
    let server = local.ensure(SystemTime::now()).unwrap();
    let read = || super::pem::certificates("CA certificate", &local.authority()).unwrap().remove(0);
    let before = read();
    fs::remove_file(local.authority()).unwrap();
    let again = local.ensure(SystemTime::now()).unwrap();
    assert_eq!(
        again.chain, server.chain,
        "the CA that clients trust still verifies the server's certificate"
    );
    assert_eq!(certificate_fields::subject(&read()), certificate_fields::subject(&before));
}

/// Certificate and key files for one name, made in another directory.
fn files(home: &TempDir, name: &str) -> (std::path::PathBuf, std::path::PathBuf) {
    let directory = home.path().join(name);
    Local::new(directory.clone(), &[format!("{name}.example")]).ensure(SystemTime::now()).unwrap();
    (directory.join("server.pem"), directory.join("server.key"))
}

#[tokio::test]
async fn changed_files_count_and_broken_ones_do_not() {
    let home = TempDir::new().unwrap();
    let (one, one_key) = files(&home, "one");
    let (two, two_key) = files(&home, "two");
    let (certificate, key) = (home.path().join("tls.pem"), home.path().join("tls.key"));
    fs::copy(&one, &certificate).unwrap();
    fs::copy(&one_key, &key).unwrap();
    let source = CertificateSource::Files { certificate: certificate.clone(), key: key.clone() };
    let tls = Arc::new(Tls::default());
    let certificates =
        Certificates::load(TlsOptions { source, client_ca: None }, Arc::clone(&tls), now()).unwrap();
    let (first, second) =
        (client(&one.with_file_name("ca.pem"), None), client(&two.with_file_name("ca.pem"), None));
    assert_eq!(meet(&tls, &first, "one.example").await, Ok(None));

    fs::copy(&two, &certificate).unwrap();
    let error = certificates.reload().unwrap_err().to_string();
    assert!(
        error.contains("tls.key") && error.contains("is not the key of the first certificate"),
        "{error}"
    );
    certificates.look();
    assert_eq!(meet(&tls, &first, "one.example").await, Ok(None), "the old one stays");

    fs::copy(&two_key, &key).unwrap();
    // Copies made within one tick of the file system's clock have equal times and lengths.
    certificates.reload().unwrap();
    assert_eq!(meet(&tls, &second, "two.example").await, Ok(None));
    assert!(meet(&tls, &first, "one.example").await.is_err());
}

#[test]
fn broken_files_are_refused_with_file_and_reason() {
    let home = TempDir::new().unwrap();
    let (good, good_key) = files(&home, "one");
    let nonsense = home.path().join("nonsense.pem");
    fs::write(&nonsense, "nonsense").unwrap();
    let torn = home.path().join("torn.pem");
    fs::write(&torn, &fs::read(&good).unwrap()[..200]).unwrap();
    let wrong = home.path().join("wrong.pem");
    fs::write(&wrong, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
    let encrypted = home.path().join("encrypted.key");
    let header = "ENCRYPTED PRIVATE KEY";
    fs::write(&encrypted, format!("-----BEGIN {header}-----\nAAAA\n-----END {header}-----\n")).unwrap();
    let missing = home.path().join("missing.pem");
    for (certificate, key, client_ca, file, reason) in [
        (&missing, &good_key, None, "missing.pem", "No such file"),
        (&nonsense, &good_key, None, "nonsense.pem", "holds no certificate"),
        (&torn, &good_key, None, "torn.pem", "it has no line \"-----END CERTIFICATE-----\""),
        (&wrong, &good_key, None, "wrong.pem", "can't be used"),
        (&good, &missing, None, "missing.pem", "No such file"),
        (&good, &nonsense, None, "nonsense.pem", "holds no private key"),
        (&good, &encrypted, None, "encrypted.key", "holds an encrypted key"),
        (&good, &good_key, Some(&nonsense), "nonsense.pem", "holds no certificate"),
        (&good, &good_key, Some(&wrong), "wrong.pem", "is no CA certificate"),
    ] {
        let source = CertificateSource::Files { certificate: certificate.clone(), key: key.clone() };
        let options = TlsOptions { source, client_ca: client_ca.cloned() };
        let error = Certificates::load(options, Arc::default(), now()).unwrap_err().to_string();
        assert!(error.contains(file) && error.contains(reason), "{error}");
    }
}

#[tokio::test]
async fn client_certificates_are_verified_if_shown_and_tell_their_subject() {
    let home = TempDir::new().unwrap();
    let authority = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let client_ca = home.path().join("clients.pem");
    fs::write(&client_ca, params.self_signed(&authority).unwrap().pem()).unwrap();
    let issuer = rcgen::Issuer::new(params, authority);
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(rcgen::DnType::OrganizationName, "Example");
    params.distinguished_name.push(rcgen::DnType::CommonName, "orders");
    let key = rcgen::KeyPair::generate().unwrap();
    let (certificate_file, key_file) = (home.path().join("client.pem"), home.path().join("client.key"));
    fs::write(&certificate_file, params.signed_by(&key, &issuer).unwrap().pem()).unwrap();
    fs::write(&key_file, key.serialize_pem()).unwrap();

    let tls = Arc::new(Tls::default());
    let options = TlsOptions { client_ca: Some(client_ca), ..local(&home.path().join("tls"), &[]) };
    let authority = Certificates::load(options, Arc::clone(&tls), now()).unwrap().authority().unwrap();
    assert_eq!(meet(&tls, &client(&authority, None), "localhost").await, Ok(None), "none is fine");
    let known = client(&authority, Some(Identity::read(&certificate_file, &key_file).unwrap()));
    assert_eq!(meet(&tls, &known, "localhost").await.unwrap().as_deref(), Some("CN=orders,O=Example"));
    let (foreign, foreign_key) = files(&home, "foreign");
    let unknown = client(&authority, Some(Identity::read(&foreign, &foreign_key).unwrap()));
    assert!(meet(&tls, &unknown, "localhost").await.is_err(), "another CA");
}
