//! What was last wrong with files that are read for each connection, so that it is logged once.

/// The last problem; `None` if there was none.
#[derive(Debug, Default)]
pub(crate) struct Noted(pub(crate) Option<String>);

impl Noted {
    /// Notes the present problem; returns it if it is another one than before.
    pub(crate) fn note(&mut self, problem: Option<String>) -> Option<&str> {
        let is_new = self.0 != problem;
        self.0 = problem;
        self.0.as_deref().filter(|_| is_new)
    }
}
