//! What one writes with a WebSocket library instead of a client: `tokio-tungstenite`, a request, and a loop that
//! waits for its answer. A stream has one owner, so many callers have a task with a connection each.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use bytes::{Buf, BufMut, Bytes};
use futures_util::{SinkExt, StreamExt};
use tokio::{net::TcpStream, runtime::Runtime, task::JoinSet};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async, tungstenite::Message};

use super::scenario::{Contender, Kind, Work};
use crate::crowd::share;

/// Its name in the table.
pub const NAME: &str = "tungstenite loop";

/// Clients by hand, on a current-thread runtime.
pub struct Tungstenite {
    address: SocketAddr,
    runtime: Runtime,
    clients: Vec<Client>,
}

impl Tungstenite {
    pub fn connect(address: SocketAddr) -> Result<Self> {
        let runtime = Kind::Async.runtime()?;
        let clients = vec![runtime.block_on(Client::connect(address))?];
        Ok(Tungstenite { address, runtime, clients })
    }
}

impl Contender for Tungstenite {
    fn name(&self) -> &'static str {
        NAME
    }

    fn run(&mut self, work: &Work<'_>) -> Result<Duration> {
        let Tungstenite { address, runtime, clients } = self;
        let many = work.task.connections();
        while clients.len() < many {
            clients.push(runtime.block_on(Client::connect(*address))?);
        }
        let (queue, body, takes) = (work.queue, work.body, work.task.takes());
        let mut running = JoinSet::new();
        let start = Instant::now();
        for (number, mut client) in clients.drain(..many).enumerate() {
            let (queue, body) = (queue.to_owned(), Bytes::copy_from_slice(body));
            let jobs = share(work.jobs, many, number);
            let loops = async move {
                for _ in 0..jobs {
                    if takes {
                        client.take(&queue).await?;
                    } else {
                        client.push(&queue, &body).await?;
                    }
                }
                anyhow::Ok(client)
            };
            running.spawn_on(loops, runtime.handle());
        }
        runtime.block_on(async {
            while let Some(client) = running.join_next().await {
                clients.push(client??);
            }
            Ok(start.elapsed())
        })
    }
}

/// A client with one request at a time.
struct Client {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    last_id: u64,
}

impl Client {
    async fn connect(address: SocketAddr) -> Result<Self> {
        let (socket, _) = connect_async(format!("ws://{address}/queue/bin")).await?;
        Ok(Client { socket, last_id: 0 })
    }

    async fn push(&mut self, queue: &str, body: &[u8]) -> Result<u64> {
        let id = self.next_id();
        Ok(self.call(2, &id, queue, Some(body)).await?.try_get_u64()?)
    }

    async fn take(&mut self, queue: &str) -> Result<Bytes> {
        let id = self.next_id();
        let mut message = self.call(4, &id, queue, None).await?;
        let body = text(&mut message)?;
        self.call(3, &id, queue, None).await?;
        Ok(body)
    }

    fn next_id(&mut self) -> String {
        self.last_id += 1;
        self.last_id.to_string()
    }

    /// Sends a request, and returns what follows the result in its answer.
    async fn call(
        &mut self,
        action: u8,
        id: &str,
        queue: &str,
        body: Option<&[u8]>,
    ) -> Result<Bytes> {
        let mut request = Vec::new();
        request.put_u8(action);
        for part in [Some(id.as_bytes()), Some(queue.as_bytes()), body].into_iter().flatten() {
            request.put_u16(part.len().try_into()?);
            request.put_slice(part);
        }
        self.socket.send(Message::binary(request)).await?;
        loop {
            let message =
                self.socket.next().await.context("the server closed the connection")??;
            let Message::Binary(mut answer) = message else { continue };
            ensure!(answer.try_get_u8()? == action, "the answer to another action came");
            ensure!(text(&mut answer)? == id, "the answer to another request came");
            text(&mut answer)?;
            let result = text(&mut answer)?;
            ensure!(result == "ok", "the server said {result:?}");
            return Ok(answer);
        }
    }
}

fn text(answer: &mut Bytes) -> Result<Bytes> {
    let len = usize::from(answer.try_get_u16()?);
    ensure!(len <= answer.len(), "the answer is cut off");
    Ok(answer.split_to(len))
}
