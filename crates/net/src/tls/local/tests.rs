//! Replacement of a CA while the process crashes, or while a system call fails.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use tempfile::TempDir;

use super::*;

/// A file system on which one call fails, or that one and all later ones as after a crash.
#[derive(Debug)]
struct Failing {
    at: usize,
    is_dead_then: bool,
    calls: AtomicUsize,
}

impl Failing {
    fn new(at: usize, is_dead_then: bool) -> Arc<Self> {
        Arc::new(Self { at, is_dead_then, calls: AtomicUsize::new(0) })
    }

    fn has_failed(&self) -> bool {
        self.calls.load(Ordering::Relaxed) > self.at
    }

    fn call(&self) -> io::Result<()> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let fails = call == self.at || (self.is_dead_then && call > self.at);
        if fails { Err(io::Error::other("planted")) } else { Ok(()) }
    }
}

impl Files for Failing {
    fn is_there(&self, path: &Path) -> io::Result<bool> {
        self.call().and_then(|()| Disk.is_there(path))
    }

    fn read(&self, path: &Path) -> io::Result<String> {
        self.call().and_then(|()| Disk.read(path))
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.call().and_then(|()| Disk.create_directory(path))
    }

    /// A failure leaves half of the text in the file.
    fn write_new(&self, path: &Path, text: &str, mode: u32) -> io::Result<()> {
        match self.call() {
            Ok(()) => Disk.write_new(path, text, mode),
            Err(error) if self.calls.load(Ordering::Relaxed) == self.at + 1 => {
                Disk.write_new(path, &text[..text.len() / 2], mode).and(Err(error))
            }
            Err(error) => Err(error),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call().and_then(|()| Disk.rename(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.call().and_then(|()| Disk.remove(path))
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        self.call().and_then(|()| Disk.sync_directory(path))
    }
}

/// The files of a directory with their contents.
type Contents = BTreeMap<String, String>;

fn contents(directory: &Path) -> Contents {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap()))
        .collect()
}

/// A new directory with these files.
fn home_with(contents: &Contents) -> TempDir {
    let home = TempDir::new().unwrap();
    contents.iter().for_each(|(name, text)| fs::write(home.path().join(name), text).unwrap());
    home
}

fn on_disk(home: &TempDir) -> Local {
    Local::new(home.path().to_owned(), &[])
}

const YEARS: Duration = Duration::from_secs(3_650 * 24 * 60 * 60);

/// Starts at `time` from `before` once for every call, with that call failing alone or with all later ones as after a
/// crash; then passes the directory to `check`.
fn fail_at_each_call(before: &Contents, time: SystemTime, check: impl Fn(&TempDir, &str)) {
    for is_dead_then in [true, false] {
        for at in 0.. {
            let home = home_with(before);
            let failing = Failing::new(at, is_dead_then);
            let files: Arc<dyn Files> = Arc::clone(&failing) as _;
            let started = Local { files, ..on_disk(&home) }.ensure(time);
            if !failing.has_failed() {
                assert!(at > 5, "it was never interrupted");
                break;
            }
            let place = format!("call {at}, dead then: {is_dead_then}");
            if let Err(error) = started {
                let text = error.to_string();
                assert!(
                    text.contains(home.path().to_str().unwrap()) && text.contains("planted"),
                    "{place}: {text}"
                );
            }
            check(&home, &place);
        }
    }
}

/// The state after every start: a CA with its key, a server's certificate issued by it, and no temporary files.
fn assert_whole(home: &TempDir, place: &str) {
    let local = on_disk(home);
    let found = contents(home.path());
    let identity = Identity::read(&local.authority(), &home.path().join(CA_KEY_FILE));
    let identity = identity.unwrap_or_else(|error| panic!("{place}: {error}"));
    let server = Identity::read(&home.path().join(SERVER_FILE), &home.path().join(SERVER_KEY_FILE)).unwrap();
    let issuer = certificate_fields::issuer(&server.chain[0]);
    assert_eq!(issuer, certificate_fields::subject(&identity.chain[0]), "{place}");
    assert!(!found.keys().any(|name| name.ends_with(replacement::NEXT)), "{place}: {:?}", found.keys());
}

#[test]
fn a_ca_that_is_put_aside_is_whole_after_a_crash_at_each_step() {
    let (now, home) = (SystemTime::now(), TempDir::new().unwrap());
    on_disk(&home).ensure(now).unwrap();
    let before = contents(home.path());
    fail_at_each_call(&before, now + YEARS, |home, place| {
        on_disk(home).ensure(now + YEARS).unwrap_or_else(|error| panic!("{place}: {error}"));
        assert_whole(home, place);
        let found = contents(home.path());
        assert_ne!(found[CA_FILE], before[CA_FILE], "{place}");
        for name in [CA_FILE, CA_KEY_FILE] {
            assert_eq!(found[&previous(name)], before[name], "{place}: the CA before is kept");
        }
    });
}

/// The clock was ahead, and the process crashed while it made another CA: clients that trust the previous one are
/// unaffected.
#[test]
fn a_ca_that_was_to_be_put_aside_comes_back_after_a_crash_at_each_step() {
    let (now, home) = (SystemTime::now(), TempDir::new().unwrap());
    on_disk(&home).ensure(now).unwrap();
    let before = contents(home.path());
    fail_at_each_call(&before, now + YEARS, |home, place| {
        on_disk(home).ensure(now).unwrap_or_else(|error| panic!("{place}: {error}"));
        assert_whole(home, place);
        let found = contents(home.path());
        assert_eq!(
            [&found[CA_FILE], &found[CA_KEY_FILE]],
            [&before[CA_FILE], &before[CA_KEY_FILE]],
            "{place}"
        );
    });
}

#[test]
fn two_cas_that_change_places_are_whole_after_a_crash_at_each_step() {
    let (now, home) = (SystemTime::now(), TempDir::new().unwrap());
    on_disk(&home).ensure(now).unwrap();
    let first = contents(home.path());
    on_disk(&home).ensure(now + YEARS).unwrap();
    let before = contents(home.path());
    fail_at_each_call(&before, now, |home, place| {
        on_disk(home).ensure(now).unwrap_or_else(|error| panic!("{place}: {error}"));
        assert_whole(home, place);
        let found = contents(home.path());
        for name in [CA_FILE, CA_KEY_FILE] {
            assert_eq!(found[name], first[name], "{place}");
            assert_eq!(found[&previous(name)], before[name], "{place}: the later one is kept");
        }
    });
}

#[test]
fn the_first_ca_is_whole_after_a_crash_at_each_step() {
    let now = SystemTime::now();
    fail_at_each_call(&Contents::new(), now, |home, place| {
        on_disk(home).ensure(now).unwrap_or_else(|error| panic!("{place}: {error}"));
        assert_whole(home, place);
    });
}

/// Only damage causes such files.
#[test]
fn next_files_that_do_not_belong_together_are_refused_with_advice() {
    let (now, home) = (SystemTime::now(), TempDir::new().unwrap());
    on_disk(&home).ensure(now).unwrap();
    for (name, source) in [("ca.pem.next", CA_FILE), ("ca.key.next", SERVER_KEY_FILE)] {
        fs::copy(home.path().join(source), home.path().join(name)).unwrap();
    }
    let before = contents(home.path());
    let error = on_disk(&home).ensure(now).unwrap_err().to_string();
    assert!(error.contains("ca.pem.next") && error.contains("remove it and"), "{error}");
    assert_eq!(contents(home.path()), before, "nothing is touched");
}

/// A lack of descriptors, an error of the device and the like say nothing about the file: nobody should remove a CA that
/// clients trust.
#[test]
fn a_ca_that_can_not_be_read_is_not_taken_for_a_damaged_one() {
    let home = TempDir::new().unwrap();
    let local = Local::new(home.path().to_owned(), &[]);
    local.ensure(SystemTime::now()).unwrap();
    fs::remove_file(local.authority()).unwrap();
    fs::create_dir(local.authority()).unwrap();
    let error = local.ensure(SystemTime::now()).unwrap_err();
    assert!(matches!(error, TlsError::File { .. }), "{error:?}");
    assert!(error.to_string().contains("ca.pem") && !error.to_string().contains("remove"), "{error}");
}
