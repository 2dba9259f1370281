//! Reports the memory that a connection holds, turn by turn.

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite};

use super::super::application::Application;
use super::super::memory::{HeldMemory, Verdict};
use super::Transport;
use crate::endpoint::NowMs;

impl<S, A> Transport<S, A>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
    A: Application,
{
    /// Reports the memory held, and gives up what the verdict demands.
    pub(super) fn report_memory(&mut self, now: NowMs) {
        match self.memory.report(self.held(), now) {
            Verdict::Keep => {}
            Verdict::GiveUp => {
                tracing::info!(
                    "memory is short: partly received deliveries and open transactions are aborted"
                );
                self.application.give_up_kept();
                let why = self.application.memory_short();
                self.connection.give_up_partial_deliveries(&why);
                self.memory.report(self.held(), now);
            }
            Verdict::GiveUpFrame => self.give_up_frame(now),
            Verdict::Close => self.close_busy(),
        }
    }

    /// Gives up the delivery whose frame has partly arrived; if the frame is not a delivery, the connection is closed.
    fn give_up_frame(&mut self, now: NowMs) {
        let why = self.application.memory_short();
        if !self.connection.give_up_frame(&mut self.input.bytes, &why) {
            return self.close_busy();
        }
        tracing::info!("memory is short: a delivery is aborted in the middle of a frame");
        self.input.bytes = BytesMut::new();
        self.memory.report(self.held(), now);
    }

    fn close_busy(&mut self) {
        let why = self.application.memory_short();
        self.connection.abort(why);
    }

    fn held(&self) -> HeldMemory {
        let more = self.application.unanswered();
        let (partial, frame) = (self.connection.reassembly_bytes(), self.input.bytes.len());
        HeldMemory {
            partial,
            frame,
            buffer: self.input.bytes.capacity() - frame,
            unanswered: self.connection.incoming_unsettled().1 + more.bytes,
            kept: more.kept_bytes,
            outgoing: self.connection.pending_bytes() + self.output.len() + more.answer_bytes,
        }
    }
}
