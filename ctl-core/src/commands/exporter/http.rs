//! A small HTTP server for programs: one answer for each connection, and none for slow clients.

use std::future::Future;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderMap, HeaderValue,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, Request, Response, StatusCode};
use tokio::time::timeout;

use crate::error::{CliError, Exit};
use crate::system::listen::{Claim, http};
use crate::system::signals::Interrupts;

/// Maximum number of connections at once.
const CONNECTIONS: usize = 512;
/// Time limit of a connection, from its first byte to the last of the answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// A request.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) path: String,
    /// The text after `?`.
    pub(super) query: String,
    /// The accepted types; empty if the client does not say.
    pub(super) accept: String,
    claim: Claim,
}

impl Asked {
    /// Keeps the connection although others may wait.
    pub(super) fn keep(&self) {
        self.claim.stake();
    }
}

#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) content_type: &'static str,
    pub(super) body: Bytes,
}

/// Answers GET requests until a signal arrives. With `is_local`, only those for this host: a page in a browser could
/// ask for others, which it has bound to this address.
///
/// # Errors
/// The operating system refuses what a server needs: exit 70.
pub(super) fn serve<A, F>(
    listener: TcpListener,
    interrupts: &Interrupts,
    is_local: bool,
    answer: A,
) -> Result<Exit, CliError>
where
    A: Fn(Asked) -> F + Send + Sync + 'static,
    F: Future<Output = Reply> + Send,
{
    let answer = Arc::new(answer);
    http::serve(listener, CONNECTIONS, interrupts, |stream, _, claim| {
        let answer = Arc::clone(&answer);
        async move {
            let respond = |request| respond(request, is_local, claim.clone(), &*answer);
            let _ = timeout(PATIENCE, http::answer(stream, respond)).await;
        }
    })
}

async fn respond<F: Future<Output = Reply>>(
    request: Request<Incoming>,
    is_local: bool,
    claim: Claim,
    answer: impl Fn(Asked) -> F,
) -> Response<Full<Bytes>> {
    if is_local && !is_for_here(request.headers()) {
        let text = "unknown host name: an exporter on loopback has none but localhost\n";
        return response(plain(StatusCode::MISDIRECTED_REQUEST, text));
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let refused = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET is supported\n");
        let mut refused = response(refused);
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    let uri = request.uri();
    response(
        answer(Asked {
            path: uri.path().to_owned(),
            query: uri.query().unwrap_or_default().to_owned(),
            accept: text_of(request.headers()).to_owned(),
            claim,
        })
        .await,
    )
}

/// Programs may omit the host, but no browser does.
fn is_for_here(headers: &HeaderMap) -> bool {
    match http::host(headers) {
        Some(host) => http::is_sure(&http::name_and_port(host).0),
        None => !headers.contains_key(HOST),
    }
}

fn response(Reply { status, content_type, body }: Reply) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn text_of(headers: &HeaderMap) -> &str {
    headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

pub(super) fn plain(status: StatusCode, text: impl Into<Bytes>) -> Reply {
    Reply { status, content_type: "text/plain; charset=utf-8", body: text.into() }
}
