//! Leaving while jobs are reserved: they are treated like an open transaction.

use beanstalk_client::protocol::{Bury, Delete, Release};
use beanstalk_client::{JobId, ReleaseOptions, Released};
use ctl_core::error::CliError;
use ctl_core::link::Link as _;
use ctl_core::repl::guest::Guest as _;
use ctl_core::text::units;

use super::held::list;
use super::state::{BURY, DELETE, State};
use crate::commands::bury_release::buried_instead;
use crate::error::{NOT_FOUND, cli_error};
use crate::tool::Held;

impl State<'_> {
    /// Settles a reserved job this way.
    pub(super) fn settle_one(&mut self, id: JobId, fate: &str) -> Result<(), CliError> {
        let Held { job, pri, .. } = *self.held(id)?;
        let link = &mut self.tool.link;
        let settled = match fate {
            BURY => link.call(Bury::new(job, pri)),
            DELETE => link.call(Delete::new(job)),
            _ => {
                let release = Release::new(job, ReleaseOptions::new(pri)).map_err(cli_error)?;
                match link.call(release) {
                    Ok(Released::Buried) => {
                        self.tool.messages.warn(buried_instead(id).message);
                        Ok(())
                    }
                    released => released.map(drop),
                }
            }
        };
        match settled {
            Ok(()) => {}
            // Its time has expired: it is where a release would have put it, or gone.
            Err(error) if error.code == NOT_FOUND => {
                self.tool.messages.warn(format!("job {id} was no longer reserved"));
            }
            Err(error) => return Err(error),
        }
        self.forget(id);
        Ok(())
    }

    /// Closing the connection gives the jobs back with unchanged priority and counters.
    pub(super) fn close(&mut self, ids: &[JobId]) {
        // A lost connection may have gone unnoticed.
        if let Some(lost) = self.notice_loss() {
            self.tool.messages.warn(lost);
            return;
        }
        self.tool.link.close();
        self.start_connection();
        self.forget_all();
        let jobs = units::count(ids.len() as u64, "reserved job");
        self.tool.messages.warn(format!("{jobs} went back to ready: {}", list(ids)));
    }
}
