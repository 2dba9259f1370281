//! The page in Prometheus's text format 0.0.4, for scrapers that don't read OpenMetrics: Telegraf (influxdata/telegraf 9547
//! and 10248), Metricbeat (elastic/beats 24622).

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;

/// The media type of [`text_format`].
pub(in crate::serve) const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Whether a scraper accepts plain text and not OpenMetrics. A client that names neither gets OpenMetrics.
pub(in crate::serve) fn wants_text_format(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let ranges = accepted.flat_map(|value| value.split(','));
    let kinds = ranges.map(|range| range.split(';').next().unwrap_or_default().trim().to_ascii_lowercase());
    let kinds: Vec<String> = kinds.collect();
    let names = |wanted: &str| kinds.iter().any(|kind| kind == wanted);
    names("text/plain") && !names("application/openmetrics-text")
}

/// Converts a page in OpenMetrics text. In the text format the family of a counter has the name of its series, quotation
/// marks in a help text are not escaped, and there are neither units nor an end.
pub(in crate::serve) fn text_format(page: &str) -> String {
    let mut text = String::with_capacity(page.len());
    // The help text of a family precedes its type, on which the name depends.
    let mut help = "";
    for line in page.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("UNIT" | "EOF"), ..) => {}
            (Some("#"), Some("HELP"), _, rest) => help = rest.unwrap_or_default(),
            (Some("#"), Some("TYPE"), Some(name), Some(kind)) => {
                let total = if kind == "counter" { "_total" } else { "" };
                let help = std::mem::take(&mut help).replace("\\\"", "\"");
                text.push_str(&format!("# HELP {name}{total} {help}\n# TYPE {name}{total} {kind}\n"));
            }
            _ => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn wants(accept: &str) -> bool {
        wants_text_format(&HeaderMap::from_iter([(ACCEPT, HeaderValue::from_str(accept).unwrap())]))
    }

    #[test]
    fn a_scraper_that_does_not_read_openmetrics_is_recognized() {
        let telegraf = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.7,\
                        text/plain;version=0.0.4;q=0.3";
        let prometheus =
            "application/openmetrics-text;version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert!(wants(telegraf) && wants("text/plain") && wants("Text/Plain; version=0.0.4, */*;q=0.1"));
        assert!(!wants(prometheus) && !wants("*/*") && !wants("") && !wants_text_format(&HeaderMap::new()));
    }

    #[test]
    fn counters_have_the_names_of_their_series() {
        let page = "# HELP a_sent Sent \\\"now\\\".\n# TYPE a_sent counter\na_sent_total{to=\"x \\\"y\\\"\"} 3\n\
                    # HELP a_held_bytes Memory.\n# TYPE a_held_bytes gauge\n# UNIT a_held_bytes bytes\na_held_bytes 1.5\n# EOF\n";
        let text = "# HELP a_sent_total Sent \"now\".\n# TYPE a_sent_total counter\na_sent_total{to=\"x \\\"y\\\"\"} 3\n\
                    # HELP a_held_bytes Memory.\n# TYPE a_held_bytes gauge\na_held_bytes 1.5\n";
        assert_eq!(text_format(page), text);
    }
}
