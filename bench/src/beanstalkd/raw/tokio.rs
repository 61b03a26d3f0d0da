//! The limit for async clients: the same loops over tokio's socket.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::Result;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    runtime::Runtime,
    task::JoinSet,
};

use super::{
    plan::{Drain, Plan, Puts, Take},
    wire::Input,
};
use crate::{
    beanstalkd::scenario::{Contender, Kind, Task, WINDOW, Work, Workers},
    crowd::share,
};

/// A plain tokio socket, and the runtime that drives it.
pub struct Tokio {
    name: &'static str,
    address: SocketAddr,
    runtime: Runtime,
    /// Absent only while a task has it.
    socket: Option<Socket>,
}

struct Socket {
    stream: TcpStream,
    out: Vec<u8>,
    input: Input,
}

impl Tokio {
    pub fn connect(address: SocketAddr, kind: Kind) -> Result<Self> {
        let runtime = kind.runtime()?;
        let socket = Some(runtime.block_on(Socket::connect(address))?);
        let name = if kind == Kind::Multi { "raw multi" } else { "raw async" };
        Ok(Tokio { name, address, runtime, socket })
    }
}

impl Socket {
    async fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Socket { stream, out: Vec::new(), input: Input::new() })
    }

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

/// A worker connects when it starts.
async fn work(address: SocketAddr, workers: Workers, jobs: u64) -> Result<()> {
    let mut slots = JoinSet::new();
    for slot in 0..workers.slots {
        let jobs = share(jobs, workers.slots, slot);
        slots.spawn(async move {
            let mut socket = Socket::connect(address).await?;
            match workers.prefetch {
                1 => socket.follow(Take::new(jobs, true)).await,
                _ => socket.follow(Drain::default()).await,
            }
        });
    }
    while let Some(slot) = slots.join_next().await {
        slot??;
    }
    Ok(())
}

impl Contender for Tokio {
    fn name(&self) -> &'static str {
        self.name
    }

    fn run(&mut self, work: &Work<'_>) -> Result<Duration> {
        let Work { task, body, jobs } = *work;
        let Tokio { address, runtime, socket, .. } = self;
        let mut own = match socket.take() {
            Some(own) => own,
            None => runtime.block_on(Socket::connect(*address))?,
        };
        let start = Instant::now();
        match task {
            Task::Put => runtime.block_on(own.follow(Puts::new(body, jobs, 1)))?,
            Task::PutPipelined => runtime.block_on(own.follow(Puts::new(body, jobs, WINDOW)))?,
            Task::Take => runtime.block_on(own.follow(Take::new(jobs, true)))?,
            Task::TakeInTwoTrips => runtime.block_on(own.follow(Take::new(jobs, false)))?,
            Task::Drain => runtime.block_on(own.follow(Drain::default()))?,
            // A task of the runtime, like our driver, must own everything.
            Task::PutCallers(callers) => {
                let body = body.to_vec();
                own = runtime.block_on(runtime.spawn(async move {
                    own.follow(Puts::new(&body, jobs, callers)).await?;
                    anyhow::Ok(own)
                }))??;
            }
            Task::Work(workers) => {
                let address = *address;
                runtime.block_on(runtime.spawn(self::work(address, workers, jobs)))??;
            }
        }
        let time = start.elapsed();
        *socket = Some(own);
        Ok(time)
    }
}
