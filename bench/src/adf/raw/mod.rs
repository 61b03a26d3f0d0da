//! The limit: loops over plain sockets, written by hand for one purpose each.
//!
//! No error handling beyond noticing that something is wrong, no deadlines, no reconnecting, no types; like a program
//! that knows in advance what the server will answer.

mod plan;
mod wire;

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use tokio::runtime::Runtime;

use self::plan::{Clear, Pushes, Takes, Upgrade};
use super::scenario::{Contender, Kind, Task, WINDOW, Work};
use crate::raw::{Socket, TokioSocket};

/// A plain blocking socket.
pub struct Blocking {
    address: SocketAddr,
    socket: Socket,
}

impl Blocking {
    pub fn connect(address: SocketAddr) -> Result<Self> {
        Ok(Blocking { address, socket: upgraded(address)? })
    }

    /// Pushes messages as fast as possible.
    pub fn fill(&mut self, queue: &str, body: &[u8], jobs: u64) -> Result<()> {
        self.socket.follow(&mut Pushes::new(queue, body, jobs, WINDOW))
    }

    /// Removes all ready messages, and returns their number.
    pub fn clear(&mut self, queue: &str) -> Result<u64> {
        let mut clear = Clear::new(queue);
        self.socket.follow(&mut clear)?;
        clear.cleared.context("a clear was not answered")
    }
}

fn upgraded(address: SocketAddr) -> Result<Socket> {
    let mut socket = Socket::connect(address)?;
    socket.follow(&mut Upgrade::default())?;
    Ok(socket)
}

impl Contender for Blocking {
    fn name(&self) -> &'static str {
        "raw blocking"
    }

    fn run(&mut self, work: &Work<'_>) -> Result<Duration> {
        let Work { task, queue, body, jobs } = *work;
        let socket = &mut self.socket;
        let start = Instant::now();
        match task {
            Task::Push => socket.follow(&mut Pushes::new(queue, body, jobs, 1))?,
            Task::PushPipelined => socket.follow(&mut Pushes::new(queue, body, jobs, WINDOW))?,
            Task::PushCallers(callers) => {
                socket.follow(&mut Pushes::new(queue, body, jobs, callers))?;
            }
            Task::Take => socket.follow(&mut Takes::one_by_one(queue, jobs, false))?,
            // A worker connects when it starts.
            Task::Work { prefetch: 0 } => {
                upgraded(self.address)?.follow(&mut Takes::one_by_one(queue, jobs, true))?;
            }
            Task::Work { .. } => {
                upgraded(self.address)?.follow(&mut Takes::pipelined(queue, jobs))?;
            }
        }
        Ok(start.elapsed())
    }
}

/// A plain tokio socket, and the runtime that drives it.
pub struct Tokio {
    name: &'static str,
    address: SocketAddr,
    runtime: Runtime,
    /// Absent only while a task has it.
    socket: Option<TokioSocket>,
}

impl Tokio {
    pub fn connect(address: SocketAddr, kind: Kind) -> Result<Self> {
        let runtime = kind.runtime()?;
        let socket = Some(runtime.block_on(upgraded_on_tokio(address))?);
        let name = if kind == Kind::Multi { "raw multi" } else { "raw async" };
        Ok(Tokio { name, address, runtime, socket })
    }
}

async fn upgraded_on_tokio(address: SocketAddr) -> Result<TokioSocket> {
    let mut socket = TokioSocket::connect(address).await?;
    socket.follow(&mut Upgrade::default()).await?;
    Ok(socket)
}

impl Contender for Tokio {
    fn name(&self) -> &'static str {
        self.name
    }

    fn run(&mut self, work: &Work<'_>) -> Result<Duration> {
        // A task of the runtime, like our tasks, must own everything.
        let Work { task, jobs, .. } = *work;
        let (queue, body) = (work.queue.to_owned(), work.body.to_vec());
        let address = self.address;
        let mut socket = match self.socket.take() {
            Some(socket) => socket,
            None => self.runtime.block_on(upgraded_on_tokio(address))?,
        };
        let running = self.runtime.spawn(async move {
            let (queue, body) = (queue.as_str(), body.as_slice());
            let start = Instant::now();
            match task {
                Task::Push => socket.follow(&mut Pushes::new(queue, body, jobs, 1)).await?,
                Task::PushPipelined => {
                    socket.follow(&mut Pushes::new(queue, body, jobs, WINDOW)).await?;
                }
                Task::PushCallers(callers) => {
                    socket.follow(&mut Pushes::new(queue, body, jobs, callers)).await?;
                }
                Task::Take => socket.follow(&mut Takes::one_by_one(queue, jobs, false)).await?,
                Task::Work { prefetch } => {
                    let mut worker = upgraded_on_tokio(address).await?;
                    let mut takes = match prefetch {
                        0 => Takes::one_by_one(queue, jobs, true),
                        _ => Takes::pipelined(queue, jobs),
                    };
                    worker.follow(&mut takes).await?;
                }
            }
            anyhow::Ok((start.elapsed(), socket))
        });
        let (time, socket) = self.runtime.block_on(running)??;
        self.socket = Some(socket);
        Ok(time)
    }
}
