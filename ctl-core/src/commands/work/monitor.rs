//! The account of a worker over HTTP: metrics, and a sign of life.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hyper::body::Incoming;
use hyper::{Request, StatusCode};
use tokio::time::timeout;

use super::WorkFlags;
use super::counts::Account;
use crate::commands::exporter::scraped;
use crate::error::CliError;
use crate::output::messages::Messages;
use crate::system::listen;
use crate::system::listen::http::{self, Reply, plain};
use crate::system::process;
use crate::system::signals::Interrupts;

/// Maximum number of connections at once.
const CONNECTIONS: usize = 64;
/// Time limit of a connection, from its first byte to the last of the answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// The account of a worker at the address of `--metrics`, from its start until this is dropped.
#[derive(Debug)]
pub(super) struct Monitor {
    over: Interrupts,
    thread: Option<JoinHandle<()>>,
}

impl Monitor {
    /// None without `--metrics`.
    pub(super) fn start(
        flags: &WorkFlags,
        messages: &Messages,
        account: &Arc<Account>,
    ) -> Result<Option<Self>, CliError> {
        let Some(wanted) = &flags.metrics else { return Ok(None) };
        let (listener, address) = listen::tcp(("--metrics", wanted), flags.allow_remote, "worker")?;
        messages.note(format!("metrics on http://{address}/metrics"));
        let over = Interrupts::none();
        let (until, account, messages) = (over.clone(), Arc::clone(account), messages.clone());
        let (tool, is_local) = (messages.program(), address.ip().is_loopback());
        let run = move || {
            let served = http::serve(listener, CONNECTIONS, &until, |stream, _, claim| {
                let account = Arc::clone(&account);
                async move {
                    let respond = async |request: Request<Incoming>| {
                        claim.stake();
                        let refused = http::refused(&request, is_local);
                        refused.unwrap_or_else(|| answer(&account, tool, &request))
                    };
                    let _ = timeout(PATIENCE, http::answer(stream, respond)).await;
                }
            });
            if let Err(error) = served {
                messages.warn(error.message);
            }
        };
        Ok(Some(Self { over, thread: Some(process::thread("metrics", run)?) }))
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.over.raise();
        // The address is free after that.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn answer(account: &Account, tool: &str, request: &Request<Incoming>) -> Reply {
    match request.uri().path() {
        "/metrics" => scraped(request.headers(), account.metrics(tool).text().into()),
        "/healthz" if account.goes_on(Instant::now()) => plain(StatusCode::OK, "ok\n"),
        "/healthz" => plain(
            StatusCode::SERVICE_UNAVAILABLE,
            "a job is held without its command for a minute\n",
        ),
        _ => plain(StatusCode::NOT_FOUND, "not found; try /metrics or /healthz\n"),
    }
}
