//! The limit for async clients: the same loops over tokio's socket, on a current-thread runtime.

use std::net::SocketAddr;

use anyhow::Result;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    runtime::Runtime,
};

use super::{
    plan::{Drain, Plan, Puts, Take},
    wire::Input,
};
use crate::beanstalkd::scenario::{Contender, Task, WINDOW, Work};

/// A plain tokio socket, and the runtime that drives it.
pub struct Tokio {
    runtime: Runtime,
    socket: Socket,
}

struct Socket {
    stream: TcpStream,
    out: Vec<u8>,
    input: Input,
}

impl Tokio {
    pub fn connect(address: SocketAddr) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let stream = runtime.block_on(TcpStream::connect(address))?;
        stream.set_nodelay(true)?;
        Ok(Tokio { runtime, socket: Socket { stream, out: Vec::new(), input: Input::new() } })
    }
}

impl Socket {
    async fn follow(&mut self, mut plan: impl Plan) -> Result<()> {
        while plan.fill(&mut self.out) {
            if !self.out.is_empty() {
                self.stream.write_all(&self.out).await?;
                self.out.clear();
            }
            loop {
                if let Some(reply) = self.input.next()? {
                    plan.take(reply)?;
                    break;
                }
                let bytes = self.stream.read(self.input.space()).await?;
                self.input.received(bytes)?;
            }
        }
        Ok(())
    }
}

impl Contender for Tokio {
    fn name(&self) -> &'static str {
        "raw async"
    }

    fn run(&mut self, work: &Work<'_>) -> Result<()> {
        let Work { task, body, jobs } = *work;
        let window = if task == Task::Put { 1 } else { WINDOW as u64 };
        let Tokio { runtime, socket } = self;
        match task {
            Task::Put | Task::PutPipelined => {
                runtime.block_on(socket.follow(Puts { body, left: jobs, in_flight: 0, window }))
            }
            Task::Take | Task::TakeInTwoTrips => {
                let one_write = task == Task::Take;
                let plan = Take { left: jobs, one_write, job: None, in_flight: 0 };
                runtime.block_on(socket.follow(plan))
            }
            Task::Drain => runtime.block_on(socket.follow(Drain::default())),
        }
    }
}
