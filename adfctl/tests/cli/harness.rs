//! Running the program, and a server of each kind to run it against.

pub(crate) use ctl_contract::program::{Program, Ran, late};
use fixtures::adf_queue::Server;
use fixtures::real::{AdfQueueServer, RealQueue};

/// The program.
pub(crate) const PROGRAM: Program = Program::of::<adfctl::Adfctl>(env!("CARGO_BIN_EXE_adfctl"));

pub(crate) fn bare(arguments: &[&str]) -> Ran {
    PROGRAM.bare(arguments)
}

pub(crate) fn adfctl(address: &str, arguments: &[&str]) -> Ran {
    PROGRAM.at(address, arguments)
}

pub(crate) fn adfctl_with(address: &str, arguments: &[&str], stdin: &[u8]) -> Ran {
    PROGRAM.fed(address, arguments, stdin)
}

/// A server to run against.
pub(crate) struct Site {
    address: String,
    real: Option<AdfQueueServer>,
}

/// A queue that no other test has.
pub(crate) struct Queue {
    pub(crate) name: String,
    _real: Option<RealQueue>,
}

impl Site {
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The same server over HTTP.
    pub(crate) fn http(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A new queue.
    pub(crate) fn queue(&self, base: &str) -> Queue {
        if let Some(server) = &self.real {
            let real = server.queue(base).unwrap();
            return Queue { name: real.name().to_owned(), _real: Some(real) };
        }
        let name = format!("/{base}");
        adfctl(&self.address, &["queue", "create", &name]).exits(0);
        Queue { name, _real: None }
    }

    /// A unique name of a queue that does not exist.
    pub(crate) fn no_queue(&self, base: &str) -> Queue {
        match &self.real {
            Some(server) => {
                let real = server.no_queue(base);
                Queue { name: real.name().to_owned(), _real: Some(real) }
            }
            None => Queue { name: format!("/{base}"), _real: None },
        }
    }
}

/// Runs a scenario against a fresh in-memory server, and against the real one if there is one.
pub(crate) fn on_both(scenario: impl Fn(&Site)) {
    let server = Server::start().unwrap();
    scenario(&Site { address: server.address().to_owned(), real: None });
    if let Some(real) = AdfQueueServer::find() {
        scenario(&Site { address: real.address().to_owned(), real: Some(real) });
    }
}

/// A queue with these messages.
pub(crate) fn filled(site: &Site, base: &str, bodies: &[&str]) -> Queue {
    let queue = site.queue(base);
    adfctl(site.address(), &[&["push", &queue.name], bodies].concat()).exits(0);
    queue
}

/// The number of ready messages.
pub(crate) fn ready(address: &str, queue: &str) -> u64 {
    let ran = adfctl(address, &["queues", queue, "--columns", "ready", "-o", "plain"]).exits(0);
    ran.out().trim().parse().unwrap()
}

/// An address without a listener.
pub(crate) fn dead_address() -> String {
    fixtures::Port::take().unwrap().dead().to_string()
}
