//! What a frame costs: a fixed time, and a time for its bytes, learned from the frames that were written.

use std::time::Duration;

/// Weight of the latest frame against all earlier ones: a few hundred milliseconds are remembered.
const WEIGHT: f64 = 1.0 / 64.0;
/// A frame that took longer than usual by more than this factor counts as one that took so much: it was a stall.
const STALL: f64 = 4.0;
/// Sizes that vary by less than this share of their mean tell nothing.
const VARIATION_MIN: f64 = 0.02;

/// A line through bytes and microseconds of the latest frames: the least squares, older ones with ever less weight.
#[derive(Debug, Default)]
pub(super) struct Cost {
    is_known: bool,
    bytes: f64,
    micros: f64,
    /// Of the bytes.
    variance: f64,
    covariance: f64,
}

impl Cost {
    /// Learns from a frame.
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

    /// Bytes of a frame that takes about so many microseconds. Where the fixed part takes most of these, so many that
    /// they take as long as that part.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative; what is more is the most"
    )]
    pub(super) fn bytes_within(&self, micros: u32) -> u64 {
        // All of it for the bytes, as long as nothing else is known.
        let most = self.micros / self.bytes.max(1.0);
        let is_telling = self.variance > (VARIATION_MIN * self.bytes).powi(2);
        let each = if is_telling { (self.covariance / self.variance).clamp(0.0, most) } else { most };
        let fixed = self.micros - each * self.bytes;
        let left = (f64::from(micros) - fixed).max(fixed);
        (left / each) as u64
    }
}
