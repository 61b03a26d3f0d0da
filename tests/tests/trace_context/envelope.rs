//! Envelopes of callers, and the context in them.

use std::collections::HashMap;

use opentelemetry::{Context, propagation::TextMapPropagator};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use serde_json::{Value, json};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// The place of the headers of W3C's trace context in a body.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Envelope {
    /// Symfony Messenger's: JSON of `body` and `headers`.
    Symfony,
    /// The caller's own JSON.
    Own,
}

pub(crate) const ALL: [Envelope; 2] = [Envelope::Symfony, Envelope::Own];

impl Envelope {
    /// A payload, and the context of the current span.
    pub(crate) fn seal(self, payload: &str) -> String {
        let mut headers = HashMap::new();
        TraceContextPropagator::new().inject_context(&Span::current().context(), &mut headers);
        assert!(headers.contains_key("traceparent"), "{headers:?}");
        match self {
            Envelope::Symfony => {
                headers.insert("type".into(), "App\\Message\\SendMail".into());
                json!({ "body": json!({ "to": payload }).to_string(), "headers": headers })
            }
            Envelope::Own => json!({ "trace": headers, "payload": payload }),
        }
        .to_string()
    }

    /// The payload.
    pub(crate) fn payload(self, body: &[u8]) -> String {
        let body: Value = serde_json::from_slice(body).unwrap();
        let payload = match self {
            Envelope::Symfony => {
                let inner: Value = serde_json::from_str(body["body"].as_str().unwrap()).unwrap();
                inner["to"].clone()
            }
            Envelope::Own => body["payload"].clone(),
        };
        payload.as_str().unwrap().to_owned()
    }

    /// The context of the sender.
    fn context(self, body: &[u8]) -> Context {
        let body: Value = serde_json::from_slice(body).unwrap();
        let headers = match self {
            Envelope::Symfony => &body["headers"],
            Envelope::Own => &body["trace"],
        };
        let headers: HashMap<String, String> = serde_json::from_value(headers.clone()).unwrap();
        TraceContextPropagator::new().extract(&headers)
    }

    /// Makes a span that has not been entered yet a child of the sender's.
    pub(crate) fn adopt(self, span: &Span, body: &[u8]) {
        span.set_parent(self.context(body)).expect("the span was not entered yet");
    }
}
