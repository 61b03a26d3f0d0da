//! Accepts connections, for commands that run a server.

pub(crate) mod http;

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use crate::error::CliError;

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

/// Binds the [`address`] that this flag gives, for TCP only, and returns the bound one.
///
/// # Errors
/// As [`address`] and [`bind`].
pub(crate) fn tcp(
    (flag, wanted): (&str, &str),
    allow_remote: bool,
    what: &str,
) -> Result<(TcpListener, SocketAddr), CliError> {
    let wanted = address(wanted, allow_remote, what);
    bind(flag, wanted.map_err(|error| error.hint(format!("{flag} 127.0.0.1:0")))?)
}

/// Binds the address of this flag, and returns the bound one, with its port if 0 was wanted.
///
/// # Errors
/// It cannot be bound: exit 69.
pub(crate) fn bind(flag: &str, wanted: SocketAddr) -> Result<(TcpListener, SocketAddr), CliError> {
    let bound = TcpListener::bind(wanted);
    let bound = bound.and_then(|listener| listener.local_addr().map(|address| (listener, address)));
    bound.map_err(|error| {
        CliError::unavailable(format!("cannot listen on {wanted}: {error}"))
            .hint(format!("{flag} 127.0.0.1:0 takes a free port"))
    })
}

/// Whether a connection has asked for something that it may get. Until then, it gives way to new ones.
#[derive(Debug, Clone, Default)]
pub(crate) struct Claim(Arc<AtomicBool>);

impl Claim {
    /// The connection keeps its place from now on.
    pub(crate) fn stake(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A runtime of this thread.
///
/// # Errors
/// The operating system refuses a resource that a server needs: exit 70.
pub(crate) fn runtime() -> Result<Runtime, CliError> {
    let runtime = Builder::new_current_thread().enable_io().enable_time().build();
    runtime.map_err(|error| CliError::internal(format!("cannot serve: {error}")))
}

/// Serves each connection in a task, at most `most` at once, until it should stop. For a further one, the oldest
/// without a claim is closed; if all have one, it waits: `full` is called then.
pub(crate) async fn each<C, S>(
    accept: impl AsyncFn() -> io::Result<C>,
    most: usize,
    is_over: impl Fn() -> bool,
    mut full: impl FnMut(),
    mut serve: impl FnMut(C, Claim) -> S,
) where
    S: Future<Output = ()> + Send + 'static,
{
    let permits = Arc::new(Semaphore::new(most));
    let mut open: VecDeque<(AbortHandle, Claim)> = VecDeque::new();
    while !is_over() {
        let connection = match timeout(TICK, accept()).await {
            Ok(Ok(connection)) => connection,
            // Such as too few file descriptors, which is temporary.
            Ok(Err(_)) => {
                sleep(TICK).await;
                continue;
            }
            Err(_) => continue,
        };
        open.retain(|(task, _)| !task.is_finished());
        if permits.available_permits() == 0 {
            match open.iter().position(|(_, claim)| !claim.0.load(Ordering::Relaxed)) {
                Some(place) => open.remove(place).into_iter().for_each(|(task, _)| task.abort()),
                None => full(),
            }
        }
        let permit = loop {
            if is_over() {
                return;
            }
            if let Ok(Ok(permit)) = timeout(TICK, Arc::clone(&permits).acquire_owned()).await {
                break permit;
            }
        };
        let claim = Claim::default();
        let served = serve(connection, claim.clone());
        let task = tokio::spawn(async move {
            served.await;
            drop(permit);
        });
        open.push_back((task.abort_handle(), claim));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::future::pending;
    use std::sync::mpsc::channel;

    use super::*;

    /// Tells when it is closed.
    struct Place(usize, std::sync::mpsc::Sender<usize>);

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = self.1.send(self.0);
        }
    }

    /// Connection `at` has a claim if `claims` says so; returns those that were closed in favour of later ones, and how
    /// often one had to wait.
    fn closed(
        connections: usize,
        most: usize,
        claims: impl Fn(usize) -> bool,
    ) -> (Vec<usize>, u32) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let (closed, when) = channel();
        let (next, waits) = (Cell::new(0), Cell::new(0));
        let until = RefCell::new(None);
        runtime.block_on(async {
            let accept = async || {
                if next.get() == connections {
                    pending::<()>().await;
                }
                next.set(next.get() + 1);
                Ok(next.get() - 1)
            };
            // Ends once nothing more can happen.
            let is_over = || {
                let is_last = next.get() == connections;
                let mut until = until.borrow_mut();
                is_last && *until.get_or_insert(3) == 0 || {
                    until.iter_mut().for_each(|left| *left -= 1);
                    false
                }
            };
            let full = || waits.set(waits.get() + 1);
            each(accept, most, is_over, full, |at, claim| {
                if claims(at) {
                    claim.stake();
                }
                let place = Place(at, closed.clone());
                async move {
                    pending::<()>().await;
                    drop(place);
                }
            })
            .await;
        });
        (when.try_iter().collect(), waits.get())
    }

    #[test]
    fn a_new_connection_replaces_the_oldest_silent_one() {
        assert_eq!(closed(5, 3, |_| false), (vec![0, 1], 0));
        assert_eq!(closed(5, 3, |at| at == 0), (vec![1, 2], 0));
        assert_eq!(closed(3, 3, |_| false), (vec![], 0));
    }

    #[test]
    fn waits_while_every_connection_is_active() {
        assert_eq!(closed(4, 3, |_| true), (vec![], 1));
    }
}
