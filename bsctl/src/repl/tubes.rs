//! The verbs on the connection: use, watch, ignore, connect.

use beanstalk_client::protocol::{Ignore, Use, Watch};
use ctl_core::error::{CliError, Exit};
use ctl_core::output::Record;
use ctl_core::units;

use super::state::State;
use crate::error::cli_error;
use crate::names;

impl State<'_> {
    /// `use`.
    pub(super) fn use_tube(&mut self, tube: &str) -> Result<Exit, CliError> {
        let tube = names::tube(tube)?;
        self.tool.link.call(Use(tube.clone()))?;
        self.tidy();
        let done = Record::new().with("used", tube.as_str());
        self.tool.out.done(&done, &format!("using {tube}"))?;
        Ok(Exit::Done)
    }

    /// `watch`.
    pub(super) fn watch(&mut self, tubes: &[String]) -> Result<Exit, CliError> {
        for tube in names::tubes(tubes)? {
            self.tool.link.call(Watch(tube))?;
        }
        self.show_watched()
    }

    /// `ignore`.
    pub(super) fn ignore(&mut self, tubes: &[String]) -> Result<Exit, CliError> {
        for tube in names::tubes(tubes)? {
            self.tool.link.call(Ignore(tube))?;
        }
        self.show_watched()
    }

    fn show_watched(&mut self) -> Result<Exit, CliError> {
        self.tidy();
        let watched: Vec<String> =
            self.tool.client()?.watched_tubes().iter().map(ToString::to_string).collect();
        let count = units::count(watched.len() as u64, "tube");
        let said = format!("watching {count}: {}", watched.join(", "));
        self.tool.out.done(&Record::new().with("watched", watched.join(",")), &said)?;
        Ok(Exit::Done)
    }

    /// `connect`: goes to another server. The reserved jobs have been settled before.
    pub(super) fn connect(&mut self, addr: &str) -> Result<Exit, CliError> {
        // Checked before the old connection is given up.
        let address: beanstalk_client::Address = addr.parse().map_err(cli_error)?;
        self.forget_all();
        self.tool.link.retarget(address.to_string());
        self.start_connection();
        let link = self.tool.link.sibling();
        self.names.connect_to(link);
        self.tool.client()?;
        self.note_loss();
        self.tidy();
        let done = Record::new().with("address", address.to_string());
        self.tool.out.done(&done, &format!("connected to {address}"))?;
        Ok(Exit::Done)
    }
}
