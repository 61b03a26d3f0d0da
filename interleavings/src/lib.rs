//! An in-memory server for threads of the model checker: no socket, and time that passes only where somebody waits.

use std::{
    io::{self, Read, Write},
    sync::{Arc, PoisonError},
    time::Duration,
};

use fixtures::{
    ConnectionId,
    offline::{End, Offline},
};
use queue_core::{
    blocking::Duplex,
    lock,
    sync::{Condvar, Mutex},
};
use shuttle::{
    Config, MaxSteps, Runner,
    scheduler::{PctScheduler, RandomScheduler},
};

/// Runs a scenario under this many schedules drawn at random, and as many that change threads rarely, each of which
/// begins with another thread; `TIMES` in the environment multiplies both. A run that ends in a panic or a deadlock is
/// printed, so that `shuttle::replay` can repeat it.
pub fn search(schedules: usize, scenario: impl Fn() + Send + Sync + 'static) {
    let times = std::env::var("TIMES").map_or(1, |times| times.parse().expect("TIMES is a number"));
    let schedules = schedules * times;
    let scenario = Arc::new(scenario);
    let mut config = Config::new();
    config.stack_size = 1 << 20;
    config.max_steps = MaxSteps::FailAfter(1_000_000);
    let run = scenario.clone();
    Runner::new(RandomScheduler::new(schedules), config.clone()).run(move || run());
    Runner::new(PctScheduler::new(3, schedules), config).run(move || scenario());
}

/// A server, and what its connections wait for.
#[derive(Clone)]
pub struct World(Arc<Shared>);

struct Shared {
    server: Mutex<Offline>,
    /// A connection has bytes to read, or has ended.
    changed: Condvar,
}

impl World {
    /// A world around this server.
    pub fn new(server: Offline) -> Self {
        World(Arc::new(Shared { server: Mutex::new(server), changed: Condvar::new() }))
    }

    /// A new connection.
    ///
    /// # Errors
    ///
    /// Never; it is a connector's signature.
    pub fn connect(&self) -> io::Result<Stream> {
        let id = lock(&self.0.server).connect();
        Ok(Stream { world: self.clone(), id, unread: Vec::new(), timeout: None })
    }

    /// What the server answers to a line on its own connection.
    pub fn ask(&self, line: &str) -> String {
        self.with(|server| {
            let id = server.connect();
            server.send(id, line.as_bytes());
            let answer = server.receive(id).bytes;
            server.hang_up(id);
            String::from_utf8_lossy(&answer).into_owned()
        })
    }

    /// Does something to the server, which may be news for its connections.
    pub fn with<T>(&self, act: impl FnOnce(&mut Offline) -> T) -> T {
        let outcome = act(&mut lock(&self.0.server));
        self.0.changed.notify_all();
        outcome
    }
}

/// The client's end of a connection.
pub struct Stream {
    world: World,
    id: ConnectionId,
    unread: Vec<u8>,
    timeout: Option<Duration>,
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut server = lock(&self.world.0.server);
        loop {
            let received = server.receive(self.id);
            self.unread.extend_from_slice(&received.bytes);
            if !self.unread.is_empty() {
                let count = self.unread.as_slice().read(buffer)?;
                self.unread.drain(..count);
                return Ok(count);
            }
            match received.end {
                Some(End::Reset) => return Err(io::ErrorKind::ConnectionReset.into()),
                Some(_) => return Ok(0),
                None => {}
            }
            // A long wait is for something that is sure to come, or it is a lost wake-up.
            let timeout = self.timeout.unwrap_or(Duration::MAX);
            let waited = self.world.0.changed.wait_timeout(server, timeout);
            let (again, waited) = waited.unwrap_or_else(PoisonError::into_inner);
            server = again;
            if waited.timed_out() {
                server.advance(timeout);
                self.world.0.changed.notify_all();
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.world.with(|server| server.send(self.id, bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Duplex for Stream {
    fn set_read_timeout(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.timeout = timeout;
        Ok(())
    }

    fn set_write_timeout(&mut self, _: Option<Duration>) -> io::Result<()> {
        Ok(())
    }

    fn shutdown_write(&mut self) -> io::Result<()> {
        self.world.with(|server| server.half_close(self.id));
        Ok(())
    }

    fn has_input(&mut self) -> Option<bool> {
        let received = lock(&self.world.0.server).receive(self.id);
        self.unread.extend_from_slice(&received.bytes);
        Some(!self.unread.is_empty() || received.end.is_some())
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.world.with(|server| server.hang_up(self.id));
    }
}
