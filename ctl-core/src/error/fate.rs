//! The possible effect of a failed request.

use queue_core::Fate;

use super::{CliError, Exit};

/// The effect of a request that changes something, for the error if its answer is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// The possible effect, such as `the job may have been put`.
    pub may: &'static str,
    /// The command that shows whether it did.
    pub look: &'static str,
}

impl CliError {
    /// Adds the fate of the failed request, which makes `change`, if any: of one that only looks the fate does not
    /// matter. An unknown fate has its own exit code, and its next step is to look: repeating the command may do
    /// the work twice.
    #[must_use]
    pub fn fated(mut self, fate: Fate, change: Option<Change>) -> Self {
        let Some(change) = change else { return self };
        self.fate = Some(fate);
        if fate == Fate::Unknown {
            self.exit = Exit::Unknown;
            self.hints = vec![change.look.to_owned()];
            self.message = format!("{}: {}", self.message, change.may);
        }
        self
    }

    /// Whether the command may have taken effect: a request was sent, and no answer was read.
    pub fn is_unknown(&self) -> bool {
        self.fate == Some(Fate::Unknown)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PUT: Change = Change { may: "the job may have been put", look: "tool jobs, to see it" };

    fn lost(fate: Fate, change: Option<Change>) -> CliError {
        CliError::unavailable("put: the server closed the connection")
            .hint("tool ping")
            .fated(fate, change)
    }

    #[test]
    fn an_unknown_fate_exits_4_with_a_hint() {
        let error = lost(Fate::Unknown, Some(PUT));
        assert!(error.is_unknown() && error.ends_everything());
        let object = serde_json::Value::Object(error.to_object());
        let expected = json!({
            "code": "UNAVAILABLE", "exit": 4, "fate": "unknown", "hints": ["tool jobs, to see it"],
            "message": "put: the server closed the connection: the job may have been put",
        });
        assert_eq!(object, expected);
    }

    #[test]
    fn unsent_and_read_only_requests_keep_their_exit_code() {
        for (fate, change, told) in
            [(Fate::NotSent, Some(PUT), Some("not_sent")), (Fate::Unknown, None, None)]
        {
            let object = lost(fate, change).to_object();
            assert_eq!((&object["exit"], &object["hints"]), (&json!(69), &json!(["tool ping"])));
            assert_eq!(object.get("fate").and_then(|fate| fate.as_str()), told);
        }
    }

    #[test]
    fn ranks_failure_unknown_fate_and_signal() {
        let worst = |exits: &[Exit]| exits.iter().copied().fold(Exit::Done, Exit::worse);
        assert_eq!(worst(&[Exit::Unavailable, Exit::Unknown, Exit::Timeout]), Exit::Unknown);
        assert_eq!(worst(&[Exit::Unknown, Exit::Interrupted]), Exit::Interrupted);
    }
}
