//! The limit for blocking clients.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use anyhow::Result;

use super::{
    plan::{Drain, Plan, Puts, Take},
    wire::Input,
};
use crate::{
    beanstalkd::scenario::{Contender, Task, WINDOW, Work, Workers},
    crowd::crowd,
};

/// A plain blocking socket.
pub struct Blocking {
    address: SocketAddr,
    stream: TcpStream,
    out: Vec<u8>,
    input: Input,
}

impl Blocking {
    pub fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Blocking { address, stream, out: Vec::new(), input: Input::new() })
    }

    /// Puts jobs as fast as possible.
    pub fn fill(&mut self, body: &[u8], jobs: u64) -> Result<()> {
        self.follow(&mut Puts::new(body, jobs, WINDOW))
    }

    /// Takes every job, and returns their number.
    pub fn clear(&mut self) -> Result<u64> {
        let mut drain = Drain::default();
        self.follow(&mut drain)?;
        Ok(drain.deleted)
    }

    fn follow(&mut self, plan: &mut impl Plan) -> Result<()> {
        while plan.fill(&mut self.out) {
            if !self.out.is_empty() {
                self.stream.write_all(&self.out)?;
                self.out.clear();
            }
            loop {
                if let Some(reply) = self.input.next()? {
                    plan.take(reply)?;
                    break;
                }
                let bytes = self.stream.read(self.input.space())?;
                self.input.received(bytes)?;
            }
        }
        Ok(())
    }

    /// A worker connects when it starts.
    fn work(&self, workers: Workers, jobs: u64) -> Result<()> {
        let connect = |_| Blocking::connect(self.address);
        let mut slots: Vec<_> = (0..workers.slots).map(connect).collect::<Result<_>>()?;
        crowd(&mut slots, jobs, |slot, jobs| match workers.prefetch {
            1 => slot.follow(&mut Take::new(jobs, true)),
            _ => slot.clear().map(drop),
        })?;
        Ok(())
    }
}

impl Contender for Blocking {
    fn name(&self) -> &'static str {
        "raw blocking"
    }

    fn run(&mut self, work: &Work<'_>) -> Result<Duration> {
        let Work { task, body, jobs } = *work;
        let start = Instant::now();
        match task {
            Task::Put => self.follow(&mut Puts::new(body, jobs, 1))?,
            Task::PutPipelined => self.fill(body, jobs)?,
            Task::PutCallers(callers) => self.follow(&mut Puts::new(body, jobs, callers))?,
            Task::Take => self.follow(&mut Take::new(jobs, true))?,
            Task::TakeInTwoTrips => self.follow(&mut Take::new(jobs, false))?,
            Task::Drain => drop(self.clear()?),
            Task::Work(workers) => self.work(workers, jobs)?,
        }
        Ok(start.elapsed())
    }
}
