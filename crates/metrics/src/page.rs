//! The page for scrapes, written family by family.

use std::fmt;

use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabelSet, EncodeMetric, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit as EncodedUnit;

use crate::{Counters, Family, Kind, Snapshot, Unit};

/// The value of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// An integer.
    Integer(u64),
    /// A floating-point number.
    Float(f64),
}

impl Value {
    /// The value as the nearest float.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "beyond 2⁵³ the last digits don't matter")]
    pub const fn as_f64(self) -> f64 {
        match self {
            Self::Integer(value) => value as f64,
            Self::Float(value) => value,
        }
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Integer(value)
    }
}

impl From<usize> for Value {
    fn from(value: usize) -> Self {
        Self::Integer(value as u64)
    }
}

impl From<u8> for Value {
    fn from(value: u8) -> Self {
        Self::Integer(value.into())
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

/// Writer of the page; see the module.
#[derive(Debug)]
pub struct Page<'a>(DescriptorEncoder<'a>);

impl<'a> Page<'a> {
    pub(crate) fn new(encoder: DescriptorEncoder<'a>) -> Self {
        Self(encoder)
    }

    fn family(
        &mut self,
        family: &Family,
        write: impl FnOnce(MetricEncoder<'_>) -> fmt::Result,
    ) -> fmt::Result {
        let kind = match family.kind {
            Kind::Counter => MetricType::Counter,
            Kind::Gauge => MetricType::Gauge,
            Kind::Histogram => MetricType::Histogram,
        };
        let unit = match family.unit {
            Unit::None => None,
            Unit::Bytes => Some(EncodedUnit::Bytes),
            Unit::Seconds => Some(EncodedUnit::Seconds),
        };
        write(self.0.encode_descriptor(family.stem(), family.help, unit.as_ref(), kind)?)
    }

    /// Writes a family with one series without labels.
    ///
    /// # Errors
    /// See [`crate::Source::write`].
    pub fn one(&mut self, family: &Family, value: impl Into<Value>) -> fmt::Result {
        self.family(family, |encoder| number(encoder, family.kind, value.into()))
    }

    /// Writes a family with a series for each set of labels.
    ///
    /// # Errors
    /// See [`crate::Source::write`].
    pub fn each<L: EncodeLabelSet, V: Into<Value>>(
        &mut self,
        family: &Family,
        series: impl IntoIterator<Item = (L, V)>,
    ) -> fmt::Result {
        self.family(family, |mut encoder| {
            series.into_iter().try_for_each(|(labels, value)| {
                number(encoder.encode_family(&labels)?, family.kind, value.into())
            })
        })
    }

    /// Writes a family with one series of value 1 whose labels carry the information.
    ///
    /// # Errors
    /// See [`crate::Source::write`].
    pub fn info(&mut self, family: &Family, labels: impl EncodeLabelSet) -> fmt::Result {
        self.each(family, [(labels, 1_u64)])
    }

    /// Writes a family of counters by labels.
    ///
    /// # Errors
    /// See [`crate::Source::write`].
    pub fn counters<const N: usize>(&mut self, family: &Family, counters: &Counters<N>) -> fmt::Result {
        self.family(family, |encoder| counters.encode(encoder))
    }

    /// Writes a family with one distribution without labels.
    ///
    /// # Errors
    /// See [`crate::Source::write`].
    pub fn histogram(&mut self, family: &Family, snapshot: &Snapshot) -> fmt::Result {
        self.family(family, |encoder| distribution(encoder, snapshot))
    }

    /// Writes a family with a distribution for each set of labels.
    ///
    /// # Errors
    /// See [`crate::Source::write`].
    pub fn histograms<L: EncodeLabelSet>(
        &mut self,
        family: &Family,
        series: impl IntoIterator<Item = (L, Snapshot)>,
    ) -> fmt::Result {
        self.family(family, |mut encoder| {
            series
                .into_iter()
                .try_for_each(|(labels, snapshot)| distribution(encoder.encode_family(&labels)?, &snapshot))
        })
    }
}

fn number(mut encoder: MetricEncoder<'_>, kind: Kind, value: Value) -> fmt::Result {
    match (kind, value) {
        (Kind::Counter, Value::Integer(value)) => {
            encoder.encode_counter::<NoLabelSet, u64, f64>(&value, None)
        }
        (Kind::Counter, Value::Float(value)) => encoder.encode_counter::<NoLabelSet, f64, f64>(&value, None),
        (_, Value::Integer(value)) => encoder.encode_gauge(&value),
        (_, Value::Float(value)) => encoder.encode_gauge(&value),
    }
}

fn distribution(mut encoder: MetricEncoder<'_>, snapshot: &Snapshot) -> fmt::Result {
    let buckets = snapshot.buckets();
    encoder.encode_histogram::<NoLabelSet>(snapshot.sum_seconds(), snapshot.count(), &buckets, None)
}
