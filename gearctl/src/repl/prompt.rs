//! The prompt: the servers, and the session's work in progress.

use ctl_core::repl::Prompt;
use ctl_core::text::color::Role;

/// What the prompt shows.
pub(super) struct Facts<'a> {
    /// The servers, separated by commas; none without a connection.
    pub(super) servers: Option<&'a str>,
    /// Foreground jobs that have not ended.
    pub(super) open: usize,
    /// Number of commands whose jobs have all ended and whose results were not shown yet.
    pub(super) done: usize,
}

/// Maximum number of servers named; for more, the prompt shows their number.
const NAMED: usize = 3;

/// The prompt for the next line.
pub(super) fn render(facts: &Facts<'_>) -> Prompt {
    let mut prompt = match facts.servers {
        Some(servers) => Prompt::new().role(Role::Faint, name_servers(servers)),
        None => Prompt::new().role(Role::Error, "not connected"),
    };
    if facts.open > 0 {
        prompt = prompt.role(Role::Warning, format!(" *{}", facts.open));
    }
    if facts.done > 0 {
        prompt = prompt.role(Role::Good, format!(" done:{}", facts.done));
    }
    prompt.text("> ")
}

fn name_servers(servers: &str) -> String {
    let names: Vec<&str> = servers.split(',').collect();
    match names.get(..NAMED) {
        Some(first) if names.len() > NAMED => {
            format!("{},+{}", first.join(","), names.len() - NAMED)
        }
        _ => servers.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_or_counts_servers() {
        let shown = |servers| render(&Facts { servers, open: 0, done: 0 }).plain();
        assert_eq!(shown(Some("a:1")), "a:1> ");
        assert_eq!(shown(Some("a:1,b:2,c:3")), "a:1,b:2,c:3> ");
        assert_eq!(shown(Some("a:1,b:2,c:3,d:4,e:5")), "a:1,b:2,c:3,+2> ");
        assert_eq!(shown(None), "not connected> ");
        let facts = Facts { servers: Some("a:1"), open: 2, done: 1 };
        assert_eq!(render(&facts).plain(), "a:1 *2 done:1> ");
    }
}
