//! The page over HTTP: its three files, one event stream, and commands.

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{
    CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY, WWW_AUTHENTICATE,
    X_FRAME_OPTIONS,
};
use hyper::{Method, Request, StatusCode};
use queue_core::Steps;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;

use super::act::{Acts, Asked};
use super::guard::{Guard, Purpose};
use super::live::Live;
use crate::error::{CliError, Exit};
use crate::repl::guest::Interactive;
use crate::system::listen::Claim;
use crate::system::listen::http::{self, Reply, plain};
use crate::system::pause::wait;
use crate::system::signals::Interrupts;

/// Maximum number of connections, and of event streams among them.
const CONNECTIONS: usize = 128;
const STREAMS: usize = 16;
/// Maximum number of commands and of unread results.
const RESULTS: usize = 8;
/// A result up to this size makes room for the next command before it is read.
const SMALL: usize = 64 << 10;
/// Maximum size of a request, in bytes.
const LARGEST: usize = 256 << 10;
/// Time limit for receiving the body of a request.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time limit of a command.
const LONGEST: Duration = Duration::from_secs(60);
/// How long commands may take to end when the page does.
const ENDING: Duration = Duration::from_secs(1);

const PAGE: &str = include_str!("page.html");
const SCRIPT: &str = include_str!("page.js");
const STYLE: &str = include_str!("page.css");
/// Allows only the page's own files, and no embedding in other pages.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Shared by all connections.
struct Shared<T: Interactive> {
    guard: Guard,
    /// The data that the page needs from the start.
    title: Value,
    live: Live,
    acts: Arc<Acts<T>>,
    streams: Arc<Semaphore>,
    results: Arc<Semaphore>,
}

/// Serves until a signal arrives.
///
/// # Errors
/// The operating system refuses what a server needs: exit 70.
pub(super) fn serve<T: Interactive>(
    listener: TcpListener,
    interrupts: &Interrupts,
    guard: Guard,
    title: Value,
    live: Live,
    acts: Arc<Acts<T>>,
) -> Result<Exit, CliError> {
    let shared = Arc::new(Shared {
        guard,
        title,
        live,
        acts,
        streams: Arc::new(Semaphore::new(STREAMS)),
        results: Arc::new(Semaphore::new(RESULTS)),
    });
    let served = http::serve(listener, CONNECTIONS, interrupts, |stream, peer, claim| {
        let shared = Arc::clone(&shared);
        async move {
            let respond = |request| respond(request, (peer, claim.clone()), Arc::clone(&shared));
            http::answer(stream, respond).await;
        }
    });
    // Their requests are gone, which has interrupted them.
    wait(ENDING, Duration::from_millis(5), || shared.results.available_permits() == RESULTS);
    served
}

async fn respond<T: Interactive>(
    request: Request<Incoming>,
    (peer, claim): (SocketAddr, Claim),
    shared: Arc<Shared<T>>,
) -> Reply {
    let purpose = match request.uri().path() {
        _ if *request.method() == Method::POST => Purpose::Run,
        "/" | "/page.js" | "/page.css" => Purpose::File,
        _ => Purpose::Read,
    };
    let mut response = match shared.guard.check(request.headers(), purpose) {
        Ok(()) => {
            if purpose != Purpose::File {
                claim.stake();
            }
            route(request, peer, &shared).await
        }
        Err(status) => refused(status),
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

async fn route<T: Interactive>(
    request: Request<Incoming>,
    peer: SocketAddr,
    shared: &Arc<Shared<T>>,
) -> Reply {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    // The response to HEAD is the same without its body, which hyper leaves out.
    let method = if method == Method::HEAD { Method::GET } else { method };
    match (method, path.as_str()) {
        (Method::GET, "/") => text("text/html; charset=utf-8", PAGE),
        (Method::GET, "/page.js") => text("text/javascript; charset=utf-8", SCRIPT),
        (Method::GET, "/page.css") => text("text/css; charset=utf-8", STYLE),
        (Method::GET, "/title") => document(StatusCode::OK, shared.title.to_string()),
        (Method::GET, "/live") => match Arc::clone(&shared.streams).try_acquire_owned() {
            Ok(room) => {
                let events = StreamBody::new(Steps::new((shared.live.stream(), room), next));
                http::reply(StatusCode::OK, "text/event-stream", events)
            }
            Err(_) => plain(StatusCode::SERVICE_UNAVAILABLE, "too many pages are open\n"),
        },
        (Method::GET, "/picture") => match timeout(PATIENCE, shared.live.picture()).await {
            Ok(Some(picture)) => document(StatusCode::OK, picture),
            _ => plain(StatusCode::SERVICE_UNAVAILABLE, "no server was queried in time\n"),
        },
        (Method::POST, "/view" | "/act") => {
            let action = (path == "/act").then_some(peer);
            command(request, action, shared).await
        }
        (Method::GET | Method::POST, _) => plain(StatusCode::NOT_FOUND, "not found\n"),
        _ => plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and POST are supported\n"),
    }
}

/// Runs a command for the page: an action of this client, or a view. It ends with its request.
async fn command<T: Interactive>(
    request: Request<Incoming>,
    action: Option<SocketAddr>,
    shared: &Arc<Shared<T>>,
) -> Reply {
    let body = timeout(PATIENCE, Limited::new(request.into_body(), LARGEST).collect()).await;
    let Ok(Ok(body)) = body else {
        return plain(StatusCode::PAYLOAD_TOO_LARGE, "the request is too large, or too slow\n");
    };
    let Ok(asked) = serde_json::from_slice::<Asked>(&body.to_bytes()) else {
        return plain(StatusCode::BAD_REQUEST, "this is not a request from the page\n");
    };
    let room = timeout(LONGEST, Arc::clone(&shared.results).acquire_owned()).await;
    let Ok(Ok(room)) = room else {
        return plain(StatusCode::SERVICE_UNAVAILABLE, "too many commands are running\n");
    };
    let acts = Arc::clone(&shared.acts);
    let run = run(room, move |interrupts| {
        let result = match action {
            Some(peer) => acts.act(&asked, peer, interrupts),
            None => acts.view(&asked, interrupts),
        };
        // Here, because a large one would hold up all connections.
        result.map(|document| document.to_string())
    });
    match run.await {
        Ok((Ok(result), room)) => document(StatusCode::OK, roomy(result, room)),
        Ok((Err(error), _)) => failed(StatusCode::UNPROCESSABLE_ENTITY, &error),
        Err(error) if error.exit == Exit::TryAgain => {
            failed(StatusCode::SERVICE_UNAVAILABLE, &error)
        }
        Err(error) => failed(StatusCode::INTERNAL_SERVER_ERROR, &error),
    }
}

/// The result of a command, which is interrupted when its client has gone or its time is over. It keeps its
/// room until it has ended.
async fn run<O: Send + 'static>(
    room: OwnedSemaphorePermit,
    command: impl FnOnce(&Interrupts) -> Result<O, CliError> + Send + 'static,
) -> Result<(Result<O, CliError>, OwnedSemaphorePermit), CliError> {
    let ending = Ending(Interrupts::none());
    let interrupts = ending.0.clone();
    let mut running = pin!(http::in_thread(move || (command(&interrupts), room)));
    if let Ok(result) = timeout(LONGEST, running.as_mut()).await {
        return result;
    }
    ending.0.raise();
    let (result, room) = running.await?;
    let late = |error: CliError| match error.exit {
        Exit::Interrupted => {
            let what = format!("stopped after {} s: {}", LONGEST.as_secs(), error.message);
            CliError::new(Exit::Timeout, "TIMEOUT", what).hint("fewer at a time")
        }
        _ => error,
    };
    Ok((result.map_err(late), room))
}

/// Interrupts a command when it is dropped.
struct Ending(Interrupts);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.raise();
    }
}

fn failed(status: StatusCode, error: &CliError) -> Reply {
    let told = json!({
        "error": { "code": error.code, "message": error.message, "hints": error.hints, "exit": error.exit.code() },
    });
    document(status, told.to_string())
}

fn refused(status: StatusCode) -> Reply {
    let why = match status {
        StatusCode::MISDIRECTED_REQUEST => "unknown host name: --host NAME allows it\n",
        StatusCode::FORBIDDEN => "only the page itself may send this request\n",
        _ => "open the link that the tool has printed\n",
    };
    let mut response = plain(status, why);
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

fn text(content_type: &'static str, body: &'static str) -> Reply {
    http::reply(StatusCode::OK, content_type, Full::from(body))
}

fn document(status: StatusCode, text: impl Into<Bytes>) -> Reply {
    http::reply(status, "application/json", Full::from(text.into()))
}

/// A result. A large one keeps its room until all of it is written.
fn roomy(text: String, room: OwnedSemaphorePermit) -> Bytes {
    struct Roomy(String, #[allow(dead_code)] OwnedSemaphorePermit);

    impl AsRef<[u8]> for Roomy {
        fn as_ref(&self) -> &[u8] {
            self.0.as_bytes()
        }
    }

    if text.len() > SMALL { Bytes::from_owner(Roomy(text, room)) } else { text.into() }
}

/// A stream of events, each of which is the newest snapshot when the previous one was taken, and its room.
type Events = (watch::Receiver<Bytes>, OwnedSemaphorePermit);

/// The next event, or a comment after a long silence, so that a vanished reader is noticed.
async fn next((mut news, room): Events) -> Option<(Result<Frame<Bytes>, Infallible>, Events)> {
    let event = match timeout(Duration::from_secs(15), news.changed()).await {
        Ok(Ok(())) => news.borrow_and_update().clone(),
        Ok(Err(_)) => return None,
        Err(_) => Bytes::new(),
    };
    let event = match event.is_empty() {
        true => Bytes::from_static(b":\n\n"),
        false => [&b"data: "[..], &event, b"\n\n"].concat().into(),
    };
    Some((Ok(Frame::data(event)), (news, room)))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tokio::io::{AsyncWriteExt as _, duplex};

    use super::*;

    /// A command that ends when it is interrupted; tells that it has begun, and how it ended.
    fn endless(told: mpsc::Sender<bool>) -> impl FnOnce(&Interrupts) -> Result<(), CliError> {
        move |interrupts| {
            let _ = told.send(true);
            let ended = interrupts.sleep(Duration::from_secs(3600));
            let _ = told.send(ended.is_ok());
            ended
        }
    }

    fn runtime(is_paused: bool) -> tokio::runtime::Runtime {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().start_paused(is_paused).build().unwrap()
    }

    #[test]
    fn a_dropped_request_cancels_its_command() {
        let results = Arc::new(Semaphore::new(1));
        let (told, tells) = mpsc::channel();
        runtime(false).block_on(async {
            let (mut client, server) = duplex(1024);
            client.write_all(b"POST /view HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
            let respond = |_| {
                let (told, results) = (told.clone(), Arc::clone(&results));
                async move {
                    let room = results.acquire_owned().await.unwrap();
                    let _ = run(room, endless(told)).await;
                    plain(StatusCode::OK, "")
                }
            };
            let leave = async {
                while tells.try_recv().is_err() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                drop(client);
            };
            tokio::join!(http::answer(server, respond), leave);
            assert!(!tells.recv().unwrap(), "it is interrupted");
            let _free = results.acquire().await.unwrap();
        });
    }

    #[test]
    fn a_command_has_a_time_limit() {
        let results = Arc::new(Semaphore::new(1));
        let (told, _tells) = mpsc::channel();
        let result = runtime(true).block_on(async {
            let room = results.acquire_owned().await.unwrap();
            run(room, endless(told)).await.unwrap().0
        });
        let error = result.unwrap_err();
        assert_eq!((error.exit, error.message.contains("after 60 s")), (Exit::Timeout, true));
    }

    #[test]
    fn a_large_result_counts_until_it_is_written() {
        let results = Arc::new(Semaphore::new(1));
        for (size, left) in [(SMALL * 2, 0), (1, 1)] {
            let room = Arc::clone(&results).try_acquire_owned().unwrap();
            let answer = document(StatusCode::OK, roomy("x".repeat(size), room));
            let body = answer.into_body().collect();
            let body = runtime(false).block_on(body).unwrap().to_bytes();
            assert_eq!(results.available_permits(), left);
            drop(body);
            assert_eq!(results.available_permits(), 1);
        }
    }
}
