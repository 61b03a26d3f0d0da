//! The limit for blocking clients.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
};

use anyhow::Result;

use super::{
    plan::{Drain, Plan, Puts, Take},
    wire::Input,
};
use crate::beanstalkd::scenario::{Contender, Task, WINDOW, Work};

/// A plain blocking socket.
pub struct Blocking {
    stream: TcpStream,
    out: Vec<u8>,
    input: Input,
}

impl Blocking {
    pub fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Blocking { stream, out: Vec::new(), input: Input::new() })
    }

    /// Puts jobs, as fast as it goes.
    pub fn fill(&mut self, body: &[u8], jobs: u64) -> Result<()> {
        self.follow(&mut Puts { body, left: jobs, in_flight: 0, window: WINDOW as u64 })
    }

    /// Takes every job that is there, and tells how many they were.
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
}

impl Contender for Blocking {
    fn name(&self) -> &'static str {
        "raw blocking"
    }

    fn run(&mut self, work: &Work<'_>) -> Result<()> {
        let Work { task, body, jobs } = *work;
        match task {
            Task::Put => self.follow(&mut Puts { body, left: jobs, in_flight: 0, window: 1 }),
            Task::PutPipelined => self.fill(body, jobs),
            Task::Take | Task::TakeInTwoTrips => {
                let one_write = task == Task::Take;
                self.follow(&mut Take { left: jobs, one_write, job: None, in_flight: 0 })
            }
            Task::Drain => self.clear().map(drop),
        }
    }
}
