//! An operation on messages in progress: its span and its measurements.

use std::{fmt, time::Instant};

use crate::{
    Endpoint, Fate, Span, now,
    trace::measure::{Facts, Instrument, Measures, Place},
};

/// An operation in progress. If it is dropped before its end, it is not measured, and its span has no outcome.
#[derive(Debug)]
pub struct Operation {
    span: Span,
    /// Boxed, since most operations have none.
    measured: Option<Box<Measured>>,
}

#[derive(Debug)]
struct Measured {
    measures: Measures,
    facts: Facts<'static>,
    began: Instant,
}

impl Operation {
    /// An operation without span and observer.
    #[must_use]
    #[inline]
    pub fn none() -> Self {
        Operation { span: Span::none(), measured: None }
    }

    /// Starts an operation.
    #[must_use]
    pub fn new(span: Span, measures: &Measures, facts: Facts<'_>) -> Self {
        let measured = measures.is_set().then(|| {
            Box::new(Measured {
                measures: measures.clone(),
                facts: facts.into_owned(),
                began: now(),
            })
        });
        Operation { span, measured }
    }

    /// Its span.
    #[must_use]
    pub fn span(&self) -> &Span {
        &self.span
    }

    /// Runs a step within its span.
    pub fn run<T>(&self, step: impl FnOnce() -> T) -> T {
        self.span.run(step)
    }

    /// Whether it has an enabled span or an observer.
    #[must_use]
    pub fn is_reported(&self) -> bool {
        self.span.is_enabled() || self.measured.is_some()
    }

    /// Sets the server, once known.
    pub fn at(&mut self, server: Endpoint<'_>) {
        if !self.is_reported() {
            return;
        }
        let place = Place::from(server);
        #[cfg(feature = "tracing")]
        {
            self.span.record("server.address", tracing::field::display(&place.address));
            if let Some(port) = place.port {
                self.span.record("server.port", i64::from(port));
            }
        }
        if let Some(measured) = &mut self.measured {
            measured.facts.server = Some(place.into_owned());
        }
    }

    /// Sets the message id, once known.
    pub fn is_about(&self, id: impl fmt::Display) {
        #[cfg(feature = "tracing")]
        if self.span.is_enabled() {
            self.span.record("messaging.message.id", tracing::field::display(id));
        }
        #[cfg(not(feature = "tracing"))]
        let _ = id;
    }

    /// Sets the length of the body, once known.
    pub fn has_size(&self, bytes: usize) {
        #[cfg(feature = "tracing")]
        self.span.record("messaging.message.body.size", bytes as i64);
        #[cfg(not(feature = "tracing"))]
        let _ = bytes;
    }

    /// Messages were delivered to the application.
    pub fn delivered(&self, messages: u64) {
        self.count(Instrument::ConsumedMessages, messages, None);
    }

    /// A message was, or may have been, sent; with the class and fate of a failure.
    fn sent(&self, failure: Option<(&str, Fate)>) {
        if failure.is_none_or(|(_, fate)| fate != Fate::NotSent) {
            self.count(Instrument::SentMessages, 1, failure.map(|(error, _)| error));
        }
    }

    fn count(&self, instrument: Instrument, messages: u64, error: Option<&str>) {
        if let Some(Measured { measures, facts, .. }) = self.measured.as_deref() {
            measures.notify(instrument, messages as f64, facts, error);
        }
    }

    /// The operation on a server has ended, with the class and fate of a failure. One that sends a message has tried
    /// to.
    pub fn concluded(&mut self, failure: Option<(&str, Fate)>) {
        if self.measured.as_ref().is_some_and(|measured| measured.facts.kind == Some("send")) {
            self.sent(failure);
        }
        self.ended(failure.map(|(error, _)| error));
    }

    /// It has ended, with the class of a failure.
    pub fn ended(&mut self, error: Option<&str>) {
        if let Some(error) = error {
            self.span.failed(error);
        }
        if let Some(measured) = self.measured.take() {
            let Measured { measures, facts, began } = *measured;
            let instrument = match facts.kind {
                Some("process") => Instrument::ProcessDuration,
                _ => Instrument::OperationDuration,
            };
            let seconds = now().saturating_duration_since(began).as_secs_f64();
            measures.notify(instrument, seconds, &facts, error);
        }
    }
}

/// An operation that a role has concluded, with what came of it. Its observers and subscribers may be any code, so they
/// hear of it when it is [notified](Self::notify), outside of any lock.
#[derive(Debug)]
#[must_use = "it is not observed before it is reported"]
pub struct Observation {
    operation: Operation,
    failure: Option<(&'static str, Fate)>,
    /// For the span.
    id: Option<String>,
    bytes: Option<usize>,
}

impl Observation {
    /// The operation has ended, with the class and fate of a failure.
    pub fn new(operation: Operation, failure: Option<(&'static str, Fate)>) -> Self {
        Observation { operation, failure, id: None, bytes: None }
    }

    /// The id and the length in bytes of its message.
    pub fn about(self, id: impl fmt::Display, bytes: Option<usize>) -> Self {
        match self.operation.span.is_enabled() {
            true => Observation { id: Some(id.to_string()), bytes, ..self },
            false => self,
        }
    }

    /// Tells observers and subscribers.
    pub fn notify(mut self) {
        self.id.iter().for_each(|id| self.operation.is_about(id));
        self.bytes.iter().for_each(|bytes| self.operation.has_size(*bytes));
        self.operation.concluded(self.failure);
    }
}

/// Many messages of one call, with one span for all of them. It ends when it is dropped.
#[derive(Debug, Default)]
pub struct BatchOperation {
    operation: Option<Operation>,
    messages: u64,
    /// The class of the first failure.
    error: Option<String>,
}

impl BatchOperation {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts the operation made by `make`, unless one has started.
    pub fn begin(&mut self, make: impl FnOnce() -> Operation) {
        if self.operation.is_none() {
            self.operation = Some(make());
        }
    }

    /// Counts more messages.
    pub fn takes(&mut self, messages: u64) {
        self.messages += messages;
    }

    /// The outcome of sending one message, with the class and fate of a failure.
    pub fn sent(&mut self, failure: Option<(&str, Fate)>) {
        if let Some(operation) = &self.operation {
            operation.sent(failure);
        }
        self.answered(failure.map(|(error, _)| error));
    }

    /// The outcome of one message of any kind.
    pub fn answered(&mut self, error: Option<&str>) {
        if let Some(error) = error
            && self.error.is_none()
            && self.operation.as_ref().is_some_and(Operation::is_reported)
        {
            self.error = Some(error.to_owned());
        }
    }

    /// A message was delivered to the application.
    pub fn delivered(&self) {
        if let Some(operation) = &self.operation {
            operation.delivered(1);
        }
    }

    /// Whether it has started.
    #[must_use]
    pub fn is_begun(&self) -> bool {
        self.operation.is_some()
    }

    /// Runs a step within its span, once there is one.
    pub fn run<T>(&self, step: impl FnOnce() -> T) -> T {
        match &self.operation {
            Some(operation) => operation.run(step),
            None => step(),
        }
    }

    /// Its span, once there is one.
    #[must_use]
    pub fn span(&self) -> Span {
        self.operation.as_ref().map_or_else(Span::none, |operation| operation.span.clone())
    }
}

impl Drop for BatchOperation {
    fn drop(&mut self) {
        if let Some(mut operation) = self.operation.take() {
            #[cfg(feature = "tracing")]
            operation.span.record("messaging.batch.message_count", self.messages as i64);
            operation.ended(self.error.as_deref());
        }
    }
}

/// An [`Operation`] with a span of this name, level and kind. The span and its [`Facts`] are created only if the span
/// is enabled or there is an observer. With `root` before the level, it is not a child of the current span. Numbers are
/// signed, because the bridges to OpenTelemetry turn others into text. A macro, because a span's name and target are
/// determined by where it is written.
#[doc(hidden)]
#[macro_export]
macro_rules! operation {
    (root $level:ident, $($rest:tt)+) => {
        $crate::operation!(@ [parent: None,] $level, $($rest)+)
    };
    (@ [$($parent:tt)*] $level:ident, $target:ident, $name:literal, $kind:literal, $measures:expr, $facts:expr $(, $($own:tt)+)?) => {{
        let measures: &$crate::Measures = $measures;
        #[cfg(feature = "tracing")]
        let is_traced = tracing::span_enabled!(target: $target, tracing::Level::$level);
        #[cfg(not(feature = "tracing"))]
        let is_traced = false;
        if is_traced || measures.is_set() {
            let facts: $crate::Facts<'_> = $facts;
            #[cfg(feature = "tracing")]
            let span = match is_traced {
                true => $crate::Span::new(tracing::span!(
                    target: $target,
                    $($parent)*
                    tracing::Level::$level,
                    $name,
                    otel.name = %facts.title(),
                    otel.kind = $kind,
                    otel.status_code = tracing::field::Empty,
                    messaging.system = facts.system,
                    messaging.operation.name = facts.operation,
                    "messaging.operation.type" = facts.kind,
                    messaging.destination.name =
                        facts.destination.as_deref().map(tracing::field::display),
                    server.address =
                        facts.server.as_ref().map(|server| tracing::field::display(&server.address)),
                    server.port = facts.server.as_ref().and_then(|server| server.port).map(i64::from),
                    "error.type" = tracing::field::Empty,
                    $($($own)+)?
                )),
                false => $crate::Span::none(),
            };
            #[cfg(not(feature = "tracing"))]
            let span = $crate::Span::none();
            $crate::Operation::new(span, measures, facts)
        } else {
            $crate::Operation::none()
        }
    }};
    ($level:ident, $($rest:tt)+) => {
        $crate::operation!(@ [] $level, $($rest)+)
    };
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::lock;

    fn measured() -> (Arc<Mutex<Vec<String>>>, Measures) {
        let observation = Arc::new(Mutex::new(Vec::new()));
        let tells = observation.clone();
        let measures = Measures::new(move |one| {
            let value = if one.instrument().is_counter() { one.value() } else { 0.0 };
            lock(&tells).push(format!("{} {value} {:?}", one.instrument(), one.error_type()));
        });
        (observation, measures)
    }

    fn operation(measures: &Measures, kind: &'static str) -> Operation {
        let facts = Facts {
            system: "queued",
            operation: "op",
            kind: Some(kind),
            destination: None,
            server: None,
        };
        Operation::new(Span::none(), measures, facts)
    }

    #[test]
    fn unsent_messages_are_not_counted() {
        let (observation, measures) = measured();
        let (sent, took) =
            ("messaging.client.sent.messages 1", "messaging.client.operation.duration 0");
        for (kind, failure, expected) in [
            ("send", None, vec![format!("{sent} None"), format!("{took} None")]),
            (
                "send",
                Some(("timeout", Fate::Unknown)),
                vec![format!("{sent} Some(\"timeout\")"), format!("{took} Some(\"timeout\")")],
            ),
            ("send", Some(("connect", Fate::NotSent)), vec![format!("{took} Some(\"connect\")")]),
            ("settle", None, vec![format!("{took} None")]),
        ] {
            operation(&measures, kind).concluded(failure);
            assert_eq!(std::mem::take(&mut *lock(&observation)), expected);
        }
    }

    #[test]
    fn a_batch_ends_once_with_its_first_failure_when_it_is_dropped() {
        let (observation, measures) = measured();
        let mut batch = BatchOperation::new();
        for failure in [None, Some(("draining", Fate::Refused)), Some(("other", Fate::NotSent))] {
            batch.begin(|| operation(&measures, "send"));
            batch.takes(1);
            batch.sent(failure);
        }
        drop(batch);
        assert_eq!(lock(&observation).len(), 3);
        assert_eq!(
            lock(&observation).last().unwrap(),
            "messaging.client.operation.duration 0 Some(\"draining\")"
        );
        drop(BatchOperation::new());
        assert_eq!(lock(&observation).len(), 3, "nothing was under way");
    }

    #[test]
    fn a_handler_has_its_own_instrument() {
        let (observation, measures) = measured();
        operation(&measures, "process").ended(None);
        assert_eq!(*lock(&observation), ["messaging.process.duration 0 None"]);
        Operation::none().ended(None);
    }
}
