//! Relays bytes between applications and their server as they arrive, with nothing added and nothing held back. Closes
//! and resets are passed on as such.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use queue_core::lock;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::Runtime;
use tokio::time::timeout;
use tokio::try_join;

use super::connection::{Connection, News};
use super::decoder::{Decoder, Side};
use crate::system::listen;
use crate::system::socket::{Listener, Place, Reader, Stream, Writer};

/// Maximum number of connections at a time; others wait.
const CONNECTIONS: usize = 512;
/// Number of bytes passed on at a time.
const CHUNK: usize = 32 << 10;

/// The relay's server, and the time limit for connecting.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) place: Place,
    pub(super) patience: Duration,
}

/// Relays until `stop` is set.
pub(super) fn run<D: Decoder>(
    runtime: Runtime,
    listener: Listener,
    target: &Target,
    news: &Arc<News>,
    stop: &AtomicBool,
    decoder: impl Fn() -> D,
) {
    let is_over = || stop.load(Ordering::Relaxed);
    runtime.block_on(async {
        let mut number = 0;
        let next = async || listener.next().await;
        let mut is_told = false;
        let full = || {
            if !std::mem::replace(&mut is_told, true) {
                news.warn(format!(
                    "{CONNECTIONS} connections are open: further ones wait until one of them ends"
                ));
            }
        };
        listen::each(next, CONNECTIONS, is_over, full, |(client, peer), claim| {
            // An application may be silent indefinitely.
            claim.stake();
            number += 1;
            let tapped = Connection::open(number, peer, decoder(), Arc::clone(news));
            serve(client, target.clone(), tapped)
        })
        .await;
    });
    // A name may still be being resolved.
    runtime.shutdown_background();
}

/// One application's connection, until both sides have ended.
async fn serve<D: Decoder>(mut client: Stream, target: Target, mut tapped: Connection<D>) {
    let connecting = timeout(target.patience, Stream::connect(&target.place)).await;
    let late = |_| Err(io::ErrorKind::TimedOut.into());
    let mut server = match connecting.unwrap_or_else(late) {
        Ok(server) => server,
        Err(error) => {
            tapped.unreachable(&target.place.to_string(), &error);
            client.reset();
            return;
        }
    };
    tapped.reached();
    let tapped = Mutex::new(tapped);
    let reset = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let there = carry(Side::Client, from_client, to_server, &tapped);
        let back = carry(Side::Server, from_server, to_client, &tapped);
        try_join!(there, back).err()
    };
    if let Some(side) = reset {
        let mut tapped = lock(&tapped);
        tapped.reset(side);
        client.reset();
        server.reset();
    }
}

/// Relays what one side sends, up to the end of its stream. Fails with the side whose connection is lost.
async fn carry<D: Decoder>(
    side: Side,
    mut from: Reader<'_>,
    mut to: Writer<'_>,
    tapped: &Mutex<Connection<D>>,
) -> Result<(), Side> {
    let other = if side == Side::Client { Side::Server } else { Side::Client };
    let tapped = || lock(tapped);
    let mut buffer = vec![0; CHUNK];
    loop {
        let came = from.read(&mut buffer).await.map_err(|_| side)?;
        let at = Instant::now();
        let mut rest = buffer.get(..came).unwrap_or_default();
        if rest.is_empty() {
            // A side that has gone already needs no close.
            let _ = to.shutdown().await;
            tapped().ended(side);
            return Ok(());
        }
        while !rest.is_empty() {
            let passed = to.write(rest).await.map_err(|_| other)?;
            let (done, left) = rest.split_at_checked(passed).unwrap_or((rest, &[]));
            // Reported before anything else is polled, so that no answer is seen before its request. The server's
            // response time ends when its answer arrives, however slowly the application reads.
            let at = if side == Side::Client { Instant::now() } else { at };
            tapped().passed(side, Some(done), at);
            rest = left;
        }
    }
}
