//! Compares both sides, value by value.

use super::batches::Batches;
use super::marker::{MARKER, Marker};
use super::walk::Cursor;
use super::{CopyError, CopyProgress, CopyStage, CopySum, Run};
use crate::{Entry, Key, PartitionId, Space};

/// The result of a comparison.
pub(super) struct Compared {
    pub(super) sums: [CopySum; 3],
    pub(super) corrected: u64,
}

/// The next number on the two sides.
enum Step {
    /// Both have the number; whether the values are equal.
    Both(bool),
    /// Only the source has it.
    Missing,
    /// Only the target has it.
    Extra,
}

impl Run<'_> {
    /// Compares all values; corrects differences if `corrects`, otherwise a difference is an error.
    pub(super) async fn compare(&mut self, corrects: bool) -> Result<Compared, CopyError> {
        let mut todo = self.retries.ask(|| self.source.partitions()).await.map_err(CopyError::Source)?;
        todo.extend(self.retries.ask(|| self.target.partitions()).await.map_err(CopyError::Target)?);
        todo.sort_unstable();
        todo.dedup();
        let marker = self.retries.ask(|| self.target.read(vec![MARKER])).await.map_err(CopyError::Target)?;
        let marker = marker.into_iter().flatten().next().and_then(|value| Marker::decode(&value));
        let mut batches = Batches::new(self.target.clone(), self.retries.options, marker.unwrap_or_default());
        let mut compared = Compared { sums: [CopySum::default(); 3], corrected: 0 };
        for (space, partition) in todo {
            if partition != MARKER.partition {
                self.compare_partition(space, partition, corrects.then_some(&mut batches), &mut compared)
                    .await?;
            }
        }
        if compared.corrected > 0 {
            batches.finish().await?;
        }
        Ok(compared)
    }

    async fn compare_partition(
        &mut self,
        space: Space,
        partition: PartitionId,
        mut batches: Option<&mut Batches>,
        compared: &mut Compared,
    ) -> Result<(), CopyError> {
        let mut source = Cursor::new(&self.source, self.retries, space, partition, 0);
        let mut target = Cursor::new(&self.target, self.retries, space, partition, 0);
        while let Some(step) = next_step(&mut source, &mut target, (space, partition)).await? {
            let theirs = (!matches!(step, Step::Extra)).then(|| source.take()).flatten();
            let ours = (!matches!(step, Step::Missing)).then(|| target.take()).flatten();
            if let Some(entry) = &theirs
                && let Some(sum) = compared.sums.get_mut(space as usize)
            {
                sum.add(partition, entry.number, &entry.value);
            }
            let what = match step {
                Step::Both(true) => None,
                Step::Both(false) => Some("another value is there"),
                Step::Missing => Some("it is missing"),
                Step::Extra => Some("the source has no such value"),
            };
            if let (Some(what), Some(Entry { number, .. })) = (what, theirs.as_ref().or(ours.as_ref())) {
                let key = Key::new(space, partition, *number);
                let Some(batches) = &mut batches else {
                    return Err(CopyError::Different { key, what: what.to_owned() });
                };
                batches.correct(key, theirs.map(|entry| entry.value)).await?;
                compared.corrected += 1;
            }
            tell(self.watch, compared);
        }
        Ok(())
    }
}

/// Interval between progress reports, in values.
const TOLD_EVERY: u64 = 256;

fn tell(watch: &mut (dyn FnMut(CopyProgress) + Send), compared: &Compared) {
    let values = compared.sums.iter().map(|sum| sum.values).sum::<u64>();
    if values.is_multiple_of(TOLD_EVERY) {
        let bytes = compared.sums.iter().map(|sum| sum.bytes).sum();
        watch(CopyProgress { stage: CopyStage::Comparing, values, bytes });
    }
}

/// The next step; `None` at the end of both sides.
async fn next_step(
    source: &mut Cursor<'_>,
    target: &mut Cursor<'_>,
    (space, partition): (Space, PartitionId),
) -> Result<Option<Step>, CopyError> {
    let theirs = source.peek().await.map_err(CopyError::Source)?;
    let theirs = theirs.map_err(|damaged| CopyError::Source(damaged.error))?;
    let ours = target.peek().await.map_err(CopyError::Target)?;
    let ours = ours.map_err(|damaged| CopyError::Different {
        key: Key::new(space, partition, damaged.number),
        what: damaged.error.to_string(),
    })?;
    Ok(match (theirs, ours) {
        (None, None) => None,
        (Some(theirs), Some(ours)) if theirs.number == ours.number => {
            Some(Step::Both(theirs.value == ours.value))
        }
        (Some(theirs), Some(ours)) if theirs.number > ours.number => Some(Step::Extra),
        (Some(_), _) => Some(Step::Missing),
        (None, Some(_)) => Some(Step::Extra),
    })
}
