//! The span of the connection whose task is running, for its log lines.
//!
//! The task does not enter the span: with many connections, entering it at each poll took 3 % of the CPU. Whatever writes
//! log lines enters it for each line.

use std::future::Future;

use tracing::Span;

use crate::wire::loggable;

tokio::task_local! {
    static SPAN: Span;
}

/// Runs a connection; its lines are about the peer at `address`.
pub(super) async fn scope<T>(address: &str, connection: impl Future<Output = T>) -> T {
    let span = tracing::info_span!("connection", peer = address, container = tracing::field::Empty);
    SPAN.scope(span, connection).await
}

/// Adds the peer's container id to the lines of the running connection.
pub(super) fn record_container(container_id: &str) {
    let _ = SPAN.try_with(|span| {
        span.record("container", &*loggable(container_id));
    });
}

/// Calls `write` in the span of the connection whose task is running, if it is one, with the fields `peer` and
/// `container`.
pub fn in_connection_span<T>(write: impl FnOnce() -> T) -> T {
    match SPAN.try_with(Span::clone) {
        Ok(span) => span.in_scope(write),
        Err(_) => write(),
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use super::*;

    /// What was logged.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn lines_are_in_the_span_of_the_connection_whose_task_writes_them() {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false);
        let _default = tracing::subscriber::set_default(subscriber.finish());
        let first = scope("[::1]:1", async {
            in_connection_span(|| tracing::info!("before"));
            record_container("orders");
            tokio::task::yield_now().await;
            in_connection_span(|| tracing::info!("after"));
        });
        let second = scope("[::1]:2", async { in_connection_span(|| tracing::info!("beside")) });

        tokio::join!(first, second);
        in_connection_span(|| tracing::info!("outside"));

        let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        let spans: Vec<_> = log.lines().map(|line| line.split_once("INFO ").unwrap().1).collect();
        let target = "peeklock_amqp::server::log_span::tests:";
        assert_eq!(
            spans,
            [
                format!("connection{{peer=\"[::1]:1\"}}: {target} before"),
                format!("connection{{peer=\"[::1]:2\"}}: {target} beside"),
                format!("connection{{peer=\"[::1]:1\" container=\"orders\"}}: {target} after"),
                format!("{target} outside"),
            ]
        );
    }
}
