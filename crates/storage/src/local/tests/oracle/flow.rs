//! Messages that pass through a backlog, as in a broker, while some of them are never removed.

use super::*;

/// Sends messages and removes the same number of the oldest from the backlog.
#[derive(Debug, Clone)]
pub(super) struct Flow {
    count: u64,
    backlog: usize,
    /// One in this many is not removed.
    kept_every: u64,
    value_len: usize,
    /// Whether each head is written again before it is removed.
    rewritten: bool,
    /// Whether heads are removed as ranges.
    by_range: bool,
}

pub(super) fn flow() -> impl Strategy<Value = Flow> {
    let flags = (any::<bool>(), any::<bool>());
    (10..400u64, 0..200usize, 2..100u64, 0..300usize, flags).prop_map(
        |(count, backlog, kept_every, value_len, (rewritten, by_range))| Flow {
            count,
            backlog,
            kept_every,
            value_len,
            rewritten,
            by_range,
        },
    )
}

impl World {
    pub(super) async fn flow(&mut self, flow: &Flow) {
        for _ in 0..flow.count.div_ceil(10) {
            let mut batch = Batch::new();
            for _ in 0..10 {
                self.pass_one(flow, &mut batch);
            }
            self.note_submitted(&batch);
            self.shard().submit(batch.clone()).await.unwrap();
            apply(&mut self.model, &batch);
        }
    }

    fn pass_one(&mut self, flow: &Flow, batch: &mut Batch) {
        self.stamp += 1;
        batch.put(head(self.next_number), value(self.stamp, 9));
        batch.put(body(self.next_number), value(self.stamp, flow.value_len));
        self.backlog.push_back(self.next_number);
        self.next_number += 1;
        if flow.rewritten
            && let Some(number) = self.backlog.get(flow.backlog / 2)
        {
            batch.put(head(*number), value(self.stamp, 11));
        }
        while self.backlog.len() > flow.backlog
            && let Some(number) = self.backlog.pop_front()
        {
            if !number.is_multiple_of(flow.kept_every) {
                batch.delete(body(number));
                match flow.by_range {
                    true => batch.delete_range(Space::Head, QUEUE, number..=number),
                    false => batch.delete(head(number)),
                };
            }
        }
    }
}
