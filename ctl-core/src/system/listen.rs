//! Accepts connections, for commands that run a server.

pub(crate) mod http;

use std::fmt::Display;
use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use crate::error::CliError;
use crate::output::{Output, Record};

/// How often to check whether to stop.
const TICK: Duration = Duration::from_millis(50);

/// Parses `wanted` as the address to listen on; `:PORT` is on this machine only. `what` is what would listen there.
///
/// # Errors
/// The address is invalid, or reachable from other machines: exit 2.
pub(crate) fn address(
    wanted: &str,
    allow_remote: bool,
    what: &str,
) -> Result<SocketAddr, CliError> {
    let full = match wanted.strip_prefix(':') {
        Some(port) => format!("127.0.0.1:{port}"),
        None => wanted.to_owned(),
    };
    let wrong = |why: &str| CliError::usage(format!("cannot listen on `{wanted}`: {why}"));
    let addresses: Vec<SocketAddr> =
        full.to_socket_addrs().map_err(|error| wrong(&error.to_string()))?.collect();
    let address = *addresses.first().ok_or_else(|| wrong("the name has no address"))?;
    if address.ip().is_loopback() || allow_remote {
        return Ok(address);
    }
    Err(CliError::usage(format!(
        "refusing to listen on {} without --allow-remote (the {what} has no authentication)",
        address.ip()
    )))
}

/// As [`address`], for TCP only.
///
/// # Errors
/// As [`address`].
pub(crate) fn tcp_address(
    wanted: &str,
    allow_remote: bool,
    what: &str,
) -> Result<SocketAddr, CliError> {
    address(wanted, allow_remote, what).map_err(|error| error.hint("--listen 127.0.0.1:0"))
}

/// Binds the address, and returns the bound one, with its port if 0 was wanted.
///
/// # Errors
/// It cannot be bound: exit 69.
pub(crate) fn bind(wanted: SocketAddr) -> Result<(TcpListener, SocketAddr), CliError> {
    let bound = TcpListener::bind(wanted);
    let bound = bound.and_then(|listener| listener.local_addr().map(|address| (listener, address)));
    bound.map_err(|error| {
        CliError::unavailable(format!("cannot listen on {wanted}: {error}"))
            .hint("--listen 127.0.0.1:0 takes a free port")
    })
}

/// Prints the address as one line and flushes it, for `--print-addr`.
///
/// # Errors
/// Stdout fails: exit 74.
pub(crate) fn print(out: &mut Output, address: impl Display) -> Result<(), CliError> {
    let address = address.to_string();
    out.done(&Record::new().with("addr", address.as_str()), &address)?;
    out.flush()
}

/// Serves each connection in a task, at most `most` at once, until it should stop. Further connections wait to be
/// accepted.
///
/// # Errors
/// The operating system denies what a server needs.
pub(crate) async fn accept<S>(
    listener: TcpListener,
    most: usize,
    is_over: impl Fn() -> bool,
    mut serve: impl FnMut(TcpStream, SocketAddr) -> S,
) -> io::Result<()>
where
    S: Future<Output = ()> + Send + 'static,
{
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let next = async || listener.accept().await;
    each(next, most, is_over, |(stream, peer)| serve(stream, peer)).await;
    Ok(())
}

/// As [`accept`], of anything that is accepted.
pub(crate) async fn each<C, S>(
    accept: impl AsyncFn() -> io::Result<C>,
    most: usize,
    is_over: impl Fn() -> bool,
    mut serve: impl FnMut(C) -> S,
) where
    S: Future<Output = ()> + Send + 'static,
{
    let permits = Arc::new(Semaphore::new(most));
    let next = async || {
        let permit = Arc::clone(&permits).acquire_owned().await.ok();
        (accept().await, permit)
    };
    while !is_over() {
        match timeout(TICK, next()).await {
            Ok((Ok(connection), permit)) => {
                let served = serve(connection);
                tokio::spawn(async move {
                    served.await;
                    drop(permit);
                });
            }
            // Such as too few file descriptors, which is temporary.
            Ok((Err(_), _)) => sleep(TICK).await,
            Err(_) => {}
        }
    }
}
