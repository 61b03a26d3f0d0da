//! A small HTTP server: one response per connection, each within a time limit.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, X_CONTENT_TYPE_OPTIONS,
};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::{Sleep, sleep};

use super::{Claim, each, runtime};
use crate::error::{CliError, Exit};
use crate::system::process;
use crate::system::signals::Interrupts;

/// Time limit for the head of a request.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// Time limit for the client to take what is written at once: a response, or an event of a stream.
const TAKING: Duration = Duration::from_secs(60);

/// A response.
pub(crate) type Reply = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// A response that is stored nowhere, and is of this type only.
pub(crate) fn reply(
    status: StatusCode,
    content_type: &'static str,
    body: impl Body<Data = Bytes, Error = Infallible> + Send + 'static,
) -> Reply {
    let mut reply = Response::new(body.boxed_unsync());
    *reply.status_mut() = status;
    for (name, value) in [
        (CONTENT_TYPE, content_type),
        (CACHE_CONTROL, "no-store"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        reply.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    reply
}

/// A text.
pub(crate) fn plain(status: StatusCode, text: impl Into<Bytes>) -> Reply {
    reply(status, "text/plain; charset=utf-8", Full::from(text.into()))
}

/// Serves connections until a signal comes, at most `most` at once.
///
/// # Errors
/// The operating system denies what a server needs: exit 70.
pub(crate) fn serve<S>(
    listener: TcpListener,
    most: usize,
    interrupts: &Interrupts,
    mut connection: impl FnMut(TcpStream, SocketAddr, Claim) -> S,
) -> Result<Exit, CliError>
where
    S: Future<Output = ()> + Send + 'static,
{
    let failed = |error: io::Error| CliError::internal(format!("cannot serve HTTP: {error}"));
    let runtime = runtime()?;
    let is_over = || interrupts.requested().is_some();
    let served = runtime.block_on(async {
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let next = async || listener.accept().await;
        let connection = |(stream, peer), claim| connection(stream, peer, claim);
        each(next, most, is_over, || {}, connection).await;
        Ok(())
    });
    served.map_err(failed)?;
    Ok(interrupts.requested().unwrap_or(Exit::Interrupted))
}

/// Answers one request. Disconnects and malformed requests are ignored.
pub(crate) async fn answer<F: Future<Output = Reply>>(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    respond: impl Fn(Request<Incoming>) -> F,
) {
    let stream = Taken::new(stream);
    let has_head = Arc::clone(&stream.has_head);
    let service = service_fn(move |request| {
        has_head.store(true, Ordering::Relaxed);
        let response = respond(request);
        async move { Ok::<_, Infallible>(response.await) }
    });
    let serving = http1::Builder::new()
        .header_read_timeout(None)
        .keep_alive(false)
        .max_buf_size(16 << 10)
        .serve_connection(stream, service);
    let _ = serving.await;
}

/// Does blocking work in its own thread.
///
/// # Errors
/// The system has no thread for it (75), or the work has panicked (70).
pub(crate) async fn in_thread<O: Send + 'static>(
    work: impl FnOnce() -> O + Send + 'static,
) -> Result<O, CliError> {
    let (done, result) = oneshot::channel();
    process::thread("request", move || drop(done.send(work())))?;
    result.await.map_err(|_| CliError::internal("a bug in the tool: please report it"))
}

/// The host that a request is for; none if it names several or none.
pub(crate) fn host(headers: &HeaderMap) -> Option<&str> {
    let mut all = headers.get_all(HOST).iter();
    match (all.next(), all.next()) {
        (Some(host), None) => host.to_str().ok(),
        _ => None,
    }
}

/// The name in lower case and the port of a host, if it has one.
pub(crate) fn name_and_port(host: &str) -> (String, Option<u16>) {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, Some(port.parse().unwrap_or(0))),
        _ => (host, None),
    };
    (name.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase(), port)
}

/// The answer to a request for anything but metrics: only GET is supported, and with `is_local` only for this host,
/// since a page in a browser could ask for others, which it has bound to this address.
pub(crate) fn refused<B>(request: &Request<B>, is_local: bool) -> Option<Reply> {
    let headers = request.headers();
    // Programs may omit the host, but no browser does.
    let is_for_here =
        host(headers).map_or(!headers.contains_key(HOST), |host| is_sure(&name_and_port(host).0));
    if is_local && !is_for_here {
        let text = "unknown host name: an address on loopback has none but localhost\n";
        return Some(plain(StatusCode::MISDIRECTED_REQUEST, text));
    }
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        return None;
    }
    let mut refused = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET is supported\n");
    refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    Some(refused)
}

/// Whether this name cannot be rebound by DNS: it is an address, or `localhost`.
pub(crate) fn is_sure(name: &str) -> bool {
    name == "localhost" || name.parse::<IpAddr>().is_ok()
}

/// A connection that fails if the head of its request does not come in time, or if its client does not take in time
/// what is written.
struct Taken<S> {
    stream: S,
    /// Whether the head of the request has come.
    has_head: Arc<AtomicBool>,
    /// Runs until then.
    head: Pin<Box<Sleep>>,
    /// Runs from the first byte that the client does not take at once until it has taken all.
    limit: Option<Pin<Box<Sleep>>>,
}

impl<S> Taken<S> {
    fn new(stream: S) -> Self {
        let has_head = Arc::default();
        Self { stream, has_head, head: Box::pin(sleep(PATIENCE)), limit: None }
    }

    fn within<O>(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<O>>,
    ) -> Poll<io::Result<O>> {
        if polled.is_pending() {
            let limit = self.limit.get_or_insert_with(|| Box::pin(sleep(TAKING)));
            ready!(limit.as_mut().poll(context));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        polled
    }
}

impl<S: AsyncRead + Unpin> Read for Taken<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut cursor: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.has_head.load(Ordering::Relaxed) && self.head.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let mut room = [0; 4096];
        let len = cursor.remaining().min(room.len());
        let mut buffer = ReadBuf::new(room.get_mut(..len).unwrap_or_default());
        ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer))?;
        cursor.put_slice(buffer.filled());
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> Write for Taken<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.within(context, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        let flushed = self.within(context, polled);
        if flushed.is_ready() {
            self.limit = None;
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(context);
        self.within(context, polled)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
    use tokio::time::{advance, timeout};

    use super::*;

    /// With a virtual clock: reads `chunk` bytes every `pause`, and returns how many came in all.
    fn read_slowly(chunk: usize, pause: Duration) -> usize {
        let builder = &mut tokio::runtime::Builder::new_current_thread();
        builder.enable_time().start_paused(true).build().unwrap().block_on(async {
            let (mut client, server) = duplex(1024);
            client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
            let serving = tokio::spawn(async move {
                let body = || Bytes::from(vec![0; 1 << 20]);
                answer(server, |_| async move { plain(StatusCode::OK, body()) }).await;
            });
            let (mut all, mut buffer) = (0, vec![0; chunk]);
            loop {
                let read = timeout(Duration::from_secs(3600), client.read(&mut buffer)).await;
                match read {
                    Ok(Ok(0)) | Ok(Err(_)) => break,
                    Ok(Ok(count)) => all += count,
                    Err(_) => panic!("the connection stays open"),
                }
                advance(pause).await;
            }
            serving.await.unwrap();
            all
        })
    }

    #[test]
    fn drops_a_client_that_does_not_read() {
        let whole = read_slowly(1024, Duration::from_millis(1));
        assert!(whole > 1 << 20);
        // Each of these reads comes soon enough, but the answer would take a day.
        assert!(read_slowly(64, Duration::from_secs(5)) < whole);
    }

    /// With a virtual clock. A byte now and then does not keep the connection.
    #[test]
    fn drops_a_client_that_sends_its_head_too_slowly() {
        let builder = &mut tokio::runtime::Builder::new_current_thread();
        builder.enable_time().start_paused(true).build().unwrap().block_on(async {
            let (mut client, server) = duplex(1024);
            let serving = tokio::spawn(async move {
                answer(server, |_| async move { plain(StatusCode::OK, "") }).await;
            });
            let start = tokio::time::Instant::now();
            for byte in b"GET / HTTP/1.1\r\n" {
                if client.write_all(&[*byte]).await.is_err() {
                    break;
                }
                tokio::time::sleep(PATIENCE / 4).await;
            }
            serving.await.unwrap();
            assert!(start.elapsed() < 2 * PATIENCE, "{:?}", start.elapsed());
        });
    }

    #[test]
    fn rejects_a_second_host_header() {
        let headers = |all: &[&str]| -> HeaderMap {
            all.iter().map(|host| (HOST, host.parse().unwrap())).collect()
        };
        assert_eq!(host(&headers(&["a:1"])), Some("a:1"));
        assert_eq!(host(&headers(&["a:1", "b:1"])), None);
        assert_eq!(host(&headers(&[])), None);
        for (text, name, port) in
            [("[::1]:80", "::1", Some(80)), ("LocalHost", "localhost", None), ("a:x", "a", Some(0))]
        {
            assert_eq!(name_and_port(text), (name.to_owned(), port));
        }
    }
}
