//! The requests to an in-memory server: displayed, recorded in a file, and the time of the last one.

use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use super::ServeArgs;
use crate::error::CliError;
use crate::link::RequestLog;
use crate::output::messages::{Messages, Trace};
use crate::system::files;
use crate::text::units;

/// The times of requests.
#[derive(Debug, Clone)]
pub struct Requests {
    start: Instant,
    /// The time of the last request, in milliseconds after the start.
    last: Arc<AtomicU64>,
    /// Whether they come from other programs.
    are_others: Arc<AtomicBool>,
}

impl Requests {
    /// The callback for each request; `None` if it is not needed.
    ///
    /// # Errors
    /// The file of `--record` exists, or cannot be created: exit 74.
    pub fn log(
        args: &ServeArgs,
        trace: Trace,
        messages: &Messages,
    ) -> Result<(Self, Option<RequestLog>), CliError> {
        let requests =
            Self { start: Instant::now(), last: Arc::default(), are_others: Arc::default() };
        let file = args.record.as_ref().map(|path| files::new_file(path)).transpose()?;
        if !trace.is_on() && file.is_none() && args.max_idle.is_none() {
            return Ok((requests, None));
        }
        let (seen, mut file, messages) = (requests.clone(), file, messages.clone());
        let log = move |connection: u64, request: &str| {
            if !seen.are_others.load(Ordering::Relaxed) {
                return;
            }
            seen.last.store(seen.elapsed(), Ordering::Relaxed);
            if trace.is_on() {
                trace.show(format_args!("{connection} > {request}"));
            }
            let written = file.as_mut().map_or(Ok(()), |file| write(file, connection, request));
            if let Err(error) = written {
                messages.warn(format!("recording of requests stopped: {error}"));
                file = None;
            }
        };
        Ok((requests, Some(Box::new(log))))
    }

    /// Requests count from now on.
    pub(super) fn begin(&self) {
        self.last.store(self.elapsed(), Ordering::Relaxed);
        self.are_others.store(true, Ordering::Relaxed);
    }

    /// How long ago the last request was.
    pub(super) fn idle(&self) -> Duration {
        Duration::from_millis(self.elapsed().saturating_sub(self.last.load(Ordering::Relaxed)))
    }

    fn elapsed(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// Writes a line at once, so that the file always has whole lines.
fn write(file: &mut File, connection: u64, request: &str) -> std::io::Result<()> {
    let ts = units::now_in_milliseconds();
    let line = json!({"ts": ts, "connection": connection, "request": request});
    file.write_all(format!("{line}\n").as_bytes())
}
