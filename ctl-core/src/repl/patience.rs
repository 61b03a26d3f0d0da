//! How long a verb of a session waits.

use std::time::{Duration, Instant};

use crate::text::units;

/// As long as the line or `--timeout` says; otherwise a person waits until Ctrl-C, while a script checks once.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    bound: Option<Duration>,
    until: Option<Instant>,
}

impl Patience {
    /// Starts now. `wait` is the time from the line, `timeout` that of `--timeout`.
    #[must_use]
    pub fn new(wait: Option<Duration>, timeout: Option<Duration>, person: bool) -> Self {
        let look_once = (!person).then_some(Duration::ZERO);
        let bound = wait.or(timeout).or(look_once);
        Self { bound, until: bound.and_then(|bound| Instant::now().checked_add(bound)) }
    }

    /// Whether it only checks once.
    pub fn looks_once(&self) -> bool {
        self.bound == Some(Duration::ZERO)
    }

    /// The time left, at most `most`.
    pub fn slice(&self, most: Duration) -> Duration {
        let rest = self.until.map(|until| until.saturating_duration_since(Instant::now()));
        rest.map_or(most, |rest| rest.min(most))
    }

    /// Whether no time is left.
    pub fn is_over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// The whole time limit, for a message.
    pub fn shown(&self) -> String {
        units::show_duration(self.bound.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);
    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_line_overrides_the_flag_and_scripts_have_a_limit() {
        let shown = |wait, timeout, person| Patience::new(wait, timeout, person).shown();
        assert_eq!(shown(Some(HOUR), Some(SECOND), false), units::show_duration(HOUR));
        assert_eq!(shown(None, Some(SECOND), true), units::show_duration(SECOND));
        let script = Patience::new(None, None, false);
        assert!(script.looks_once() && script.is_over());
        assert_eq!(script.slice(SECOND), Duration::ZERO);
        let person = Patience::new(None, None, true);
        assert!(!person.looks_once() && !person.is_over());
        assert_eq!(person.slice(SECOND), SECOND);
        assert_eq!(Patience::new(Some(HOUR), None, true).slice(SECOND), SECOND);
    }
}
