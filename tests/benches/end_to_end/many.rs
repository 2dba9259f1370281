//! Large numbers of idle connections, entities, waiting messages and sessions.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use peeklock_tests::client::Client;
use peeklock_tests::daemon::Daemon;
use peeklock_tests::http;

use crate::figures::Figure;
use crate::load::{Load, Through, receive, send};
use crate::work::spend;

/// Idle connections. Their sockets count for this process and for the daemon, each of which may have 20 000
/// descriptors.
const CONNECTIONS: u32 = 10_000;
/// Queues over which their links are distributed.
const IDLE_QUEUES: u32 = 100;
/// Credit granted by an idle receiver.
const IDLE_CREDIT: u32 = 100;
const ENTITIES: u32 = 10_000;
/// Threads of the generator.
const THREADS: u32 = 4;
/// How long a figure may take to become stable, and how often it is read.
const REST_MAX: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(500);
/// Number of consecutive readings that must differ by less than a hundredth to count as stable.
const RESTING_LOOKS: u32 = 6;

/// The link of an idle connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Idle {
    Sender,
    Receiver,
}

/// Reads a number until it is stable.
fn at_rest(mut read: impl FnMut() -> u64) -> u64 {
    let start = Instant::now();
    let (mut last, mut same) = (read(), 0);
    while same < RESTING_LOOKS && start.elapsed() < REST_MAX {
        thread::sleep(LOOK);
        let now = read();
        same = if now.abs_diff(last) * 100 <= last { same + 1 } else { 0 };
        last = now;
    }
    last
}

fn queues(count: u32) -> String {
    (0..count).map(|queue| format!("[[queues]]\nname = \"q{queue}\"\n")).collect()
}

/// The cost of an idle connection with a session and a link.
pub(crate) fn idle_connections(binary: &Path, idle: Idle) -> Vec<Figure> {
    let config = format!("[amqp]\nconnections_max = {}\n{}", 2 * CONNECTIONS, queues(IDLE_QUEUES));
    let daemon = Daemon::of_binary(binary, &config);
    drop(connect(&daemon, idle, 0));
    let before = at_rest(|| daemon.resident_bytes());
    let start = Instant::now();
    let connections: Vec<Client> = thread::scope(|scope| {
        let part = |thread| (0..CONNECTIONS).filter(move |number| number % THREADS == thread);
        let daemon = &daemon;
        let open =
            |thread| move || part(thread).map(|number| connect(daemon, idle, number)).collect::<Vec<_>>();
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(open(thread))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let per_s = f64::from(CONNECTIONS) / start.elapsed().as_secs_f64();
    let after = at_rest(|| daemon.resident_bytes());
    let cpu = daemon.cpu_time();
    thread::sleep(Duration::from_secs(2));
    let idle_cpu = (daemon.cpu_time() - cpu).as_secs_f64() / 2.0;
    drop(connections);
    let each = after.saturating_sub(before) as f64 / f64::from(CONNECTIONS);
    vec![
        Figure::lower("bytes_each", each),
        Figure::higher("opened_per_s", per_s),
        Figure::lower("cpu_share_idle", idle_cpu),
    ]
}

fn connect(daemon: &Daemon, idle: Idle, number: u32) -> Client {
    let mut client = Client::connect(daemon.amqp()).unwrap();
    let queue = format!("q{}", number % IDLE_QUEUES);
    match idle {
        Idle::Sender => client.attach_sender(0, &queue).unwrap().unwrap(),
        Idle::Receiver => client.attach_receiver(0, &queue, IDLE_CREDIT).unwrap().unwrap(),
    }
    client
}

/// The cost of unused entities: memory, start, a page of a listing.
pub(crate) fn entities(binary: &Path) -> Vec<Figure> {
    let empty = {
        let daemon = Daemon::of_binary(binary, "");
        at_rest(|| daemon.resident_bytes())
    };
    let start = Instant::now();
    let mut daemon = Daemon::of_binary(binary, &queues(ENTITIES));
    let created = start.elapsed();
    let fresh = at_rest(|| daemon.resident_bytes());
    daemon.kill();
    // They are stored, and a configuration only adds entities.
    daemon.set_config("");
    let start = Instant::now();
    daemon.start();
    let started = start.elapsed();
    let page = last_page(&daemon);
    let restarted = at_rest(|| daemon.resident_bytes());
    let each = |bytes: u64| bytes.saturating_sub(empty) as f64 / f64::from(ENTITIES);
    vec![
        Figure::lower("bytes_each", each(restarted)),
        Figure::lower("bytes_each_as_created", each(fresh)),
        Figure::lower("start_ms", ms(started)),
        Figure::lower("start_that_creates_ms", ms(created)),
        Figure::lower("last_page_of_100_ms", ms(page)),
    ]
}

/// The time for the last page of a listing; the shortest of several.
fn last_page(daemon: &Daemon) -> Duration {
    let path = format!("/$Resources/queues?api-version=2021-05&$skip={}&$top=100", ENTITIES - 100);
    let ask = |_| {
        let start = Instant::now();
        let (status, page) = http::ask(daemon.http(), "GET", &path, "", b"");
        let elapsed = start.elapsed();
        assert_eq!((status, page.matches("<entry").count()), (200, 100), "{page:.300}");
        elapsed
    };
    (0..10).map(ask).min().unwrap()
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// A store with a hundred million messages takes most of a minute to open.
const REOPEN_PATIENCE: Duration = Duration::from_secs(600);

/// Many waiting messages: memory, start after a kill, and disk usage after half of them were completed.
pub(crate) fn waiting(binary: &Path, load: &Load) -> Vec<Figure> {
    let mut daemon = Daemon::of_binary(binary, &load.config());
    let idle = at_rest(|| daemon.resident_bytes());
    let (_, sent) = spend(&daemon, load.messages, || send(&daemon, load));
    let full = at_rest(|| daemon.resident_bytes());
    let disk = disk_bytes(&daemon);
    daemon.kill();
    let start = Instant::now();
    daemon.start_within(REOPEN_PATIENCE);
    let (reopened, reopened_cpu) = (start.elapsed(), daemon.cpu_time());
    let restarted = at_rest(|| daemon.resident_bytes());
    let half = Load { messages: load.messages / 2, ..*load };
    let ((), received) = spend(&daemon, half.messages, || receive(&daemon, &half));
    let half_disk = at_rest(|| disk_bytes(&daemon));
    let half_resident = at_rest(|| daemon.resident_bytes());
    // Disk usage if all messages on disk were live.
    let live = disk as f64 * f64::from(load.messages - half.messages) / f64::from(load.messages);
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    vec![
        Figure::higher("send_per_s", sent.per_s),
        Figure::lower("resident_mib", mib(full)),
        Figure::lower("bytes_each", full.saturating_sub(idle) as f64 / f64::from(load.messages)),
        Figure::lower("ready_after_kill_ms", ms(reopened)),
        Figure::lower("ready_after_kill_cpu_ms", ms(reopened_cpu)),
        Figure::lower("restarted_resident_mib", mib(restarted)),
        Figure::higher("receive_per_s", received.per_s),
        Figure::lower("half_resident_mib", mib(half_resident)),
        Figure::lower("disk_mib", mib(disk)),
        Figure::lower("half_disk_of_live", half_disk as f64 / live),
    ]
}

/// Disk usage of the data directory.
fn disk_bytes(daemon: &Daemon) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let mut bytes = 0;
    let mut directories = vec![daemon.data_directory()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            // The daemon may delete the file meanwhile.
            let Ok((path, metadata)) = entry.and_then(|entry| Ok((entry.path(), entry.metadata()?))) else {
                continue;
            };
            if metadata.is_dir() {
                directories.push(path);
            } else {
                bytes += metadata.blocks() * 512;
            }
        }
    }
    bytes
}

/// Messages in many sessions, compared with the same number of messages in few: the cost of a session.
pub(crate) fn sessions(binary: &Path, load: &Load) -> Vec<Figure> {
    let Through::Sessions(count) = load.through else { panic!("no sessions") };
    let many = sessions_of(binary, load, count);
    let few = sessions_of(binary, &Load { through: Through::Sessions(FEW_SESSIONS), ..*load }, FEW_SESSIONS);
    vec![
        Figure::higher("send_per_s", many.send_per_s),
        Figure::higher("send_of_few_sessions", many.send_per_s / few.send_per_s),
        Figure::lower("send_cpu_of_few_sessions", many.send_cpu / few.send_cpu),
        Figure::lower("bytes_each", many.bytes_each),
        Figure::lower("bytes_each_of_few_sessions", few.bytes_each),
        Figure::higher("accepted_per_s", many.accepted_per_s),
        Figure::higher("accepted_of_few_sessions", many.accepted_per_s / few.accepted_per_s),
    ]
}

/// Few enough that the cost of a session is negligible.
const FEW_SESSIONS: u32 = 1_000;
/// Sessions that are accepted and read, one after the other.
const ACCEPTED: u32 = 1_000;

struct Sessions {
    send_per_s: f64,
    send_cpu: f64,
    bytes_each: f64,
    accepted_per_s: f64,
}

fn sessions_of(binary: &Path, load: &Load, count: u32) -> Sessions {
    let daemon = Daemon::of_binary(binary, &load.config());
    let before = at_rest(|| daemon.resident_bytes());
    let (_, sent) = spend(&daemon, load.messages, || send(&daemon, load));
    let full = at_rest(|| daemon.resident_bytes());
    let mut client = Client::connect(daemon.amqp()).unwrap();
    let start = Instant::now();
    for handle in 0..ACCEPTED.min(count) {
        let session = handle.to_string();
        client.attach_session(handle, "q0", &session, 1).unwrap().unwrap();
        let delivery = client.receive(handle).unwrap();
        client.complete(delivery.id).unwrap();
    }
    let accepted = f64::from(ACCEPTED.min(count));
    Sessions {
        send_per_s: sent.per_s,
        send_cpu: sent.broker_cpu,
        bytes_each: full.saturating_sub(before) as f64 / f64::from(load.messages),
        accepted_per_s: accepted / start.elapsed().as_secs_f64(),
    }
}
