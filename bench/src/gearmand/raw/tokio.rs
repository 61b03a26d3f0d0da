//! The limit for async clients.

use std::{net::SocketAddr, time::Duration};

use anyhow::Result;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    runtime::Runtime,
};

use super::{
    plan::{self, Plan, Register, Submits},
    wire::Input,
};
use crate::{
    gearmand::scenario::{BATCH, Contender, GRABS, Kind, Task, Work},
    stopwatch::Stopwatch,
};

/// Plain tokio sockets, and the runtime that drives them.
pub struct Tokio {
    name: &'static str,
    address: SocketAddr,
    runtime: Runtime,
    /// Absent only while it is used.
    socket: Option<Socket>,
}

impl Tokio {
    pub fn connect(address: SocketAddr, kind: Kind) -> Result<Self> {
        let runtime = kind.runtime()?;
        let socket = Some(runtime.block_on(Socket::connect(address))?);
        let name = if kind == Kind::Multi { "raw multi" } else { "raw async" };
        Ok(Tokio { name, address, runtime, socket })
    }
}

impl Contender for Tokio {
    fn name(&self) -> &'static str {
        self.name
    }

    fn run(&mut self, work: &Work<'_>) -> Result<Duration> {
        let Work { task, functions, workload, jobs } = *work;
        // A task of the runtime, like our tasks, must own everything.
        let (functions, workload) = (functions.to_vec(), workload.to_vec());
        let address = self.address;
        let mut socket = match self.socket.take() {
            Some(socket) => socket,
            None => self.runtime.block_on(Socket::connect(address))?,
        };
        let running = self.runtime.spawn(async move {
            let (functions, workload) = (&functions[..], &workload[..]);
            let submits = match task {
                Task::Submit => Submits::background(functions, workload, jobs, 1),
                Task::SubmitCallers { callers } => {
                    Submits::background(functions, workload, jobs, callers)
                }
                Task::SubmitBatch => Submits::background(functions, workload, jobs, BATCH),
                Task::RoundTrip => Submits::foreground(functions, workload, jobs, 1),
                Task::Work { grabs } => {
                    let mut worker = Socket::registered(address, functions).await?;
                    let start = Stopwatch::start();
                    worker.follow(plan::Work::new(workload, jobs, grabs)).await?;
                    return anyhow::Ok((start.elapsed(), socket));
                }
                Task::Foreground { in_flight } => {
                    let mut worker = Socket::registered(address, functions).await?;
                    let result = workload.to_vec();
                    let worker = tokio::spawn(async move {
                        let grabs = in_flight.min(GRABS);
                        worker.follow(plan::Work::new(&result, jobs, grabs)).await
                    });
                    let start = Stopwatch::start();
                    let submits = Submits::foreground(functions, workload, jobs, in_flight);
                    socket.follow(submits).await?;
                    let time = start.elapsed();
                    worker.await??;
                    return Ok((time, socket));
                }
            };
            let start = Stopwatch::start();
            socket.follow(submits).await?;
            Ok((start.elapsed(), socket))
        });
        let (time, socket) = self.runtime.block_on(running)??;
        self.socket = Some(socket);
        Ok(time)
    }
}

struct Socket {
    stream: TcpStream,
    out: Vec<u8>,
    input: Input,
}

impl Socket {
    async fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Socket { stream, out: Vec::new(), input: Input::new() })
    }

    async fn registered(address: SocketAddr, functions: &[String]) -> Result<Self> {
        let mut socket = Socket::connect(address).await?;
        socket.follow(Register::new(functions)).await?;
        Ok(socket)
    }

    async fn follow(&mut self, mut plan: impl Plan) -> Result<()> {
        while plan.fill(&mut self.out) {
            if !self.out.is_empty() {
                self.stream.write_all(&self.out).await?;
                self.out.clear();
            }
            let bytes = self.stream.read(self.input.space()).await?;
            self.input.received(bytes)?;
            while let Some((packet_type, body)) = self.input.next()? {
                plan.take(packet_type, body, &mut self.out)?;
            }
        }
        Ok(())
    }
}
