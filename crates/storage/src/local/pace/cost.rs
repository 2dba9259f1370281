//! Estimates the cost of a frame: a fixed time and a time per byte, from the frames written so far.

use std::time::Duration;

/// Weight of the latest frame against all earlier ones: covers a few hundred milliseconds.
const WEIGHT: f64 = 1.0 / 64.0;
/// A frame that took longer than usual by more than this factor is treated as having taken this factor: it was a stall.
const STALL: f64 = 4.0;
/// Sizes that vary by less than this fraction of their mean are not conclusive.
const VARIATION_MIN: f64 = 0.02;

/// A regression line through bytes and microseconds of the latest frames: least squares, with exponentially decreasing
/// weights.
#[derive(Debug, Default)]
pub(super) struct Cost {
    is_known: bool,
    bytes: f64,
    micros: f64,
    /// Variance of the bytes.
    variance: f64,
    covariance: f64,
}

impl Cost {
    /// Adds a frame to the estimate.
    #[expect(clippy::cast_precision_loss, reason = "frames are far below 2^53 bytes")]
    pub(super) fn note(&mut self, bytes: u64, took: Duration) {
        let (bytes, micros) = (bytes as f64, took.as_secs_f64() * 1e6);
        if !self.is_known {
            *self = Self { is_known: true, bytes, micros, ..Self::default() };
        }
        let (more_bytes, more_micros) = (bytes - self.bytes, micros.min(STALL * self.micros) - self.micros);
        self.bytes += WEIGHT * more_bytes;
        self.micros += WEIGHT * more_micros;
        self.variance = (1.0 - WEIGHT) * (self.variance + WEIGHT * more_bytes * more_bytes);
        self.covariance = (1.0 - WEIGHT) * (self.covariance + WEIGHT * more_bytes * more_micros);
    }

    /// Bytes of a frame that takes about this many microseconds. If the fixed time is more than half of that, the
    /// bytes that take as long as the fixed time.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative; what is more is the most"
    )]
    pub(super) fn bytes_within(&self, micros: u32) -> u64 {
        // The whole time is attributed to the bytes until the estimate is conclusive.
        let most = self.micros / self.bytes.max(1.0);
        let is_telling = self.variance > (VARIATION_MIN * self.bytes).powi(2);
        let each = if is_telling { (self.covariance / self.variance).clamp(0.0, most) } else { most };
        let fixed = self.micros - each * self.bytes;
        let left = (f64::from(micros) - fixed).max(fixed);
        (left / each) as u64
    }
}
