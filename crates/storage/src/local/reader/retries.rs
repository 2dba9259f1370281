//! Repetition of reads that the system refuses for a while.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::super::shared::Shared;
use crate::Error;

/// First and longest pause between two attempts to read.
const RETRY: RangeInclusive<Duration> = Duration::from_millis(50)..=Duration::from_secs(1);
/// Most attempts when no other thread could free resources meanwhile.
const STEPPED_ATTEMPTS_MAX: u32 = 8;
/// Log text while reading fails.
const READ: &str = "messages can't be read back now; they are delivered later";

/// Retries while the system has no descriptors or memory left, from which all reads suffer. A file that can't be used, for
/// want of permission for example, must not keep the thread from reading others: that error is returned at once.
pub(super) fn with_retries<T>(shared: &Shared, answer: impl Fn() -> Result<T, Error>) -> Result<T, Error> {
    let mut failed = 0;
    let mut pause = *RETRY.start();
    loop {
        if let Some(dead) = shared.fatal_error.get() {
            return Err(dead.clone());
        }
        let result = answer();
        let is_patient = match shared.stepped.is_stepped() {
            true => failed < STEPPED_ATTEMPTS_MAX,
            false => !shared.is_stopping(),
        };
        match result {
            Err(error @ Error::System { .. }) if is_patient => {
                shared.warnings.warn(READ, &error);
                failed += 1;
                if !shared.stepped.is_stepped() {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(*RETRY.end());
                }
            }
            result => {
                if failed > 0 {
                    shared.warnings.end(READ);
                }
                return result;
            }
        }
    }
}
