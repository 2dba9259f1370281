//! Failure of a command, with advice.

use peeklock_client::ClientError;

use crate::cli::output;
use crate::exit::Exit;

/// A failed command.
#[derive(Debug)]
pub(super) struct Failure {
    message: String,
    advice: Option<String>,
    exit: Exit,
}

impl Failure {
    /// A failure at run time.
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), advice: None, exit: Exit::Failure }
    }

    /// An invalid command line or file.
    pub(super) fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), advice: None, exit: Exit::Usage }
    }

    /// Adds advice.
    pub(super) fn advise(self, advice: impl Into<String>) -> Self {
        Self { advice: Some(advice.into()), ..self }
    }

    /// An error about an entity or message.
    pub(super) fn about(subject: &str, error: ClientError) -> Self {
        let failure = Self::from(error);
        Self { message: format!("{subject}: {}", failure.message), ..failure }
    }

    /// The failure in one line.
    pub(super) fn text(&self) -> String {
        match &self.advice {
            Some(advice) => format!("{}; {advice}", self.message),
            None => self.message.clone(),
        }
    }

    /// Prints it on standard error.
    pub(super) fn report(self) -> Exit {
        output::error(&self.message);
        if let Some(advice) = self.advice {
            output::note(advice);
        }
        self.exit
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let advice = if error.is_unreachable() {
            Some(
                "is a broker running there? `peeklock` starts one; --connection or the variable PEEKLOCK_CONNECTION \
                 names another",
            )
        } else if error.is_unauthorized() {
            Some(
                "check SharedAccessKeyName and SharedAccessKey in the connection string, and the rights of that rule",
            )
        } else if error.is_not_found() {
            Some(
                "`peeklock ls` lists the queues, topics and subscriptions; `topic/Subscriptions/name` is a subscription",
            )
        } else if matches!(error, ClientError::NoApi(_)) {
            Some(
                "this command works with Peeklock only; docs/cli.md says which commands work with Azure Service Bus and the emulator",
            )
        } else if matches!(error, ClientError::Tls(_)) {
            Some(
                "--ca FILE names the CA of the broker's certificate (ca.pem in its data directory); UseDevelopmentEmulator=true \
                 in the connection string means no TLS",
            )
        } else if error.condition() == Some("com.microsoft:session-cannot-be-locked") {
            Some("another receiver holds the session; wait until its lock ends, or choose another one")
        } else {
            None
        };
        let exit = if matches!(error, ClientError::Argument(_)) { Exit::Usage } else { Exit::Failure };
        Self { message: error.to_string(), advice: advice.map(str::to_owned), exit }
    }
}
