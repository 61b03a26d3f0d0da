//! The prompt: the session's place, and what it holds.

use std::time::Duration;

use beanstalk_client::TubeName;
use ctl_core::repl::Prompt;
use ctl_core::text::color::Role;

use super::held::WARN_BELOW;
use crate::link::Place;

/// The contents of the prompt.
pub(super) struct Facts<'a> {
    pub(super) address: &'a str,
    pub(super) place: Option<Place>,
    pub(super) held: usize,
    pub(super) left: Option<Duration>,
    pub(super) draining: bool,
    /// Whether the terminal has more than ASCII and one colour.
    pub(super) rich: bool,
}

/// The prompt for the next line.
pub(super) fn render(facts: &Facts<'_>) -> Prompt {
    let Some(Place { used, watched }) = &facts.place else {
        return Prompt::new().role(Role::Error, "not connected").text("> ");
    };
    let mut prompt = Prompt::new().role(Role::Faint, facts.address).text(" ");
    prompt = prompt.role(Role::Heading, used.as_str());
    if let Some(left) = facts.left.filter(|_| facts.held > 0) {
        let role = if left < WARN_BELOW { Role::Warning } else { Role::Good };
        let glass = if facts.rich { "⧗" } else { "" };
        prompt = prompt.role(role, format!("*{} {glass}{}s", facts.held, left.as_secs()));
    }
    if watched.as_slice() != std::slice::from_ref(used) {
        let tubes: Vec<&str> = watched.iter().map(TubeName::as_str).collect();
        prompt = prompt.role(Role::Faint, format!(" watch:{}", tubes.join(",")));
    }
    if facts.draining {
        prompt = prompt.role(Role::Warning, " (draining)");
    }
    prompt.text("> ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(used: &str, watched: &[&str], held: usize, rich: bool) -> String {
        let tube = |name: &str| TubeName::try_from(name).unwrap();
        let facts = Facts {
            address: "127.0.0.1:11300",
            place: Some(Place {
                used: tube(used),
                watched: watched.iter().map(|name| tube(name)).collect(),
            }),
            held,
            left: Some(Duration::from_millis(41_900)),
            draining: false,
            rich,
        };
        render(&facts).plain()
    }

    #[test]
    fn a_plain_terminal_gets_ascii() {
        let prompt = shown("mail", &["mail"], 2, false);
        assert_eq!(prompt, "127.0.0.1:11300 mail*2 41s> ");
        assert!(prompt.is_ascii());
    }

    #[test]
    fn shows_disconnected_and_draining() {
        let facts =
            Facts { address: "x", place: None, held: 0, left: None, draining: false, rich: true };
        assert_eq!(render(&facts).plain(), "not connected> ");
        let facts = Facts { place: Some(Place::default()), draining: true, ..facts };
        assert_eq!(render(&facts).plain(), "x default (draining)> ");
    }
}
