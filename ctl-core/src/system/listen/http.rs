//! A small HTTP server: one response per connection.

use std::convert::Infallible;
use std::future::Future;
use std::net::TcpListener;
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::accept;
use crate::error::{CliError, Exit};
use crate::system::signals::Interrupts;

/// Maximum number of connections served at once.
pub(crate) const CONNECTIONS: usize = 64;
/// Time limit for the head of a request.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Serves connections until a signal comes, with `threads` threads for blocking work. Responses in progress get a
/// moment to finish.
///
/// # Errors
/// The operating system denies what a server needs: exit 70.
pub(crate) fn serve<S>(
    listener: TcpListener,
    threads: usize,
    interrupts: &Interrupts,
    connection: impl FnMut(TcpStream) -> S,
) -> Result<Exit, CliError>
where
    S: Future<Output = ()> + Send + 'static,
{
    let failed = |error| CliError::internal(format!("cannot serve HTTP: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(threads)
        .build()
        .map_err(failed)?;
    let mut connection = connection;
    let is_over = || interrupts.requested().is_some();
    let served =
        runtime.block_on(accept(listener, CONNECTIONS, is_over, |stream, _| connection(stream)));
    runtime.shutdown_timeout(Duration::from_secs(1));
    served.map_err(failed)?;
    Ok(interrupts.requested().unwrap_or(Exit::Interrupted))
}

/// Answers one request. Disconnects and malformed requests are ignored.
pub(crate) async fn answer<F, B>(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    respond: impl Fn(Request<Incoming>) -> F,
) where
    F: Future<Output = Response<B>>,
    B: Body<Error = Infallible> + 'static,
{
    let service = service_fn(|request| {
        let response = respond(request);
        async move { Ok::<_, Infallible>(response.await) }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .keep_alive(false)
        .max_buf_size(16 << 10)
        .serve_connection(TokioIo::new(stream), service);
    let _ = serving.await;
}
