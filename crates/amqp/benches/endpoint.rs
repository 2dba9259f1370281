//! Two endpoints connected in memory: the cost of a 1 KB message on both sides together, including frames and
//! settlement, excluding sockets. `cargo bench -p peeklock-amqp --bench endpoint`.

use bytes::{Bytes, BytesMut};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use peeklock_amqp::endpoint::{Config, Connection, Event, LinkId, Outgoing};
use peeklock_amqp::wire::performative::{
    Attach, DeliveryState, ReceiverSettleMode, Role, SenderSettleMode, Target, Terminus,
};
use smallvec::smallvec;

/// Messages between two settlements: about what one turn of a busy connection reads.
const BATCH: u64 = 64;
const CREDIT: u32 = 1_000;
const TRANSMIT_BYTES: usize = 128 * 1024;

struct Pair {
    client: Connection,
    server: Connection,
    to_client: BytesMut,
    to_server: BytesMut,
    slices: Vec<Bytes>,
    client_link: LinkId,
    server_link: LinkId,
    payload: Bytes,
}

fn attach(role: Role) -> Attach {
    Attach {
        name: "link".into(),
        handle: 0,
        role,
        snd_settle_mode: SenderSettleMode::Unsettled,
        rcv_settle_mode: ReceiverSettleMode::First,
        source: Some(Terminus::default()),
        target: Some(Target::Node(Terminus::default())),
        resumes: false,
        initial_delivery_count: None,
        max_message_size: None,
        offered_capabilities: Vec::new(),
        desired_capabilities: Vec::new(),
        properties: Vec::new(),
    }
}

impl Pair {
    fn new(role: Role) -> Self {
        let config = Config { sasl_mechanisms: Vec::new(), ..Config::default() };
        let mut client = Connection::client(config.clone(), "localhost", 0);
        let link = client.begin().and_then(|session| client.attach(session, attach(role)));
        let client_link = link.unwrap_or(LinkId(0));
        let mut pair = Self {
            client,
            server: Connection::server(config, 0),
            to_client: BytesMut::new(),
            to_server: BytesMut::new(),
            slices: Vec::new(),
            client_link,
            server_link: LinkId(0),
            payload: Bytes::from(vec![b'x'; 1_024]),
        };
        pair.carry();
        while let Some(event) = pair.server.poll_event() {
            if let Event::Attach { link, attach, .. } = event {
                pair.server.accept_attach(link, *attach, CREDIT);
                pair.server_link = link;
            }
        }
        if role == Role::Receiver {
            pair.client.set_credit(client_link, u32::MAX, false);
        }
        pair.carry();
        pair.carry();
        pair.settle();
        pair
    }

    fn carry(&mut self) {
        carry(&mut self.client, &mut self.server, &mut self.slices, &mut self.to_server);
        carry(&mut self.server, &mut self.client, &mut self.slices, &mut self.to_client);
    }

    /// Accepts the deliveries received on both sides; returns the number of messages received and the number settled.
    fn settle(&mut self) -> (u64, u64) {
        let (mut seen, mut settled) = (0, 0);
        for end in [&mut self.client, &mut self.server] {
            while let Some(event) = end.poll_event() {
                match event {
                    Event::Message { id, .. } => {
                        seen += 1;
                        end.settle_incoming(id, DeliveryState::Accepted);
                    }
                    Event::Disposition { tags, .. } => settled += tags.len() as u64,
                    _ => {}
                }
            }
        }
        (seen, settled)
    }

    /// Sends a batch from one end to the other and settles it.
    fn batch(&mut self, client_sends: bool) {
        for _ in 0..BATCH {
            let message = Outgoing {
                tag: Some([7; 16]),
                settled: false,
                message_format: 0,
                payload: smallvec![self.payload.clone()],
            };
            let sent = if client_sends {
                self.client.send(self.client_link, message)
            } else {
                self.server.send(self.server_link, message)
            };
            assert!(sent.is_some());
        }
        let mut settled = 0;
        while settled < BATCH {
            self.carry();
            settled += self.settle().1;
        }
    }
}

fn carry(from: &mut Connection, to: &mut Connection, slices: &mut Vec<Bytes>, input: &mut BytesMut) {
    from.poll_transmit(slices, TRANSMIT_BYTES, 0);
    for slice in slices.drain(..) {
        input.extend_from_slice(&slice);
    }
    to.handle_input(input, 0);
}

fn endpoint(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("endpoint_1kb");
    group.throughput(Throughput::Elements(BATCH));
    for (name, role) in [("send_and_accept", Role::Sender), ("receive_and_accept", Role::Receiver)] {
        let mut pair = Pair::new(role);
        group.bench_function(name, |bencher| bencher.iter(|| pair.batch(role == Role::Sender)));
    }
    group.finish();
    criterion.bench_function("endpoint_10000_links", |bencher| {
        bencher.iter_batched(|| (), |()| ten_thousand_links(), BatchSize::PerIteration);
    });
}

/// Attaches and accepts 10 000 links on one session.
fn ten_thousand_links() {
    let config = Config { sasl_mechanisms: Vec::new(), ..Config::default() };
    let mut client = Connection::client(config.clone(), "localhost", 0);
    let mut server = Connection::server(config, 0);
    let (mut slices, mut to_server, mut to_client) = (Vec::new(), BytesMut::new(), BytesMut::new());
    let session = client.begin().unwrap_or_default();
    for number in 0..10_000 {
        client.attach(session, Attach { name: number.to_string().into(), ..attach(Role::Sender) });
    }
    let mut links = 0;
    while links < 10_000 {
        carry(&mut client, &mut server, &mut slices, &mut to_server);
        while let Some(event) = server.poll_event() {
            if let Event::Attach { link, attach, .. } = event {
                server.accept_attach(link, *attach, CREDIT);
                links += 1;
            }
        }
        carry(&mut server, &mut client, &mut slices, &mut to_client);
        while client.poll_event().is_some() {}
    }
}

criterion_group!(benches, endpoint);
criterion_main!(benches);
