//! Converts the metrics to the data model of OpenTelemetry.

use std::time::{SystemTime, UNIX_EPOCH};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics,
    ScopeMetrics, Sum,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use peeklock_metrics::{Distribution, Kind, ReadFamily, Reading, Series, Unit, Value};

use super::client::scope;
use super::spans::attribute;
use super::starts::Starts;

const CUMULATIVE: i32 = AggregationTemporality::Cumulative as i32;
/// The separator between a topic and its subscription in the label `entity`.
const SUBSCRIPTIONS: &str = "/Subscriptions/";

/// Nanoseconds since the epoch.
pub(super) fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// All families as one request.
pub(super) fn request(
    families: &[ReadFamily],
    resource: Option<Resource>,
    starts: &mut Starts,
) -> ExportMetricsServiceRequest {
    let now_ns = now_ns();
    let filled = families.iter().filter(|family| !family.series.is_empty());
    let metrics = filled.map(|family| metric(family, name(family, families), starts, now_ns)).collect();
    starts.exported(now_ns);
    let scope_metrics = ScopeMetrics { scope: scope(), metrics, ..ScopeMetrics::default() };
    let metrics =
        ResourceMetrics { resource, scope_metrics: vec![scope_metrics], ..ResourceMetrics::default() };
    ExportMetricsServiceRequest { resource_metrics: vec![metrics] }
}

/// The name without the unit, unless another family has that name. The first underscore, which ends the namespace,
/// becomes a dot; a collector that writes for Prometheus restores the name in /metrics.
fn name(family: &ReadFamily, families: &[ReadFamily]) -> String {
    let (suffix, _) = suffix_and_unit(family.unit);
    let stem = family.name.strip_suffix(suffix).unwrap_or(&family.name);
    let is_free = families.iter().all(|other| other.name != stem);
    let name = if is_free { stem } else { &family.name };
    name.replacen('_', ".", 1)
}

const fn suffix_and_unit(unit: Unit) -> (&'static str, &'static str) {
    match unit {
        Unit::None => ("", "1"),
        Unit::Bytes => ("_bytes", "By"),
        Unit::Seconds => ("_seconds", "s"),
    }
}

fn metric(family: &ReadFamily, name: String, starts: &mut Starts, now_ns: u64) -> Metric {
    let (_, unit) = suffix_and_unit(family.unit);
    let series = family.series.iter();
    let data = match family.kind {
        // A gauge has no start.
        Kind::Gauge => Data::Gauge(Gauge {
            data_points: series
                .filter_map(|series| number(series, Moment { started_ns: 0, now_ns }))
                .collect(),
        }),
        Kind::Counter => {
            let points = series.filter_map(|series| {
                number(series, Moment { started_ns: starts.of(family, series), now_ns })
            });
            let data_points = points.collect();
            Data::Sum(Sum { data_points, aggregation_temporality: CUMULATIVE, is_monotonic: true })
        }
        Kind::Histogram => {
            let points = series.filter_map(|series| {
                distribution(series, Moment { started_ns: starts.of(family, series), now_ns })
            });
            Data::Histogram(Histogram { data_points: points.collect(), aggregation_temporality: CUMULATIVE })
        }
    };
    Metric {
        name,
        description: family.help.clone(),
        unit: unit.to_owned(),
        data: Some(data),
        ..Metric::default()
    }
}

/// The times of a data point.
#[derive(Clone, Copy)]
struct Moment {
    started_ns: u64,
    now_ns: u64,
}

fn number(series: &Series, at: Moment) -> Option<NumberDataPoint> {
    let Reading::Number(value) = &series.reading else { return None };
    let value = match value {
        Value::Integer(value) => i64::try_from(*value).map_or(Number::AsDouble(f64::MAX), Number::AsInt),
        Value::Float(value) => Number::AsDouble(*value),
    };
    Some(NumberDataPoint {
        attributes: attributes(series),
        start_time_unix_nano: at.started_ns,
        time_unix_nano: at.now_ns,
        value: Some(value),
        ..NumberDataPoint::default()
    })
}

fn distribution(series: &Series, at: Moment) -> Option<HistogramDataPoint> {
    let Reading::Distribution(Distribution { bounds, counts, sum }) = &series.reading else { return None };
    Some(HistogramDataPoint {
        attributes: attributes(series),
        start_time_unix_nano: at.started_ns,
        time_unix_nano: at.now_ns,
        count: counts.iter().sum(),
        sum: Some(*sum),
        bucket_counts: counts.clone(),
        explicit_bounds: bounds.clone(),
        ..HistogramDataPoint::default()
    })
}

/// Labels with the names of the semantic conventions, where such exist.
fn attributes(series: &Series) -> Vec<KeyValue> {
    let mut attributes = Vec::with_capacity(series.labels.len() + 1);
    let is_of_messages = series.labels.iter().any(|(name, _)| name == "entity");
    for (name, value) in &series.labels {
        match name.as_str() {
            "entity" => {
                let subscription = value.split_once(SUBSCRIPTIONS);
                let (entity, subscription) =
                    subscription.map_or((&**value, None), |(topic, name)| (topic, Some(name)));
                attributes.push(attribute("messaging.destination.name", entity.to_owned()));
                let subscription = subscription.map(str::to_owned);
                attributes.extend(
                    subscription.map(|name| attribute("messaging.destination.subscription.name", name)),
                );
            }
            // The outcome of a settlement; other operations have outcomes of their own.
            "outcome" if is_of_messages => {
                attributes.push(attribute("messaging.servicebus.disposition_status", value.clone()));
            }
            _ => attributes.push(attribute(name, value.clone())),
        }
    }
    attributes
}
