//! Measurements of operations on messages, with the names of OpenTelemetry's messaging conventions, but without a
//! dependency on it.

use std::{
    borrow::Cow,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use crate::{Endpoint, OneLine};

/// An instrument of OpenTelemetry's [messaging
/// conventions](https://opentelemetry.io/docs/specs/semconv/messaging/messaging-metrics/).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Instrument {
    /// `messaging.client.operation.duration`: a histogram of the duration of operations of a client or producer, in
    /// seconds.
    OperationDuration,
    /// `messaging.client.sent.messages`: a counter of messages that a producer tried to send, except for those that
    /// were definitely not sent.
    SentMessages,
    /// `messaging.client.consumed.messages`: a counter of messages delivered to the application, each once.
    ConsumedMessages,
    /// `messaging.process.duration`: a histogram of the duration of handlers, in seconds.
    ProcessDuration,
}

impl Instrument {
    /// All instruments.
    pub const ALL: [Self; 4] = [
        Self::OperationDuration,
        Self::SentMessages,
        Self::ConsumedMessages,
        Self::ProcessDuration,
    ];

    /// Its name in the conventions.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::OperationDuration => "messaging.client.operation.duration",
            Self::SentMessages => "messaging.client.sent.messages",
            Self::ConsumedMessages => "messaging.client.consumed.messages",
            Self::ProcessDuration => "messaging.process.duration",
        }
    }

    /// Its unit in UCUM: `s` or `{message}`.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        if self.is_counter() { "{message}" } else { "s" }
    }

    /// What it measures.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Self::OperationDuration => "Duration of operations of a producer or consumer client",
            Self::SentMessages => "Number of messages that a producer tried to send",
            Self::ConsumedMessages => "Number of messages delivered to the application",
            Self::ProcessDuration => "Duration of processing a message",
        }
    }

    /// Whether it is a counter; a histogram otherwise.
    #[must_use]
    pub const fn is_counter(self) -> bool {
        matches!(self, Self::SentMessages | Self::ConsumedMessages)
    }

    /// The bucket boundaries that the conventions give a histogram, in seconds; empty for a counter.
    #[must_use]
    pub const fn boundaries(self) -> &'static [f64] {
        if self.is_counter() {
            return &[];
        }
        &[0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0]
    }
}

impl fmt::Display for Instrument {
    /// Formats as the [name](Self::name).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A measurement: a value for an instrument, and the attributes that the conventions require.
///
/// It contains no body, no id, and nothing sent by a server. The attributes have few distinct values as long as there
/// are few tubes, functions or queues; if you create one for each user, leave `messaging.destination.name` out.
#[derive(Debug)]
pub struct Measurement<'a> {
    instrument: Instrument,
    value: f64,
    facts: &'a Facts<'a>,
    error: Option<&'a str>,
}

impl<'a> Measurement<'a> {
    /// The instrument that it is for.
    #[must_use]
    pub fn instrument(&self) -> Instrument {
        self.instrument
    }

    /// Seconds, or a whole number of messages.
    #[must_use]
    pub fn value(&self) -> f64 {
        self.value
    }

    /// The class of failure, for an operation that failed: `error.type`.
    #[must_use]
    pub fn error_type(&self) -> Option<&'a str> {
        self.error
    }

    /// The operation as named by the messaging system: `messaging.operation.name`.
    #[must_use]
    pub fn operation(&self) -> &'a str {
        self.facts.operation
    }

    /// The tube, function or queue, if the operation concerns one: `messaging.destination.name`.
    #[must_use]
    pub fn destination(&self) -> Option<&'a str> {
        self.facts.destination.as_deref()
    }

    /// All attributes, by their names in the conventions.
    pub fn attributes(&self) -> impl Iterator<Item = (&'static str, AttributeValue<'a>)> + use<'a> {
        let Measurement { instrument, facts, error, .. } = *self;
        let kind = facts.kind.filter(|_| instrument == Instrument::OperationDuration);
        let server = facts.server.as_ref();
        let text =
            |name, value: Option<&'a str>| value.map(|value| (name, AttributeValue::Text(value)));
        let port = server.and_then(|server| server.port);
        [
            text("messaging.system", Some(facts.system)),
            text("messaging.operation.name", Some(facts.operation)),
            text("messaging.operation.type", kind),
            text("messaging.destination.name", facts.destination.as_deref()),
            text("server.address", server.map(|server| &*server.address)),
            port.map(|port| ("server.port", AttributeValue::Number(port.into()))),
            text("error.type", error),
        ]
        .into_iter()
        .flatten()
    }
}

/// The value of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AttributeValue<'a> {
    /// Text.
    Text(&'a str),
    /// A whole number.
    Number(i64),
}

impl fmt::Display for AttributeValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => text.fmt(f),
            Self::Number(number) => number.fmt(f),
        }
    }
}

/// The observer of measurements, if any. If it panics, the operation continues.
#[derive(Clone, Default)]
pub struct Measures(Option<Arc<Tell>>);

type Tell = dyn Fn(&Measurement<'_>) + Send + Sync;

impl Measures {
    /// Calls `observer`, which must not block.
    pub fn new(observer: impl Fn(&Measurement<'_>) + Send + Sync + 'static) -> Self {
        Measures(Some(Arc::new(observer)))
    }

    /// No observer.
    #[must_use]
    pub fn none() -> &'static Self {
        static NONE: Measures = Measures(None);
        &NONE
    }

    /// Whether there is an observer.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.is_some()
    }

    /// Reports a value.
    pub fn notify(
        &self,
        instrument: Instrument,
        value: f64,
        facts: &Facts<'_>,
        error: Option<&str>,
    ) {
        if let Some(observer) = &self.0 {
            let measurement = Measurement { instrument, value, facts, error };
            // The panic hook has already reported the panic.
            let _ = catch_unwind(AssertUnwindSafe(|| observer(&measurement)));
        }
    }
}

impl fmt::Debug for Measures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Measures").field(&self.is_set()).finish()
    }
}

/// An operation in the terms of the conventions. Created only where a span is enabled or there is an observer.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// `messaging.system`.
    pub system: &'static str,
    /// `messaging.operation.name`.
    pub operation: &'static str,
    /// `messaging.operation.type`.
    pub kind: Option<&'static str>,
    /// `messaging.destination.name`.
    pub destination: Option<Cow<'a, str>>,
    /// The server, if it is known when the operation begins.
    pub server: Option<Place<'a>>,
}

/// A server's address and port, as reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// `server.address`: the host, or the path of a Unix socket.
    pub address: Cow<'a, str>,
    /// `server.port`; a Unix socket has none.
    pub port: Option<u16>,
}

impl Place<'_> {
    /// An owned copy.
    #[must_use]
    pub fn into_owned(self) -> Place<'static> {
        Place { address: Cow::Owned(self.address.into_owned()), port: self.port }
    }
}

impl<'a> From<Endpoint<'a>> for Place<'a> {
    fn from(endpoint: Endpoint<'a>) -> Self {
        let address = match endpoint {
            Endpoint::Tcp { host, .. } | Endpoint::Tls { host, .. } => one_line(host),
            Endpoint::Unix(path) => Cow::Owned(OneLine(path.display()).to_string()),
        };
        Place { address, port: endpoint.port() }
    }
}

impl Facts<'_> {
    /// The name of the span: the operation and its destination, or else the server.
    #[must_use]
    pub fn title(&self) -> String {
        match (&self.destination, &self.server) {
            (Some(destination), _) => format!("{} {destination}", self.operation),
            (None, Some(server)) => format!("{} {server}", self.operation),
            (None, None) => self.operation.to_owned(),
        }
    }

    /// An owned copy.
    #[must_use]
    pub fn into_owned(self) -> Facts<'static> {
        Facts {
            destination: self.destination.map(|name| Cow::Owned(name.into_owned())),
            server: self.server.map(Place::into_owned),
            ..self
        }
    }
}

/// The name of the span of an operation on a server.
#[must_use]
pub fn titled(operation: &str, server: Endpoint<'_>) -> String {
    format!("{operation} {}", Place::from(server))
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

/// A name as reported: unchanged if it fits on one line.
#[must_use]
pub fn one_line(name: &str) -> Cow<'_, str> {
    match name.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) {
        true => Cow::Borrowed(name),
        false => Cow::Owned(OneLine(name).to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts<'static> {
        Facts {
            system: "queued",
            operation: "put",
            kind: Some("send"),
            destination: Some("mail".into()),
            server: Some(Endpoint::Tcp { host: "h", port: 7 }.into()),
        }
    }

    #[test]
    fn a_span_is_named_for_operation_and_target() {
        let about = facts();
        assert_eq!(about.title(), "put mail");
        let about = Facts { destination: None, ..about };
        assert_eq!(about.title(), "put h:7");
        let unix = Endpoint::Unix(std::path::Path::new("/run/q\n.sock"));
        let about = Facts { server: Some(unix.into()), ..about };
        assert_eq!(about.title(), "put /run/q\\n.sock");
        assert_eq!(Facts { server: None, ..about }.title(), "put");
    }

    #[test]
    fn a_panicking_observer_is_harmless() {
        let measures = Measures::new(|_| panic!("in an observer"));
        measures.notify(Instrument::SentMessages, 1.0, &facts(), None);
        assert!(measures.is_set() && !Measures::default().is_set());
    }

    #[test]
    fn histograms_have_boundaries_and_counters_have_none() {
        for instrument in Instrument::ALL {
            assert_eq!(instrument.boundaries().is_empty(), instrument.is_counter(), "{instrument}");
            assert!(instrument.boundaries().is_sorted(), "{instrument}");
        }
    }
}
