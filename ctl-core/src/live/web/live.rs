//! The servers' figures, polled while a viewer is connected, and broadcast to all.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use hyper::body::Bytes;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::commands::exporter::Collector;
use crate::context::Tool;
use crate::error::CliError;
use crate::live::top::{Board, Figure, Known, Source, document};
use crate::output::{Output, Style};
use crate::system::process;

/// The newest snapshot for all streams.
#[derive(Debug, Clone)]
pub(super) struct Live {
    news: watch::Receiver<Bytes>,
}

/// How often to check for open pages.
const TICK: Duration = Duration::from_millis(50);

/// The data needed to show figures.
pub(super) fn figures(figures: &[Figure]) -> Vec<Value> {
    let shown = figures
        .iter()
        .filter(|figure| !matches!(figure.source, Source::Server | Source::Name | Source::Problem));
    let one = |figure: &Figure| json!({ "key": figure.column.key, "title": figure.column.title, "unit": figure.unit });
    shown.map(one).collect()
}

impl Live {
    /// Polls the servers while there are streams.
    ///
    /// # Errors
    /// The system has no thread for it: exit 75.
    pub(super) fn new<T: Tool>(
        collector: Arc<Collector<T>>,
        board: &'static Board,
        names: (&'static str, &'static str),
        every: Duration,
    ) -> Result<Self, CliError> {
        let (send, news) = watch::channel(Bytes::new());
        let mut known = Known::new(board, names, collector.addresses());
        let poll = move || {
            let out = Output::to(Box::new(std::io::sink()), Style::default());
            loop {
                if send.is_closed() {
                    return;
                }
                // One receiver is kept for new streams. Without others, polling stops and the snapshot ages.
                if send.receiver_count() < 2 {
                    send.send_if_modified(|picture| !std::mem::take(picture).is_empty());
                    thread::sleep(TICK);
                    continue;
                }
                for (server, look) in collector.looks().into_iter().enumerate() {
                    known.take(server, look);
                }
                if let Ok(document) = document(&out, &known) {
                    send.send_replace(document.to_string().into());
                }
                thread::sleep(every);
            }
        };
        process::thread("live", poll)?;
        Ok(Self { news })
    }

    /// A stream of snapshots, starting with the current one.
    pub(super) fn stream(&self) -> watch::Receiver<Bytes> {
        let mut news = self.news.clone();
        news.mark_changed();
        news
    }
    /// One snapshot; `None` when polling has ended.
    pub(super) async fn picture(&self) -> Option<Bytes> {
        let mut news = self.stream();
        loop {
            news.changed().await.ok()?;
            let picture = news.borrow_and_update().clone();
            if !picture.is_empty() {
                return Some(picture);
            }
        }
    }
}
