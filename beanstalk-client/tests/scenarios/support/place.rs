//! Where a scenario runs: the in-memory server or the real one.

use std::time::Duration;

use beanstalk_client::{ConnectOptions, RetryPolicy};
use fixtures::{
    beanstalkd::{Listen, Server},
    real::{Beanstalkd, RealServer},
};

use super::Face;

/// Longer than anything takes here, even on a busy machine; only a hang reaches it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A deadline that passes while the server is silent, but that every answer meets, even if a busy machine stops its
/// thread for two seconds.
pub(crate) const LATE: Duration = Duration::from_secs(3);

/// Which server a scenario is to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Environment {
    /// The in-memory server, with a real clock.
    InMemory,
    /// The installed beanstalkd.
    Real,
}

/// A running server.
#[derive(Debug)]
pub(crate) enum Place {
    /// The in-memory server.
    InMemory(Server),
    /// The installed beanstalkd.
    Real(RealServer),
}

impl Environment {
    /// Whether this server can be started; with `CI=true` a missing one is a panic.
    #[must_use]
    pub(crate) fn is_available(self) -> bool {
        self == Environment::InMemory
            || Beanstalkd::program().is_some()
            || Beanstalkd::start().is_some()
    }

    /// Starts a server with the usual settings.
    #[must_use]
    pub(crate) fn start(self) -> Place {
        match self {
            Environment::InMemory => Place::InMemory(Server::start().unwrap()),
            Environment::Real => Place::Real(Beanstalkd::start().unwrap()),
        }
    }

    /// Starts a server with the usual settings, and connects a client.
    #[must_use]
    pub(crate) fn with_client<F: Face>(self) -> (Place, F) {
        let place = self.start();
        let client = place.connect();
        (place, client)
    }

    /// Starts a server that accepts bodies up to this size.
    #[must_use]
    pub(crate) fn start_with_max_job_size(self, bytes: u32) -> Place {
        match self {
            Environment::InMemory => {
                Place::InMemory(Server::builder().max_job_size(bytes).start().unwrap())
            }
            Environment::Real => {
                let builder = Beanstalkd::builder().arg("-z").arg(bytes.to_string());
                Place::Real(builder.start().unwrap())
            }
        }
    }

    /// Starts a server on a unix socket in `folder`.
    #[cfg(unix)]
    #[must_use]
    pub(crate) fn start_on_unix_socket(self, folder: &std::path::Path) -> Place {
        match self {
            Environment::InMemory => {
                let listen = Listen::Unix(folder.join("beanstalkd.sock"));
                Place::InMemory(Server::builder().listen(listen).start().unwrap())
            }
            Environment::Real => Place::Real(Beanstalkd::builder().unix_socket().start().unwrap()),
        }
    }
}

impl Place {
    /// Where clients reach it.
    #[must_use]
    pub(crate) fn address(&self) -> &str {
        match self {
            Place::InMemory(server) => server.address(),
            Place::Real(server) => server.address(),
        }
    }

    /// A client with patient deadlines.
    #[must_use]
    pub(crate) fn connect<F: Face>(&self) -> F {
        connect(self.address())
    }

    /// Puts the server into drain mode.
    #[cfg(unix)]
    pub(crate) fn drain(&self) {
        match self {
            Place::InMemory(server) => server.drain(),
            Place::Real(server) => server.drain().unwrap(),
        }
    }
}

/// Options for this address: patient deadlines, and quick reconnects.
#[must_use]
pub(crate) fn options(address: &str) -> ConnectOptions {
    let options: ConnectOptions = address.parse().unwrap();
    options
        .connect_timeout(PATIENCE)
        .write_timeout(PATIENCE)
        .reply_timeout(PATIENCE)
        .retry(RetryPolicy::new(5).backoff(Duration::from_millis(1), Duration::from_millis(20)))
}

/// A client of this address with patient deadlines.
#[must_use]
pub(crate) fn connect<F: Face>(address: &str) -> F {
    F::connect(options(address)).unwrap()
}

/// Starts the in-memory server with the usual settings, and connects a client.
#[must_use]
pub(crate) fn start<F: Face>() -> (Server, F) {
    with_client(Server::start().unwrap())
}

/// This server, and a client of it.
#[must_use]
pub(crate) fn with_client<F: Face>(server: Server) -> (Server, F) {
    let client = connect(server.address());
    (server, client)
}
