//! `BrokerProperties` of a sent message: JSON in a header, or in an entry of a batch.

use serde::Deserialize;

use super::date;
use super::object::Object;
use super::scalar::Scalar;
use crate::error::Error;

/// The known properties; other names are ignored, as in the service (admin reference §7).
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct BrokerProperties {
    content_type: Scalar,
    correlation_id: Scalar,
    label: Scalar,
    message_id: Scalar,
    partition_key: Scalar,
    reply_to: Scalar,
    reply_to_session_id: Scalar,
    scheduled_enqueue_time_utc: Scalar,
    session_id: Scalar,
    time_to_live: Scalar,
    time_to_live_time_span: Scalar,
    to: Scalar,
    via_partition_key: Scalar,
}

/// The properties of a sent message, with parsed times.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MessageSettings {
    /// The type of the body.
    pub content_type: Option<String>,
    /// The id of the message that it answers.
    pub correlation_id: Option<String>,
    /// The subject.
    pub label: Option<String>,
    /// Its id; the broker generates one if it is missing.
    pub message_id: Option<String>,
    /// The partition key.
    pub partition_key: Option<String>,
    /// The address for answers.
    pub reply_to: Option<String>,
    /// The session for answers.
    pub reply_to_session_id: Option<String>,
    /// When it becomes available, in milliseconds since 1970.
    pub scheduled_enqueue_time_ms: Option<u64>,
    /// Its session.
    pub session_id: Option<String>,
    /// Its time to live, in milliseconds.
    pub time_to_live_ms: Option<u64>,
    /// The intended recipient.
    pub to: Option<String>,
    /// The partition key for the entity in between (send via).
    pub via_partition_key: Option<String>,
}

impl BrokerProperties {
    /// Parses the value of a header.
    ///
    /// # Errors
    /// 400 for a value that is no JSON object, or that contains lists or objects as values.
    pub(super) fn read(header: &str) -> Result<Self, Error> {
        serde_json::from_str(header)
            .map(|Object(properties)| properties)
            .map_err(|error| Error::bad_request(format!("'BrokerProperties' is invalid: {error}.")))
    }

    /// Parses the values that are not plain text.
    ///
    /// # Errors
    /// 400 for an invalid time.
    pub(super) fn into_settings(self) -> Result<MessageSettings, Error> {
        let time_to_live_ms = match (self.time_to_live, self.time_to_live_time_span) {
            (Scalar::Null, Scalar::Null) => None,
            (Scalar::Null, span) => Some(time_to_live("TimeToLiveTimeSpan", span)?),
            (seconds, _) => Some(time_to_live("TimeToLive", seconds)?),
        };
        let scheduled = self.scheduled_enqueue_time_utc.into_text().filter(|text| !text.is_empty());
        let scheduled_enqueue_time_ms = scheduled.map(|text| scheduled_time(&text)).transpose()?;
        Ok(MessageSettings {
            content_type: self.content_type.into_text(),
            correlation_id: self.correlation_id.into_text(),
            label: self.label.into_text(),
            message_id: self.message_id.into_text().filter(|id| !id.is_empty()),
            partition_key: self.partition_key.into_text(),
            reply_to: self.reply_to.into_text(),
            reply_to_session_id: self.reply_to_session_id.into_text(),
            scheduled_enqueue_time_ms,
            session_id: self.session_id.into_text(),
            time_to_live_ms,
            to: self.to.into_text(),
            via_partition_key: self.via_partition_key.into_text(),
        })
    }
}

fn scheduled_time(text: &str) -> Result<u64, Error> {
    date::read(text).ok_or_else(|| {
        Error::bad_request("ScheduledEnqueueTimeUtc is not a date: write 'Sun, 06 Nov 1994 08:49:37 GMT'.")
    })
}

/// Seconds as a number or text, or a time span; returns milliseconds. The longest time span means no limit.
fn time_to_live(name: &str, value: Scalar) -> Result<u64, Error> {
    let seconds = match value {
        #[allow(clippy::cast_precision_loss)] // irrelevant for times to live
        Scalar::Integer(seconds) => Some(seconds as f64),
        Scalar::Double(seconds) => Some(seconds),
        Scalar::Text(text) => text.trim().parse().ok().or_else(|| time_span_seconds(text.trim())),
        Scalar::Null | Scalar::Bool(_) => None,
    };
    match seconds.filter(|seconds| *seconds > 0.0) {
        // The conversion saturates.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // positive, and floats saturate
        Some(seconds) => Ok((seconds * 1000.0).ceil() as u64),
        None => Err(Error::bad_request(format!("{name} must be more than 0 seconds."))),
    }
}

/// `[days.]hours:minutes:seconds[.fraction]`, as .NET writes a `TimeSpan`.
fn time_span_seconds(text: &str) -> Option<f64> {
    let mut parts = text.splitn(3, ':');
    let (days_and_hours, minutes, seconds) = (parts.next()?, parts.next()?, parts.next()?);
    let (days, hours) = days_and_hours.split_once('.').unwrap_or(("0", days_and_hours));
    let whole = |text: &str| text.parse::<u32>().ok().map(f64::from);
    let seconds = seconds.starts_with(|first: char| first.is_ascii_digit()).then_some(seconds)?;
    Some(
        whole(days)? * 86_400.0
            + whole(hours)? * 3600.0
            + whole(minutes)? * 60.0
            + seconds.parse::<f64>().ok()?,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(json: &str) -> Result<MessageSettings, Error> {
        BrokerProperties::read(json)?.into_settings()
    }

    #[test]
    fn names_are_read_in_any_order_and_unknown_ones_ignored() {
        let json = r#"{ "TimeToLive": 90, "SessionId": "{27729E1-B37B}", "New": [1, {"a": 2}], "MessageId": "m",
            "PartitionKey": "{27729E1-B37B}", "Label": "l", "CorrelationId": "c", "To": "to", "ReplyTo": "back",
            "ReplyToSessionId": "rs", "ScheduledEnqueueTimeUtc": " Sun, 06 Nov 1994 08:49:37 GMT",
            "ForcePersistence": true, "ViaPartitionKey": "v", "DeliveryCount": 2, "SequenceNumber": 12345 }"#;
        let read = settings(json).expect("sound");
        assert_eq!(read.time_to_live_ms, Some(90_000));
        assert_eq!(read.scheduled_enqueue_time_ms, Some(784_111_777_000));
        let texts =
            [&read.session_id, &read.message_id, &read.partition_key, &read.label, &read.correlation_id];
        let expected = ["{27729E1-B37B}", "m", "{27729E1-B37B}", "l", "c"];
        assert_eq!(texts.map(|text| text.as_deref().expect("there")), expected);
        let texts = [&read.to, &read.reply_to, &read.reply_to_session_id, &read.via_partition_key];
        assert_eq!(texts.map(|text| text.as_deref().expect("there")), ["to", "back", "rs", "v"]);
        assert_eq!(settings("{}"), Ok(MessageSettings::default()));
    }

    #[test]
    fn lives_are_seconds_or_time_spans() {
        let life = |json: &str| settings(json).map(|settings| settings.time_to_live_ms.expect("there"));
        assert_eq!(life(r#"{"TimeToLive": 0.0015}"#), Ok(2));
        assert_eq!(life(r#"{"TimeToLive": "40"}"#), Ok(40_000));
        assert_eq!(life(r#"{"TimeToLiveTimeSpan": "0.00:00:40"}"#), Ok(40_000));
        assert_eq!(life(r#"{"TimeToLiveTimeSpan": "1.01:01:01.5"}"#), Ok(90_061_500));
        assert_eq!(life(r#"{"TimeToLive": 922337203685.47754}"#), Ok(922_337_203_685_478));
        assert_eq!(life(r#"{"TimeToLive": 1e300}"#), Ok(u64::MAX));
        for json in [
            r#"{"TimeToLive": 0}"#,
            r#"{"TimeToLive": -1}"#,
            r#"{"TimeToLive": "soon"}"#,
            r#"{"TimeToLive": "NaN"}"#,
            r#"{"TimeToLive": true}"#,
            r#"{"TimeToLiveTimeSpan": "1:2"}"#,
            r#"{"TimeToLiveTimeSpan": "0:0:-1"}"#,
        ] {
            assert_eq!(life(json).expect_err(json).sub_code, 40000);
        }
    }

    #[test]
    fn invalid_broker_properties_are_refused() {
        for json in ["", "[]", "7", "{", r#"{"Label": []}"#, r#"{"Label": {}}"#, r#"{"Label": "a"} x"#] {
            assert!(settings(json).is_err(), "{json}");
        }
        assert!(settings(r#"{"ScheduledEnqueueTimeUtc": "tomorrow"}"#).is_err());
    }
}
