//! A tool as the contract uses it: its commands, and its in-memory server.

use ctl_core::context::Tool;
use ctl_core::link::Link;
use fixtures::Port;

use crate::budget::Budget;
use crate::formats::Samples;
use crate::program::{Program, Ran};

/// The in-memory server of a tool.
pub type Server<T> = <<T as Tool>::Link as Link>::Server;

/// The tool's commands for the contract, and access to its in-memory server.
pub struct Case<T: Tool> {
    /// The program.
    pub program: Program,
    /// A command that adds a job to the queue `mail` without waiting; its body follows.
    pub add: &'static str,
    /// A command that adds a job to another queue; its name and its body follow.
    pub add_to: &'static str,
    /// A command that lists the queues; patterns may follow.
    pub list: &'static str,
    /// A command that moves the jobs of the queue `mail` to another server, whose address follows.
    pub move_to: &'static str,
    /// A command that shows figures of the queue `mail`.
    pub figures: &'static str,
    /// A command with an empty result.
    pub nothing: &'static str,
    /// A command that works on the queue `mail`; flags and a command follow.
    pub work: &'static str,
    /// The exporter's word for a queue.
    pub noun: &'static str,
    /// The prefix of its metrics, and of the files in `docs/monitoring`.
    pub metrics: &'static str,
    /// The number of jobs in the server.
    pub jobs: fn(&Server<T>) -> usize,
    /// The number of clients that wait for a job.
    pub waits: fn(&Server<T>) -> usize,
    /// The number of jobs that clients hold.
    pub held: fn(&Server<T>) -> usize,
    /// A command that takes and deletes a job of the queue `mail`, and writes it to stdout.
    pub pop: &'static str,
    /// Commands that change something, each with the request that does. One job is in the queue `mail`.
    pub changes: &'static [(&'static str, &'static str)],
    /// A check of the queue `mail` that needs no worker.
    pub check: &'static str,
    /// Its metric of waiting jobs.
    pub waiting: &'static str,
    /// A command that waits until the queue `mail` has no job.
    pub empty: &'static str,
    /// A line for every command.
    pub samples: Samples,
    /// The tool's limits.
    pub budget: Budget,
}

impl<T: Tool> Case<T> {
    /// Starts an in-memory server, and returns its address.
    #[must_use]
    pub fn server() -> (Server<T>, String) {
        T::Link::start("127.0.0.1:0", None).unwrap()
    }

    /// Starts an in-memory server that ends within its test, or comes back: its port stays reserved meanwhile.
    #[must_use]
    pub fn server_at(port: &Port) -> (Server<T>, String) {
        T::Link::start(&port.address().to_string(), None).unwrap()
    }

    /// The address of a server that has ended.
    #[must_use]
    pub fn dead_address() -> (Port, String) {
        let port = Port::take().unwrap();
        let (_, address) = Self::server_at(&port);
        (port, address)
    }

    /// Runs a line of the case and more words against a server.
    #[must_use]
    pub fn run(&self, address: &str, line: &str, more: &[&str]) -> Ran {
        let words: Vec<&str> = line.split(' ').chain(more.iter().copied()).collect();
        self.program.at(address, &words)
    }

    /// Starts an in-memory server with a job in the queue `mail`, and returns its address.
    #[must_use]
    pub fn filled(&self) -> (Server<T>, String) {
        let (server, address) = Self::server();
        self.adds(&address, "body");
        (server, address)
    }

    /// Adds a job to the queue `mail` of a server.
    pub fn adds(&self, address: &str, body: &str) {
        let _ = self.run(address, self.add, &[body]).exits(0);
    }
}

/// Waits until this is true; the test runner limits the wait.
pub fn until(mut is_true: impl FnMut() -> bool) {
    while !is_true() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
