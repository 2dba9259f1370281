//! One history: two nodes, the answers that each of them got, and the states that these allow.

use super::*;

/// The outcome of a batch.
#[derive(Debug)]
enum Outcome {
    Waiting(Commit),
    Acknowledged,
    /// It was not applied, and never will be.
    Refused,
    /// The lease was lost: it may be applied or not.
    Unknown,
}

/// A lease from its acquisition on.
struct Session {
    lease: Lease,
    /// The contents at its acquisition.
    base: Model,
    /// The last batch applied before it: its session, and how many batches of that session were applied.
    after: Option<(usize, usize)>,
    batches: Vec<(Batch, Outcome)>,
}

impl Session {
    /// The contents after the first `count` batches that were not refused.
    fn after(&self, count: usize) -> Model {
        let mut model = self.base.clone();
        for (batch, outcome) in self.batches.iter().take(count) {
            if !matches!(outcome, Outcome::Refused) {
                apply(&mut model, batch);
            }
        }
        model
    }

    /// One past the last acknowledged batch.
    fn acknowledged(&self) -> usize {
        let last = self.batches.iter().rposition(|(_, outcome)| matches!(outcome, Outcome::Acknowledged));
        last.map_or(0, |last| last + 1)
    }

    /// Collects answers.
    fn poll(&mut self) {
        let mut is_refused = false;
        for (_, outcome) in &mut self.batches {
            let Outcome::Waiting(commit) = outcome else { continue };
            *outcome = match answer_of(commit) {
                None => break,
                Some(Ok(())) => Outcome::Acknowledged,
                Some(Err(error)) if error.is_loss() => Outcome::Unknown,
                Some(Err(_)) => {
                    is_refused = true;
                    Outcome::Refused
                }
            };
        }
        if is_refused {
            PARTITIONS.iter().for_each(|partition| self.lease.resume(*partition));
        }
    }
}

/// A lease and the contents found in it.
type Arrival = Result<(Lease, Model), Error>;

#[derive(Default)]
struct Node {
    store: Option<ClusterStore>,
    is_paused: bool,
    arriving: Option<oneshot::Receiver<Arrival>>,
    /// Its current lease, as an index into the list of sessions.
    session: Option<usize>,
}

pub(super) struct History {
    world: World,
    nodes: [Node; 2],
    sessions: Vec<Session>,
    stamp: u64,
}

/// Records of one or two batches, and a checkpoint every few of them.
fn eager_options() -> ClusterOptions {
    ClusterOptions {
        record_bytes_max: 512,
        checkpoint_bytes: 300,
        checkpoint_records: 12,
        part_bytes: 100,
        cache_bytes: 1 << 10,
        ..options()
    }
}

/// The next random choice.
fn next(random: &mut u64) -> u64 {
    *random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
    *random >> 16
}

impl History {
    pub(super) fn new(seed: u64) -> Self {
        let world = World::seeded(seed, eager_options());
        world.engine.hold();
        let nodes = NODES.map(|node| Node { store: Some(world.node(node)), ..Node::default() });
        let mut history = Self { world, nodes, sessions: Vec::new(), stamp: 0 };
        history.acquire(0);
        history
    }

    fn runs(&self) -> impl Fn(u32) -> bool + Copy + use<> {
        let paused: [bool; 2] = [self.nodes[0].is_paused, self.nodes[1].is_paused];
        move |node| !paused[node as usize]
    }

    pub(super) fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Acquire(node) => self.acquire(*node),
            Step::Submit(node, ops) => self.submit(*node, ops),
            Step::Run(steps, seed) => {
                let mut random = *seed;
                for _ in 0..*steps {
                    self.go_on(next(&mut random));
                }
            }
            Step::Pass(timers) => {
                for _ in 0..*timers {
                    self.world.stepper.pass(self.runs());
                }
            }
            Step::Pause(node) => self.nodes[*node as usize].is_paused = true,
            Step::Continue(node) => self.nodes[*node as usize].is_paused = false,
            Step::Crash(node) => self.crash(*node),
            Step::Cut(node, arrive) => self.world.engine.cut(*node, *arrive),
            Step::FailOver(choice) => self.world.engine.fail_over(*choice),
            Step::Refuse(is_full) => self.world.engine.fail_next(match is_full {
                true => Error::Full { reason: "no room".to_owned() },
                false => Error::Unavailable { reason: "not now".to_owned() },
            }),
            Step::Settle => self.settle(),
        }
        self.poll()
    }

    /// One step of a task or of a call.
    fn go_on(&self, choice: u64) -> bool {
        let (stepper, engine, runs) = (&self.world.stepper, &self.world.engine, self.runs());
        let step = || stepper.step(choice >> 1, runs);
        let serve = || engine.serve(choice >> 1, runs);
        match choice & 1 {
            0 => step() || serve(),
            _ => serve() || step(),
        }
    }

    fn settle(&mut self) {
        let mut random = self.stamp;
        for _ in 0..100_000 {
            if !self.go_on(next(&mut random)) {
                return;
            }
        }
        panic!("it never becomes quiet");
    }

    fn acquire(&mut self, number: u32) {
        let node = &mut self.nodes[number as usize];
        let Some(store) = node.store.clone() else { return };
        let (arrival, arriving) = oneshot::channel();
        let task = async move {
            let arrived = async {
                let lease = store.acquire(SHARD).await?;
                let found = contents(&*lease, &PARTITIONS).await?;
                Ok((lease, found))
            };
            let _ = arrival.send(arrived.await);
        };
        self.world.stepper.node(number).spawn(task.boxed());
        (node.arriving, node.session) = (Some(arriving), None);
    }

    fn submit(&mut self, number: u32, ops: &[Op]) {
        let Some(index) = self.nodes[number as usize].session else { return };
        let mut batch = Batch::new();
        for op in ops {
            self.stamp += 1;
            match op {
                Op::Put(space, partition, number, len) => {
                    batch.put(Key::new(*space, *partition, *number), value(self.stamp, *len));
                }
                Op::Delete(space, partition, number) => batch.delete(Key::new(*space, *partition, *number)),
                Op::DeleteRange(space, partition, first, last) => {
                    batch.delete_range(*space, *partition, *first..=*last);
                }
            }
        }
        let session = &mut self.sessions[index];
        let mark = [index as u64, session.batches.len() as u64].map(u64::to_le_bytes).concat();
        batch.put(MARKER, mark.into());
        let commit = session.lease.submit(batch.clone());
        session.batches.push((batch, Outcome::Waiting(commit)));
    }

    fn crash(&mut self, number: u32) {
        self.world.stepper.kill(number);
        self.world.engine.cut(number, true);
        self.nodes[number as usize] = Node { store: Some(self.world.node(number)), ..Node::default() };
    }

    fn poll(&mut self) -> Result<(), TestCaseError> {
        self.sessions.iter_mut().for_each(Session::poll);
        for number in NODES {
            let arriving = &mut self.nodes[number as usize].arriving;
            let Some(Ok(arrival)) = arriving.as_mut().and_then(answer_of) else { continue };
            *arriving = None;
            match arrival {
                Ok((lease, found)) => {
                    self.nodes[number as usize].session = Some(self.sessions.len());
                    self.arrive(lease, found)?;
                }
                Err(Error::Fenced { .. } | Error::Unavailable { .. } | Error::Stopped { .. }) => {}
                Err(error) => return Err(TestCaseError::fail(format!("acquiring: {error}"))),
            }
        }
        Ok(())
    }

    /// A new owner has read everything; that must be the state after the batch whose marker it found.
    fn arrive(&mut self, lease: Lease, found: Model) -> Result<(), TestCaseError> {
        let after = found.get(&MARKER).map(|mark| {
            let numbers: [u64; 2] = [0, 8].map(|at| u64::from_le_bytes(mark[at..at + 8].try_into().unwrap()));
            (numbers[0] as usize, numbers[1] as usize + 1)
        });
        let expected = after.map_or_else(Model::new, |(session, count)| self.sessions[session].after(count));
        prop_assert_eq!(&found, &expected, "after {:?}", after);
        if let Some((session, count)) = after {
            let (_, last) = &self.sessions[session].batches[count - 1];
            prop_assert!(!matches!(last, Outcome::Refused), "a refused batch was applied");
        }
        self.sessions.push(Session { lease, base: found, after, batches: Vec::new() });
        self.check_acknowledged()
    }

    /// A later owner must have every batch acknowledged to earlier ones, and no batch may have been acknowledged to
    /// them that it lacks.
    fn check_acknowledged(&self) -> Result<(), TestCaseError> {
        let mut order: Vec<usize> = (0..self.sessions.len()).collect();
        order.sort_by_key(|index| self.sessions[*index].lease.epoch());
        for pair in order.windows(2) {
            let (earlier, later) = (&self.sessions[pair[0]], &self.sessions[pair[1]]);
            let known = match later.after {
                Some((session, count)) if session == pair[0] => count,
                other => {
                    prop_assert_eq!(other, earlier.after, "session {} after {}", pair[1], pair[0]);
                    0
                }
            };
            prop_assert!(
                earlier.acknowledged() <= known,
                "session {} was acknowledged {} batches, session {} knows {known}",
                pair[0],
                earlier.acknowledged(),
                pair[1]
            );
        }
        Ok(())
    }

    /// Ends all faults and lets all pending calls arrive. Then one more owner takes over, twice.
    pub(super) fn finish(mut self, seen: &mut Seen) -> Result<(), TestCaseError> {
        for node in &mut self.nodes {
            node.is_paused = false;
        }
        self.settle();
        self.poll()?;
        seen.overtaken += self.sessions.iter().filter(|session| !session.is_done()).count();
        // Only the last owner is left; calls sent by others still arrive.
        self.crash(1);
        for _ in 0..2 {
            self.crash(0);
            self.acquire(0);
            for _ in 0..10_000 {
                self.settle();
                self.poll()?;
                if self.nodes[0].session.is_some() || !self.world.stepper.pass(|_| true) {
                    break;
                }
            }
            prop_assert!(self.nodes[0].session.is_some(), "no node can take over");
        }
        self.check_own_view()?;
        self.check_acknowledged()?;
        seen.acknowledged += self.sessions.iter().map(Session::acknowledged).sum::<usize>();
        seen.takeovers += self.sessions.len();
        seen.checkpoints += usize::from(self.world.engine.tail(SHARD).mark.is_some());
        Ok(())
    }

    /// The last owner writes, runs its keeper, and reads what it wrote.
    fn check_own_view(&mut self) -> Result<(), TestCaseError> {
        let Some(index) = self.nodes[0].session else { return Ok(()) };
        self.submit(
            0,
            &[Op::Put(Space::Body, PARTITIONS[0], 1, 50), Op::Delete(Space::Body, PARTITIONS[1], 2)],
        );
        self.world.rounds(3);
        self.poll()?;
        let session = &self.sessions[index];
        // The engine may have been set to refuse the next append.
        let expected = session.after(session.batches.len());
        prop_assert!(session.is_done(), "the last owner is answered: {:?}", session.batches);
        let lease = session.lease.clone();
        let found = self.world.run(async move { contents(&*lease, &PARTITIONS).await });
        prop_assert_eq!(found, Ok(expected));
        self.check_nothing_is_left()
    }

    /// Bodies unknown to the owner would never be dropped.
    fn check_nothing_is_left(&self) -> Result<(), TestCaseError> {
        let Some(store) = &self.nodes[0].store else { return Ok(()) };
        self.world.rounds(20);
        let known = store.current(SHARD);
        let known: Vec<RecordPlace> = known.shared.state().rows.in_order().map(|row| row.place).collect();
        prop_assert_eq!(self.world.engine.body_places(SHARD), known);
        Ok(())
    }
}

impl Session {
    fn is_done(&self) -> bool {
        self.batches.iter().all(|(_, outcome)| matches!(outcome, Outcome::Acknowledged | Outcome::Refused))
    }
}
