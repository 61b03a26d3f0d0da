//! A subscriber that keeps everything, at the lowest level, in the format of the usual formatter.

/// What a scenario of both faces does by the async one: awaits a call, takes all that a stream gives, or awaits a call in a
/// span.
macro_rules! by_awaiting {
    (call $call:expr) => {
        $call.await
    };
    (all $stream:expr) => {{
        let mut stream = $stream;
        while let Some(item) = stream.next().await {
            let _ = item.unwrap();
        }
    }};
    (pairs $stream:expr) => {
        let mut stream = $stream;
        while let Some((_, item)) = stream.next().await {
            item.unwrap();
        }
    };
    (within $span:expr, $call:expr) => {
        tracing::Instrument::instrument($call, $span).await
    };
    (receipt $receipt:expr) => {
        $receipt.await
    };
}

/// The same by the blocking one.
macro_rules! by_blocking {
    (call $call:expr) => {
        $call
    };
    (all $iterator:expr) => {
        for item in $iterator {
            let _ = item.unwrap();
        }
    };
    (pairs $iterator:expr) => {
        for (_, item) in $iterator {
            item.unwrap();
        }
    };
    (within $span:expr, $call:expr) => {
        $span.in_scope(|| $call)
    };
    (receipt $receipt:expr) => {
        $receipt.wait()
    };
}

pub(crate) use {by_awaiting, by_blocking};

use std::{
    io::{self, Write},
    sync::{Mutex, MutexGuard, Once, PoisonError},
};

use tracing_subscriber::fmt::format::FmtSpan;

/// In bodies and passwords, and nowhere in a record.
pub(crate) const SENTINEL: &str = "sentinel-5e1f";

/// What was written: one element for each event.
static RECORD: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Writer;

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        lock(&RECORD).push(String::from_utf8_lossy(bytes).into_owned());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Everything that is reported while `scenario` runs, by all threads. One scenario at a time.
pub(crate) fn record_of(scenario: impl FnOnce()) -> Vec<String> {
    static ONE: Mutex<()> = Mutex::new(());
    static START: Once = Once::new();
    START.call_once(|| {
        tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_span_events(FmtSpan::FULL)
            .with_ansi(false)
            .with_writer(|| Writer)
            .init();
    });
    let _one = lock(&ONE);
    lock(&RECORD).clear();
    scenario();
    std::mem::take(&mut *lock(&RECORD))
}

/// One event is one line, and contains nothing that it must not.
pub(crate) fn check(record: &[String]) {
    assert!(!record.is_empty());
    for event in record {
        assert_eq!(event.matches('\n').count(), 1, "{event:?}");
        assert!(event.ends_with('\n'), "{event:?}");
        assert!(!event.trim_end().contains(char::is_control), "{event:?}");
        assert!(!event.contains(SENTINEL), "{event}");
        assert!(!event.contains("_client::"), "the target is the crate's name: {event}");
    }
}

/// As [`check`], for a client of this system whose connections have this span: one was made, one was lost, and others
/// could not be made, over TCP and TLS.
pub(crate) fn check_connections(record: &[String], system: &str, span: &str) {
    check(record);
    find(record, &["INFO", "connected", system, "server.address=127.0.0.1", "server.port="]);
    find(record, &[span, "close"]);
    find(record, &["WARN", "the connection was lost", "server.port="]);
    find(record, &["waiting before the next attempt", "delay_ms="]);
    let failed = ["error.type=\"connect\"", "error=cannot connect to 127.0.0.1:"];
    find(record, &[&["WARN", "no connection"], &failed[..]].concat());
    find(record, &["error.type=\"tls\""]);
}

/// Whether everything that is reported about a span once it is closed contains all of these, and how many there are.
pub(crate) fn closed<'a>(record: &'a [String], span: &str, words: &[&str]) -> Vec<&'a str> {
    let begin = format!("{span}{{");
    let of_span = |event: &&String| {
        // Another span within it would follow the brace without a space.
        let is_innermost =
            |(_, own): (&str, &str)| own.matches("}:").count() == own.matches("}: ").count();
        event.contains(": close ") && event.rsplit_once(&begin).is_some_and(is_innermost)
    };
    let has_all = |event: &&String| words.iter().all(|word| event.contains(word));
    record.iter().filter(of_span).filter(has_all).map(|event| &**event).collect()
}

/// An event with all of these in it.
pub(crate) fn find<'a>(record: &'a [String], words: &[&str]) -> &'a str {
    let found = record.iter().find(|event| words.iter().all(|word| event.contains(word)));
    found.unwrap_or_else(|| panic!("no event has {words:?} in:\n{}", record.concat()))
}
