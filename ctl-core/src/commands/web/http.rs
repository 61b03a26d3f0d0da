//! The page over HTTP: its three files, one event stream, and commands.

use std::convert::Infallible;
use std::future::Future;
use std::net::TcpListener;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, WWW_AUTHENTICATE,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;

use super::act::{Acts, Asked};
use super::guard::{Guard, Refusal};
use super::https::Encryption;
use super::live::Live;
use crate::error::{CliError, Exit};
use crate::repl::guest::Interactive;
use crate::system::listen::http;
use crate::system::signals::Interrupts;

/// Maximum number of concurrent event streams, and of commands.
const STREAMS: usize = 16;
const COMMANDS: usize = 8;
/// Maximum size of a request, in bytes.
const LARGEST: usize = 256 << 10;
/// Time limit for receiving the body of a request.
const PATIENCE: Duration = Duration::from_secs(10);

const PAGE: &str = include_str!("page.html");
const SCRIPT: &str = include_str!("page.js");
const STYLE: &str = include_str!("page.css");
/// Allows only the page's own files, and no embedding in other pages.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Shared by all connections.
struct Shared<T: Interactive> {
    guard: Guard,
    /// What the page needs from the start.
    title: Value,
    live: Live,
    acts: Arc<Acts<T>>,
    streams: Arc<Semaphore>,
    commands: Semaphore,
}

/// Serves until a signal arrives.
///
/// # Errors
/// The operating system refuses what a server needs: exit 70.
pub(super) fn serve<T: Interactive>(
    listener: TcpListener,
    interrupts: &Interrupts,
    (guard, encryption): (Guard, Option<Encryption>),
    title: Value,
    live: Live,
    acts: Arc<Acts<T>>,
) -> Result<Exit, CliError>
where
    T::Link: Send,
{
    let shared = Arc::new(Shared {
        guard,
        title,
        live,
        acts,
        streams: Arc::new(Semaphore::new(STREAMS)),
        commands: Semaphore::new(COMMANDS),
    });
    http::serve(listener, COMMANDS, interrupts, |stream| {
        let (shared, encryption) = (Arc::clone(&shared), encryption.clone());
        async move {
            let respond = |request| respond(request, Arc::clone(&shared));
            match encryption {
                Some(encryption) => encryption.answer(stream, respond).await,
                None => http::answer(stream, respond).await,
            }
        }
    })
}

async fn respond<T: Interactive>(
    request: Request<Incoming>,
    shared: Arc<Shared<T>>,
) -> Response<Answer> {
    let changes = request.method() == Method::POST;
    let mut response = match shared.guard.check(request.headers(), changes) {
        Ok(()) => route(request, &shared).await,
        Err(refusal) => refused(refusal),
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (CACHE_CONTROL, "no-store"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

async fn route<T: Interactive>(
    request: Request<Incoming>,
    shared: &Arc<Shared<T>>,
) -> Response<Answer> {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    match (method, path.as_str()) {
        (Method::GET, "/") => text("text/html; charset=utf-8", PAGE),
        (Method::GET, "/page.js") => text("text/javascript; charset=utf-8", SCRIPT),
        (Method::GET, "/page.css") => text("text/css; charset=utf-8", STYLE),
        (Method::GET, "/title") => {
            let mut title = shared.title.clone();
            if let Some(title) = title.as_object_mut() {
                title.insert("token".to_owned(), shared.guard.page_token().into());
            }
            document(StatusCode::OK, &title)
        }
        (Method::GET, "/live") => match Arc::clone(&shared.streams).try_acquire_owned() {
            Ok(permit) => {
                let answer = Answer::Events(Events::new(shared.live.stream(), permit));
                of_type(StatusCode::OK, "text/event-stream", answer)
            }
            Err(_) => plain(StatusCode::SERVICE_UNAVAILABLE, "too many pages are open\n"),
        },
        (Method::GET, "/picture") => match timeout(PATIENCE, shared.live.picture()).await {
            Ok(Some(picture)) => {
                of_type(StatusCode::OK, "application/json", Answer::Whole(Full::from(picture)))
            }
            _ => plain(StatusCode::SERVICE_UNAVAILABLE, "no server was queried in time\n"),
        },
        (Method::POST, "/view" | "/act") => command(request, path == "/act", shared).await,
        (Method::GET | Method::POST, _) => plain(StatusCode::NOT_FOUND, "not found\n"),
        _ => plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and POST are supported\n"),
    }
}

/// Runs a command for the page.
async fn command<T: Interactive>(
    request: Request<Incoming>,
    is_action: bool,
    shared: &Arc<Shared<T>>,
) -> Response<Answer> {
    let body = timeout(PATIENCE, Limited::new(request.into_body(), LARGEST).collect()).await;
    let Ok(Ok(body)) = body else {
        return plain(StatusCode::PAYLOAD_TOO_LARGE, "the request is too large, or too slow\n");
    };
    let Ok(asked) = serde_json::from_slice::<Asked>(&body.to_bytes()) else {
        return plain(StatusCode::BAD_REQUEST, "this is not a request from the page\n");
    };
    let Ok(_permit) = shared.commands.acquire().await else {
        return plain(StatusCode::SERVICE_UNAVAILABLE, "the tool is shutting down\n");
    };
    let acts = Arc::clone(&shared.acts);
    let run = move || if is_action { acts.act(&asked) } else { acts.view(&asked) };
    match tokio::task::spawn_blocking(run).await {
        Ok(Ok(result)) => document(StatusCode::OK, &result),
        Ok(Err(error)) => {
            let told = json!({
                "error": { "code": error.code, "message": error.message, "hints": error.hints, "exit": error.exit.code() },
            });
            document(StatusCode::UNPROCESSABLE_ENTITY, &told)
        }
        Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR, "this is a defect in the tool\n"),
    }
}

fn refused(refusal: Refusal) -> Response<Answer> {
    match refusal {
        Refusal::Host => {
            plain(StatusCode::MISDIRECTED_REQUEST, "unknown host name: --host NAME allows it\n")
        }
        Refusal::Origin => {
            plain(StatusCode::FORBIDDEN, "only the page itself may send this request\n")
        }
        Refusal::Token => {
            let mut response = plain(StatusCode::UNAUTHORIZED, "the token is the password\n");
            let asks = HeaderValue::from_static("Basic realm=\"queues\", charset=\"UTF-8\"");
            response.headers_mut().insert(WWW_AUTHENTICATE, asks);
            response
        }
    }
}

fn text(content_type: &'static str, body: &'static str) -> Response<Answer> {
    of_type(StatusCode::OK, content_type, Answer::Whole(Full::from(body)))
}

fn plain(status: StatusCode, body: &'static str) -> Response<Answer> {
    of_type(status, "text/plain; charset=utf-8", Answer::Whole(Full::from(body)))
}

fn document(status: StatusCode, value: &Value) -> Response<Answer> {
    of_type(status, "application/json", Answer::Whole(Full::from(value.to_string())))
}

fn of_type(status: StatusCode, content_type: &'static str, answer: Answer) -> Response<Answer> {
    let mut response = Response::new(answer);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// A body.
enum Answer {
    Whole(Full<Bytes>),
    Events(Events),
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(whole) => Pin::new(whole).poll_frame(context),
            Self::Events(events) => events.poll(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(whole) if whole.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(whole) => whole.size_hint(),
            Self::Events(_) => SizeHint::default(),
        }
    }
}

type Waiting = Pin<Box<dyn Future<Output = Option<(watch::Receiver<Bytes>, Bytes)>> + Send>>;

/// A stream of events, each of which is the newest snapshot when the previous one was taken.
struct Events {
    next: Waiting,
    _permit: OwnedSemaphorePermit,
}

impl Events {
    fn new(news: watch::Receiver<Bytes>, permit: OwnedSemaphorePermit) -> Self {
        Self { next: Box::pin(next(news)), _permit: permit }
    }

    fn poll(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.next.as_mut().poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Ready(Some((news, event))) => {
                self.next = Box::pin(next(news));
                Poll::Ready(Some(Ok(Frame::data(event))))
            }
        }
    }
}

/// The next event, or a comment after a long silence, so that a vanished reader is noticed.
async fn next(mut news: watch::Receiver<Bytes>) -> Option<(watch::Receiver<Bytes>, Bytes)> {
    let event = match timeout(Duration::from_secs(15), news.changed()).await {
        Ok(Ok(())) => news.borrow_and_update().clone(),
        Ok(Err(_)) => return None,
        Err(_) => Bytes::new(),
    };
    let event = match event.is_empty() {
        true => Bytes::from_static(b":\n\n"),
        false => [&b"data: "[..], &event, b"\n\n"].concat().into(),
    };
    Some((news, event))
}
