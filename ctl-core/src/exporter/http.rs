//! A small HTTP server for machines that ask: one answer for each connection, and none for who takes too long.

use std::convert::Infallible;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

use crate::error::{CliError, Exit};
use crate::signals::Interrupts;

/// So many connections are served at once; others wait to be accepted.
const CONNECTIONS: usize = 64;
/// How long a connection may take from its first byte to the last of the answer, and its request alone.
const PATIENCE: Duration = Duration::from_secs(30);
const PATIENCE_FOR_REQUEST: Duration = Duration::from_secs(10);
/// How often signals are looked for.
const TICK: Duration = Duration::from_millis(50);

/// A question.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    pub(super) path: &'a str,
    /// What stands behind `?`.
    pub(super) query: &'a str,
    /// What the client would like to have, empty when it does not say.
    pub(super) accept: &'a str,
}

/// What is answered.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) content_type: &'static str,
    pub(super) body: String,
}

/// Answers GET requests, each in a thread of its own, until a signal comes.
///
/// # Errors
/// The operating system refuses what a server needs: exit 70.
pub(super) fn serve<A>(
    listener: TcpListener,
    interrupts: &Interrupts,
    answer: A,
) -> Result<Exit, CliError>
where
    A: Fn(&Asked<'_>) -> Reply + Send + Sync + 'static,
{
    let failed = |error| CliError::internal(format!("cannot serve HTTP: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(CONNECTIONS)
        .build()
        .map_err(failed)?;
    let exit = runtime.block_on(accept(listener, interrupts, Arc::new(answer))).map_err(failed);
    // Who is being answered still has a moment.
    runtime.shutdown_timeout(Duration::from_secs(1));
    exit
}

async fn accept<A>(
    listener: TcpListener,
    interrupts: &Interrupts,
    answer: Arc<A>,
) -> std::io::Result<Exit>
where
    A: Fn(&Asked<'_>) -> Reply + Send + Sync + 'static,
{
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let permits = Arc::new(Semaphore::new(CONNECTIONS));
    let next = async || {
        let permit = Arc::clone(&permits).acquire_owned().await.ok();
        (listener.accept().await, permit)
    };
    loop {
        if let Some(exit) = interrupts.requested() {
            return Ok(exit);
        }
        match timeout(TICK, next()).await {
            Ok((Ok((stream, _)), permit)) => {
                tokio::spawn(connection(stream, permit, Arc::clone(&answer)));
            }
            // Such as a lack of file descriptors, which passes.
            Ok((Err(_), _)) => sleep(TICK).await,
            Err(_) => {}
        }
    }
}

async fn connection<A>(stream: TcpStream, _permit: Option<OwnedSemaphorePermit>, answer: Arc<A>)
where
    A: Fn(&Asked<'_>) -> Reply + Send + Sync + 'static,
{
    let service = service_fn(|request| {
        let answer = Arc::clone(&answer);
        async move { Ok::<_, Infallible>(respond(request, answer).await) }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE_FOR_REQUEST)
        .keep_alive(false)
        .max_buf_size(16 << 10)
        .serve_connection(TokioIo::new(stream), service);
    // Whoever goes away, or sends what is no request, is nobody's concern.
    let _ = timeout(PATIENCE, serving).await;
}

async fn respond<A>(request: Request<Incoming>, answer: Arc<A>) -> Response<Full<Bytes>>
where
    A: Fn(&Asked<'_>) -> Reply + Send + Sync + 'static,
{
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refused = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered here\n");
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    let answered = tokio::task::spawn_blocking(move || {
        let uri = request.uri();
        let accept = text_of(request.headers());
        answer(&Asked { path: uri.path(), query: uri.query().unwrap_or_default(), accept })
    });
    let Ok(Reply { status, content_type, body }) = answered.await else {
        return plain(StatusCode::INTERNAL_SERVER_ERROR, "this is a defect of the tool\n");
    };
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn text_of(headers: &HeaderMap) -> &str {
    headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn plain(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response
}
