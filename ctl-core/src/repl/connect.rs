//! The verb `connect`: a session switches to other servers.

use clap::ArgMatches;

use super::builtin;
use super::guest::{Guest, Interactive, Parts};
use crate::error::{CliError, Exit};
use crate::link::{Dialer, Link, PATIENCE};
use crate::output::Record;

/// The target of `connect`.
enum Goal {
    Servers(String),
    Context(String),
}

impl Goal {
    fn of(matches: &ArgMatches) -> Result<Self, CliError> {
        let line = matches.subcommand().map_or(matches, |(_, line)| line);
        let text = |id: &str| line.try_get_one::<String>(id).ok().flatten().cloned();
        match (text(builtin::ADDRESS), text("context")) {
            (Some(addresses), None) => Ok(Self::Servers(addresses)),
            (None, Some(context)) => Ok(Self::Context(context)),
            _ => Err(CliError::usage("connect takes a server or a context")
                .hint("connect ADDR, or connect --context NAME")),
        }
    }

    /// Takes effect with the next connection.
    fn aim<L: Link>(&self, dialer: &mut Dialer<L>) -> Result<(), CliError> {
        match self {
            Self::Context(name) => dialer.enter(name),
            Self::Servers(addresses) => {
                L::parse(addresses)?;
                dialer.retarget(addresses.clone());
                Ok(())
            }
        }
    }
}

/// Checks that the servers of `connect` answer, before the session gives up its current ones.
pub(super) fn reach<G: Guest>(guest: &mut G, matches: &ArgMatches) -> Result<(), CliError> {
    let goal = Goal::of(matches)?;
    let link = &mut guest.parts().tool.link;
    let mut next = link.sibling();
    goal.aim(next.dialer_mut())?;
    next.dialer_mut().default_timeout(PATIENCE);
    let answered = next.connect().and_then(|()| next.ping(1));
    answered.map(drop).map_err(|error| match link.dialer_mut().address() {
        Ok(address) => {
            let message = format!("{}; still connected to {address}", error.message);
            CliError { message, ..error }
        }
        Err(_) => error,
    })
}

/// `connect`: switches to other servers, which have answered. What the session held has already been settled.
pub(super) fn go_to<G: Guest>(guest: &mut G, matches: &ArgMatches) -> Result<Exit, CliError> {
    let goal = Goal::of(matches)?;
    guest.leave_servers();
    let Parts { tool, names, .. } = guest.parts();
    tool.link.close();
    goal.aim(tool.link.dialer_mut())?;
    names.go_to(G::Tool::live_names(tool.link.behind()));
    tool.link.connect()?;
    let address = tool.link.dialer_mut().address()?;
    guest.notice_loss();
    guest.tidy();
    let done = Record::new().with("server", address.as_str());
    guest.parts().tool.out.done(&done, &format!("connected to {address}"))
}
