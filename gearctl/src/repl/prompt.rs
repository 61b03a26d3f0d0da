//! The prompt: which servers, and what the session has under way.

use ctl_core::color::Role;
use ctl_core::repl::Prompt;

use super::state::State;

/// What the prompt shows.
struct Facts<'a> {
    /// The servers with commas; none without a connection.
    servers: Option<&'a str>,
}

impl State<'_> {
    /// The prompt for the next line.
    pub(super) fn show_prompt(&mut self) -> Prompt {
        let address = self.tool.link.address().unwrap_or_default();
        let servers = self.is_connected().then_some(address.as_str());
        render(&Facts { servers })
    }
}

/// So many servers are named; of more, their number is told.
const NAMED: usize = 3;

fn render(facts: &Facts<'_>) -> Prompt {
    let Some(servers) = facts.servers else {
        return Prompt::new().role(Role::Error, "not connected").text("> ");
    };
    let names: Vec<&str> = servers.split(',').collect();
    let shown = names.get(..NAMED).filter(|_| names.len() > NAMED).map_or_else(
        || servers.to_owned(),
        |first| format!("{},+{}", first.join(","), names.len() - NAMED),
    );
    Prompt::new().role(Role::Faint, shown).text("> ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_named_or_counted() {
        let shown = |servers| render(&Facts { servers }).plain();
        assert_eq!(shown(Some("a:1")), "a:1> ");
        assert_eq!(shown(Some("a:1,b:2,c:3")), "a:1,b:2,c:3> ");
        assert_eq!(shown(Some("a:1,b:2,c:3,d:4,e:5")), "a:1,b:2,c:3,+2> ");
        assert_eq!(shown(None), "not connected> ");
    }
}
