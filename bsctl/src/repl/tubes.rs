//! The verbs on the connection: use, watch, ignore.

use beanstalk_client::protocol::{Ignore, Use, Watch};
use ctl_core::error::{CliError, Exit};
use ctl_core::input::named::{One, Several};
use ctl_core::output::Record;
use ctl_core::repl::guest::Guest as _;
use ctl_core::text::units;

use super::state::State;
use crate::names::Tube;

impl State<'_> {
    /// `use`.
    pub(super) fn use_tube(&mut self, tube: &One<Tube>) -> Result<Exit, CliError> {
        let tube = tube.name()?;
        self.tool.link.call(Use(tube.clone()))?;
        self.tidy();
        let done = Record::new().with("used", tube.as_str());
        self.tool.out.done(&done, &format!("using {tube}"))
    }

    /// `watch`.
    pub(super) fn watch(&mut self, tubes: &Several<Tube>) -> Result<Exit, CliError> {
        for tube in tubes.names()? {
            self.tool.link.call(Watch(tube))?;
        }
        self.show_watched()
    }

    /// `ignore`.
    pub(super) fn ignore(&mut self, tubes: &Several<Tube>) -> Result<Exit, CliError> {
        for tube in tubes.names()? {
            self.tool.link.call(Ignore(tube))?;
        }
        self.show_watched()
    }

    fn show_watched(&mut self) -> Result<Exit, CliError> {
        self.tidy();
        let watched: Vec<String> =
            self.tool.link.client()?.watched_tubes().iter().map(ToString::to_string).collect();
        let count = units::count(watched.len() as u64, "tube");
        let said = format!("watching {count}: {}", watched.join(", "));
        self.tool.out.done(&Record::new().with("watched", watched.join(",")), &said)
    }
}
