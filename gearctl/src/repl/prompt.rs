//! The prompt: the servers, and the session's work in progress.

use ctl_core::repl::Prompt;
use ctl_core::text::color::Role;

/// Maximum number of servers named; for more, the prompt shows their number.
const NAMED: usize = 3;

/// The prompt for the next line: the servers, separated by commas, unless there is no connection; the number of
/// foreground jobs that have not ended; and the number of commands whose jobs have all ended and whose results were not
/// shown yet.
pub(super) fn render(servers: Option<&str>, open: usize, done: usize) -> Prompt {
    let mut prompt = match servers {
        Some(servers) => Prompt::new().role(Role::Faint, name_servers(servers)),
        None => Prompt::new().role(Role::Error, "not connected"),
    };
    if open > 0 {
        prompt = prompt.role(Role::Warning, format!(" *{open}"));
    }
    if done > 0 {
        prompt = prompt.role(Role::Good, format!(" done:{done}"));
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
        let shown = |servers| render(servers, 0, 0).plain();
        assert_eq!(shown(Some("a:1")), "a:1> ");
        assert_eq!(shown(Some("a:1,b:2,c:3")), "a:1,b:2,c:3> ");
        assert_eq!(shown(Some("a:1,b:2,c:3,d:4,e:5")), "a:1,b:2,c:3,+2> ");
        assert_eq!(shown(None), "not connected> ");
        assert_eq!(render(Some("a:1"), 2, 1).plain(), "a:1 *2 done:1> ");
    }
}
