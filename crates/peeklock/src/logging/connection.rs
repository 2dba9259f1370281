//! Adds the fields of a connection to the lines that its task logs.

use std::fmt;

use peeklock_amqp::server::in_connection_span;
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Formats each event as the inner format does, within the span of the running connection.
pub(super) struct WithConnection<F>(pub(super) F);

impl<S, N, F> FormatEvent<S, N> for WithConnection<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        in_connection_span(|| self.0.format_event(context, writer, event))
    }
}
