//! The limit for blocking clients.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail};

use super::{
    plan::{self, Plan, Register, Submits},
    wire::Input,
};
use crate::{
    gearmand::scenario::{BATCH, Contender, GRABS, LIMIT, Task, Work},
    stopwatch::Stopwatch,
};

/// A plain blocking socket.
struct Socket {
    stream: TcpStream,
    out: Vec<u8>,
    input: Input,
}

impl Socket {
    fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LIMIT))?;
        Ok(Socket { stream, out: Vec::new(), input: Input::new() })
    }

    fn registered(address: SocketAddr, functions: &[String]) -> Result<Self> {
        let mut socket = Socket::connect(address)?;
        socket.follow(&mut Register::new(functions))?;
        Ok(socket)
    }

    fn follow(&mut self, plan: &mut impl Plan) -> Result<()> {
        while plan.fill(&mut self.out) {
            if !self.out.is_empty() {
                self.stream.write_all(&self.out)?;
                self.out.clear();
            }
            let bytes = self.stream.read(self.input.space())?;
            self.input.received(bytes)?;
            while let Some((packet_type, body)) = self.input.next()? {
                plan.take(packet_type, body, &mut self.out)?;
            }
        }
        Ok(())
    }
}

/// Plain blocking sockets: one to submit, and one for a worker in its own thread.
pub struct Blocking {
    address: SocketAddr,
    socket: Socket,
}

impl Blocking {
    pub fn connect(address: SocketAddr) -> Result<Self> {
        Ok(Blocking { address, socket: Socket::connect(address)? })
    }
}

impl Contender for Blocking {
    fn name(&self) -> &'static str {
        "raw blocking"
    }

    fn run(&mut self, work: &Work<'_>) -> Result<Duration> {
        let Work { task, functions, workload, jobs } = *work;
        let mut submit = |mut submits: Submits<'_>| {
            let start = Stopwatch::start();
            self.socket.follow(&mut submits)?;
            Ok(start.elapsed())
        };
        match task {
            Task::Submit => submit(Submits::background(functions, workload, jobs, 1)),
            Task::SubmitBatch => submit(Submits::background(functions, workload, jobs, BATCH)),
            Task::SubmitCallers { .. } => bail!("blocking clients are not shared"),
            Task::Work { grabs } => {
                let mut worker = Socket::registered(self.address, functions)?;
                let start = Stopwatch::start();
                worker.follow(&mut plan::Work::new(workload, jobs, grabs))?;
                Ok(start.elapsed())
            }
            Task::RoundTrip => submit(Submits::foreground(functions, workload, jobs, 1)),
            Task::Foreground { in_flight } => {
                let worker = Helper::start(self.address, work, in_flight.min(GRABS))?;
                let time = submit(Submits::foreground(functions, workload, jobs, in_flight))?;
                worker.finish()?;
                Ok(time)
            }
        }
    }
}

/// A worker in its own thread, which ends after this number of jobs. When dropped, it ends at once.
pub struct Helper {
    stream: TcpStream,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Helper {
    pub fn start(address: SocketAddr, work: &Work<'_>, grabs: usize) -> Result<Self> {
        let mut worker = Socket::registered(address, work.functions)?;
        let stream = worker.stream.try_clone()?;
        let (result, jobs) = (work.workload.to_vec(), work.jobs);
        let thread =
            thread::spawn(move || worker.follow(&mut plan::Work::new(&result, jobs, grabs)));
        Ok(Helper { stream, thread: Some(thread) })
    }

    /// Waits for the end.
    pub fn finish(mut self) -> Result<()> {
        let thread = self.thread.take().context("it was finished already")?;
        thread.join().map_err(|_| anyhow!("the worker panicked"))?
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            // The server may have closed it already; how the thread ends does not matter.
            let _ = self.stream.shutdown(Shutdown::Both);
            let _ = thread.join();
        }
    }
}

/// Prepares the queues for the contenders, and checks what they left.
pub struct Keeper {
    address: SocketAddr,
    socket: Socket,
}

impl Keeper {
    pub fn connect(address: SocketAddr) -> Result<Self> {
        Ok(Keeper { address, socket: Socket::connect(address)? })
    }

    /// Submits jobs as fast as possible.
    pub fn fill(&mut self, work: &Work<'_>) -> Result<()> {
        let Work { functions, workload, jobs, .. } = *work;
        self.socket.follow(&mut Submits::background(functions, workload, jobs, BATCH))
    }

    /// Takes every job, and returns their number.
    pub fn clear(&mut self, functions: &[String]) -> Result<u64> {
        let mut worker = Socket::registered(self.address, functions)?;
        let mut all = plan::Work::until_none_is_left(b"", GRABS);
        worker.follow(&mut all)?;
        Ok(all.completed)
    }
}
