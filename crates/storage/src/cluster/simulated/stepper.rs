//! Tasks, timers and randomness of several nodes, stepped by a test.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::oneshot;

use crate::cluster::Environment;

/// Runs the tasks of all nodes in one thread; the test decides which one is polled, and when time passes.
#[derive(Debug, Clone)]
pub struct Stepper(Arc<Mutex<Tasks>>);

#[derive(Debug)]
struct Tasks {
    next: u64,
    tasks: BTreeMap<u64, Task>,
    /// By due time, then in order of creation.
    timers: BTreeMap<(Duration, u64), Timer>,
    now: Duration,
    random: u64,
}

struct Task {
    node: u32,
    /// `None` while it is polled.
    future: Option<BoxFuture<'static, ()>>,
    ready: Arc<Ready>,
}

#[derive(Debug)]
struct Timer {
    node: u32,
    due: oneshot::Sender<()>,
}

/// Whether a task was woken.
#[derive(Debug)]
struct Ready(AtomicBool);

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Task").field("node", &self.node).finish_non_exhaustive()
    }
}

/// The part of a [`Stepper`] that one node sees.
#[derive(Debug)]
struct NodeEnvironment {
    stepper: Stepper,
    node: u32,
}

impl Stepper {
    /// A stepper without tasks; `seed` determines the random numbers of the nodes.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let (tasks, timers) = (BTreeMap::new(), BTreeMap::new());
        Self(Arc::new(Mutex::new(Tasks { next: 0, tasks, timers, now: Duration::ZERO, random: seed })))
    }

    /// The environment of a store on this node.
    #[must_use]
    pub fn node(&self, node: u32) -> Arc<dyn Environment> {
        Arc::new(NodeEnvironment { stepper: self.clone(), node })
    }

    fn tasks(&self) -> MutexGuard<'_, Tasks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Polls one ready task: among those of nodes that `runs` admits, the one selected by `choice`. Returns false when
    /// there is none.
    pub fn step(&self, choice: u64, runs: impl Fn(u32) -> bool) -> bool {
        let (id, mut future, ready) = {
            let mut tasks = self.tasks();
            let can_go_on = |task: &Task| runs(task.node) && task.ready.0.load(Ordering::Acquire);
            let able: Vec<u64> =
                tasks.tasks.iter().filter(|(_, task)| can_go_on(task)).map(|(id, _)| *id).collect();
            let Some(id) = pick(&able, choice) else { return false };
            let Some(task) = tasks.tasks.get_mut(&id) else { return false };
            let Some(future) = task.future.take() else { return false };
            task.ready.0.store(false, Ordering::Release);
            (id, future, Arc::clone(&task.ready))
        };
        let waker = Waker::from(ready);
        let is_done = future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        let mut tasks = self.tasks();
        if is_done {
            tasks.tasks.remove(&id);
        } else if let Some(task) = tasks.tasks.get_mut(&id) {
            task.future = Some(future);
        }
        true
    }

    /// Advances time to the next timer of a node that `runs` admits; returns false when there is none.
    pub fn pass(&self, runs: impl Fn(u32) -> bool) -> bool {
        let mut tasks = self.tasks();
        let next = tasks.timers.iter().find(|(_, timer)| runs(timer.node)).map(|(at, _)| *at);
        let Some(at) = next else { return false };
        let timer = tasks.timers.remove(&at);
        tasks.now = tasks.now.max(at.0);
        drop(tasks);
        if let Some(timer) = timer {
            // The receiver may be gone.
            let _ = timer.due.send(());
        }
        true
    }

    /// The elapsed time.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.tasks().now
    }

    /// How many tasks a node has.
    #[must_use]
    pub fn tasks_of(&self, node: u32) -> usize {
        self.tasks().tasks.values().filter(|task| task.node == node).count()
    }

    /// Drops all tasks of a node, like killing its process.
    pub fn kill(&self, node: u32) {
        let mut tasks = self.tasks();
        let doomed: Vec<u64> =
            tasks.tasks.iter().filter(|(_, task)| task.node == node).map(|(id, _)| *id).collect();
        let ended: Vec<Option<Task>> = doomed.iter().map(|id| tasks.tasks.remove(id)).collect();
        tasks.timers.retain(|_, timer| timer.node != node);
        drop(tasks);
        drop(ended);
    }
}

fn pick(able: &[u64], choice: u64) -> Option<u64> {
    let at = choice.checked_rem(able.len() as u64)?;
    able.get(usize::try_from(at).ok()?).copied()
}

impl Environment for NodeEnvironment {
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        let mut tasks = self.stepper.tasks();
        tasks.next += 1;
        let id = tasks.next;
        let ready = Arc::new(Ready(AtomicBool::new(true)));
        tasks.tasks.insert(id, Task { node: self.node, future: Some(task), ready });
    }

    fn pause(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let (due, passed) = oneshot::channel();
        let mut tasks = self.stepper.tasks();
        tasks.next += 1;
        let at = (tasks.now + duration, tasks.next);
        tasks.timers.insert(at, Timer { node: self.node, due });
        passed.map(|_| ()).boxed()
    }

    /// The next number of a splitmix64 generator.
    fn draw(&self) -> u64 {
        let mut tasks = self.stepper.tasks();
        tasks.random = tasks.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = tasks.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
