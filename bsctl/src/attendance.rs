//! Which workers take the jobs of a tube, as far as the server reports, and the problems of a tube. Every command
//! judges by this.
//!
//! A connection that watches a tube counts as its worker, except for `default`: every connection watches it from the
//! start, also those that only put or look. A worker of `default` watches it and has reserved, and the server tells
//! only how many connections do the one and the other.

use beanstalk_client::protocol::{Stats, StatsTube};
use beanstalk_client::{ServerStats, TubeName, TubeStats};
use ctl_core::commands::check;
use ctl_core::error::CliError;

use crate::link::Link;

/// The number of workers of a tube: equal bounds if it is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Workers {
    /// There are at least as many.
    pub least: u64,
    /// There are at most as many.
    pub most: u64,
}

impl Workers {
    /// The workers of a tube, from statistics that [leave out](Link::own) the tool's own connections. The server's are
    /// needed for `default`.
    pub fn of(tube: &TubeStats, server: Option<&ServerStats>) -> Self {
        let watching = tube.current_watching;
        if tube.name != TubeName::default() {
            return Self { least: watching, most: watching };
        }
        let Some(server) = server else { return Self { least: 0, most: watching } };
        let most = watching.min(server.current_workers);
        // If all connections watch, all that reserve do; each that does not watch may be one that reserves.
        let elsewhere = server.current_connections.saturating_sub(watching);
        let least = server.current_workers.saturating_sub(elsewhere).max(tube.current_waiting);
        Self { least: least.min(most), most }
    }

    /// The statistics of a tube that exists, and its workers.
    ///
    /// # Errors
    /// The failure of the connection.
    pub fn ask(link: &mut Link, tube: &TubeName) -> Result<Option<(TubeStats, Self)>, CliError> {
        let own = link.own()?;
        let (stats, server) = if *tube == TubeName::default() {
            let (tube, server) = link.pair(StatsTube(tube.clone()), Stats)?;
            (tube?, Some(server?))
        } else {
            (link.call(StatsTube(tube.clone()))?, None)
        };
        let server = server.map(|server| own.left_out_of_server(server));
        Ok(stats.map(|stats| {
            let stats = own.left_out_of_tube(stats);
            let workers = Self::of(&stats, server.as_ref());
            (stats, workers)
        }))
    }
}

/// The problems of a tube; the most severe is first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    /// Jobs are ready and no worker takes them.
    NoWorkers,
    /// Jobs are ready, and the server does not report whether a worker takes them.
    WorkersUnknown,
    /// It is paused.
    Paused,
    /// It has buried jobs.
    Buried,
}

/// The figures of a tube that show problems.
#[derive(Debug, Clone, Copy, Default)]
pub struct Load {
    /// Number of ready jobs.
    pub ready: u64,
    /// Number of workers.
    pub workers: Workers,
    /// Remaining seconds of a pause.
    pub pause_left: u64,
    /// Number of buried jobs.
    pub buried: u64,
}

impl Load {
    /// The load of a tube.
    pub fn of(stats: &TubeStats, workers: Workers) -> Self {
        Self {
            ready: stats.current_jobs_ready,
            workers,
            pause_left: u64::try_from(stats.pause_time_left).unwrap_or(0),
            buried: stats.current_jobs_buried,
        }
    }

    /// Its problems, the most severe first.
    pub fn problems(self) -> impl Iterator<Item = Problem> {
        let Workers { least, most } = self.workers;
        let found = [
            (Problem::NoWorkers, self.ready > 0 && most == 0),
            (Problem::WorkersUnknown, self.ready > 0 && least == 0 && most > 0),
            (Problem::Paused, self.pause_left > 0),
            (Problem::Buried, self.buried > 0),
        ];
        found.into_iter().filter_map(|(problem, is_there)| is_there.then_some(problem))
    }
}

impl Problem {
    /// In a column, next to the figures.
    pub const fn short(self) -> &'static str {
        match self {
            Self::NoWorkers => "no workers",
            Self::WorkersUnknown => "workers unknown",
            Self::Paused => "paused",
            Self::Buried => "buried jobs",
        }
    }

    /// The metric of a check that shows it, and what it means there.
    pub const fn in_check(self) -> (&'static str, check::Problem) {
        use check::Problem::{Unattended, Untold, Unusual};
        match self {
            Self::NoWorkers => ("workers", Unattended("ready jobs but no workers")),
            Self::WorkersUnknown => {
                let why = "ready jobs, and the server does not tell whether any client that reserves watches the tube";
                ("workers", Untold(why))
            }
            Self::Paused => ("pause-left", Unusual("paused")),
            Self::Buried => ("buried", Unusual("buried jobs")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workers(
        tube: &str,
        [watching, waiting]: [u64; 2],
        [workers, connections]: [u64; 2],
    ) -> Workers {
        let tube = format!(
            "---\nname: {tube}\ncurrent-watching: {watching}\ncurrent-waiting: {waiting}\n"
        );
        let server =
            format!("---\ncurrent-workers: {workers}\ncurrent-connections: {connections}\n");
        let server = ServerStats::parse(server.as_bytes()).unwrap();
        Workers::of(&TubeStats::parse(tube.as_bytes()).unwrap(), Some(&server))
    }

    #[test]
    fn bounds_the_workers_of_default_by_server_figures() {
        for (what, tube, server, least, most) in [
            ("nobody is there", [0, 0], [0, 0], 0, 0),
            ("three idle producers", [3, 0], [0, 3], 0, 0),
            ("two workers and a producer", [3, 0], [2, 3], 2, 2),
            ("workers elsewhere, nobody here", [0, 0], [2, 2], 0, 0),
            ("workers elsewhere, a producer here", [1, 0], [2, 3], 0, 1),
            ("one of them waits here", [2, 1], [3, 4], 1, 2),
            ("a worker has gone between the two replies", [1, 1], [0, 0], 0, 0),
        ] {
            assert_eq!(workers("default", tube, server), Workers { least, most }, "{what}");
        }
        assert_eq!(workers("mail", [2, 0], [0, 0]), Workers { least: 2, most: 2 });
    }
}
