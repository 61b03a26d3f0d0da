//! Spans of `tracing`, which are no-ops without the feature of that name; and single-line text.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use crate::{Endpoint, Place};

/// The span of a call, a connection attempt or a job.
#[derive(Clone, Debug)]
pub struct Span(#[cfg(feature = "tracing")] tracing::Span);

#[cfg(feature = "tracing")]
impl Span {
    /// Wraps a span.
    #[must_use]
    pub fn new(span: tracing::Span) -> Self {
        Span(span)
    }

    /// No span.
    #[must_use]
    pub fn none() -> Self {
        Span(tracing::Span::none())
    }

    /// Whether it is enabled. If not, do not compute the values to record.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        !self.0.is_disabled()
    }

    /// Records a field, if the span has it.
    pub fn record(&self, field: &str, value: impl tracing::Value) {
        self.0.record(field, value);
    }

    /// Records a failure: `error.type` and `otel.status_code`.
    pub fn failed(&self, error: &str) {
        if self.is_enabled() {
            self.0.record("error.type", error);
            self.0.record("otel.status_code", "error");
        }
    }

    /// Runs a step within the span.
    pub fn run<T>(&self, step: impl FnOnce() -> T) -> T {
        self.0.in_scope(step)
    }

    /// Wraps a future so that its polls are within the span.
    pub fn follow<F: Future>(&self, step: F) -> impl Future<Output = F::Output> + use<F> {
        tracing::Instrument::instrument(step, self.0.clone())
    }
}

#[cfg(not(feature = "tracing"))]
impl Span {
    /// No span.
    #[must_use]
    #[inline]
    pub fn none() -> Self {
        Span()
    }

    /// Never enabled.
    #[must_use]
    #[inline]
    pub fn is_enabled(&self) -> bool {
        false
    }

    /// A no-op.
    #[inline]
    pub fn failed(&self, error: &str) {
        let _ = error;
    }

    /// Runs the step.
    #[inline]
    pub fn run<T>(&self, step: impl FnOnce() -> T) -> T {
        step()
    }

    /// Returns the future unchanged.
    #[inline]
    pub fn follow<F: Future>(&self, step: F) -> F {
        step
    }
}

/// The observer of each job's span before it is entered, if any; `J` is the job. If it panics, the job still runs.
pub struct SpanHook<J>(Option<Hook<J>>);

type Hook<J> = Arc<dyn Fn(&Span, &J) + Send + Sync>;

impl<J> SpanHook<J> {
    /// Calls `hook`, which must not block.
    #[cfg(feature = "tracing")]
    pub fn new(hook: impl Fn(&tracing::Span, &J) + Send + Sync + 'static) -> Self {
        SpanHook(Some(Arc::new(move |span, job| hook(&span.0, job))))
    }

    /// Shows a new span that was not entered yet, if it is enabled.
    pub fn show(&self, span: &Span, job: &J) {
        if let Some(hook) = self.0.as_ref().filter(|_| span.is_enabled()) {
            // The panic hook has already reported the panic.
            let _ = catch_unwind(AssertUnwindSafe(|| hook(span, job)));
        }
    }
}

impl<J> Default for SpanHook<J> {
    fn default() -> Self {
        SpanHook(None)
    }
}

impl<J> Clone for SpanHook<J> {
    fn clone(&self) -> Self {
        SpanHook(self.0.clone())
    }
}

impl<J> fmt::Debug for SpanHook<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SpanHook")
    }
}

/// Foreign text on a single line: escapes control characters, and those that change the text direction.
#[derive(Clone, Copy, Debug)]
pub struct OneLine<T>(pub T);

impl<T: fmt::Display> fmt::Display for OneLine<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        struct Escape<'a, 'b>(&'a mut fmt::Formatter<'b>);

        impl fmt::Write for Escape<'_, '_> {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                text.chars().try_for_each(|c| match c {
                    '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                        write!(self.0, "{}", c.escape_unicode())
                    }
                    _ if c.is_control() => write!(self.0, "{}", c.escape_default()),
                    _ => fmt::Write::write_char(self.0, c),
                })
            }
        }

        fmt::Write::write_fmt(&mut Escape(f), format_args!("{}", self.0))
    }
}

/// The message of a handler's error, for a log: on one line, truncated to 256 characters.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a>(pub &'a str);

impl fmt::Display for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 256;
        let end = self.0.char_indices().nth(MOST).map_or(self.0.len(), |(at, _)| at);
        OneLine(self.0.get(..end).unwrap_or(self.0)).fmt(f)
    }
}

impl<'a> Endpoint<'a> {
    /// The host, or the path of a Unix socket: `server.address` of OpenTelemetry.
    #[must_use]
    pub fn host(self) -> impl fmt::Display + use<'a> {
        Place::from(self).address
    }

    /// The port, if it is not a Unix socket: `server.port`.
    #[must_use]
    pub fn port(self) -> Option<u16> {
        match self {
            Endpoint::Tcp { port, .. } | Endpoint::Tls { port, .. } => Some(port),
            Endpoint::Unix(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn untrusted_text_stays_on_one_line() {
        assert_eq!(
            OneLine("a\n\x1b[2J\u{202e}b é\u{7f}").to_string(),
            "a\\n\\u{1b}[2J\\u{202e}b é\\u{7f}"
        );
        let unix = Endpoint::Unix(Path::new("/a\rb"));
        assert_eq!((unix.host().to_string(), unix.port()), ("/a\\rb".into(), None));
        let tcp = Endpoint::Tcp { host: "h", port: 7 };
        assert_eq!((tcp.host().to_string(), tcp.port()), ("h".into(), Some(7)));
    }
}
