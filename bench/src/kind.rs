//! The faces of a client: blocking, and async on either kind of runtime; knows no queue.

use anyhow::Result;
use clap::ValueEnum;
use tokio::runtime::{Builder, Runtime};

/// One of our faces, and the raw loop of the same kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Threads and blocking sockets.
    Blocking,
    /// Tokio on a current-thread runtime.
    Async,
    /// Tokio on a runtime with two worker threads.
    Multi,
}

impl Kind {
    /// Its name in the table.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Blocking => "blocking",
            Kind::Async => "async",
            Kind::Multi => "multi",
        }
    }

    /// The runtime of this kind.
    pub fn runtime(self) -> Result<Runtime> {
        let mut builder = match self {
            Kind::Multi => Builder::new_multi_thread(),
            _ => Builder::new_current_thread(),
        };
        Ok(builder.worker_threads(2).enable_all().build()?)
    }
}
