//! A small HTTP server for programs: one answer for each connection, and none for slow clients.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use tokio::time::timeout;

use crate::error::{CliError, Exit};
use crate::system::listen::http;
use crate::system::signals::Interrupts;

/// Time limit of a connection, from its first byte to the last of the answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// A request.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    pub(super) path: &'a str,
    /// The text after `?`.
    pub(super) query: &'a str,
    /// The accepted types; empty if the client does not say.
    pub(super) accept: &'a str,
}

#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) content_type: &'static str,
    pub(super) body: String,
}

/// Answers GET requests, each in its own thread, until a signal arrives.
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
    let answer = Arc::new(answer);
    http::serve(listener, http::CONNECTIONS, interrupts, |stream| {
        let answer = Arc::clone(&answer);
        async move {
            let answered = http::answer(stream, |request| respond(request, Arc::clone(&answer)));
            let _ = timeout(PATIENCE, answered).await;
        }
    })
}

async fn respond<A>(request: Request<Incoming>, answer: Arc<A>) -> Response<Full<Bytes>>
where
    A: Fn(&Asked<'_>) -> Reply + Send + Sync + 'static,
{
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refused = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET is supported\n");
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    let answered = tokio::task::spawn_blocking(move || {
        let uri = request.uri();
        let accept = text_of(request.headers());
        answer(&Asked { path: uri.path(), query: uri.query().unwrap_or_default(), accept })
    });
    let Ok(Reply { status, content_type, body }) = answered.await else {
        return plain(StatusCode::INTERNAL_SERVER_ERROR, "this is a defect in the tool\n");
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
