//! OpenTelemetry in memory, and what it must have recorded.

use std::{
    collections::BTreeSet,
    sync::{LazyLock, Mutex},
};

use beanstalk_client::{AttributeValue, Instrument, Measurement};
use opentelemetry::{
    Key, KeyValue, Value,
    metrics::{Counter, Histogram, Meter, MeterProvider as _},
    trace::{SpanKind, Status, TraceContextExt, TraceId, TracerProvider as _},
};
use opentelemetry_sdk::{
    metrics::{
        InMemoryMetricExporter, SdkMeterProvider,
        data::{AggregatedMetrics, MetricData},
    },
    trace::{InMemorySpanExporter, SdkTracerProvider, SpanData},
};
use tracing::{Span, level_filters::LevelFilter};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::layer::{Layer, SubscriberExt};

/// All spans of this program that have ended. Those of one trace belong to one test.
static SPANS: LazyLock<InMemorySpanExporter> = LazyLock::new(|| {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("tests"));
    let subscriber = tracing_subscriber::registry().with(layer.with_filter(LevelFilter::DEBUG));
    tracing::subscriber::set_global_default(subscriber).expect("it is the first");
    exporter
});

/// The span of a caller, which starts a trace.
pub(crate) fn order() -> Span {
    LazyLock::force(&SPANS);
    tracing::info_span!("order")
}

/// Sends the measurements of a client to a meter: what a service writes once.
pub(crate) fn onto(
    meter: &Meter,
) -> impl Fn(&Measurement<'_>) + Clone + Send + Sync + 'static + use<> {
    let histogram = |instrument: Instrument| -> Histogram<f64> {
        let builder = meter.f64_histogram(instrument.name()).with_unit(instrument.unit());
        let builder = builder.with_description(instrument.description());
        builder.with_boundaries(instrument.boundaries().to_vec()).build()
    };
    let counter = |instrument: Instrument| -> Counter<f64> {
        let builder = meter.f64_counter(instrument.name()).with_unit(instrument.unit());
        builder.with_description(instrument.description()).build()
    };
    let (took, processed) =
        (histogram(Instrument::OperationDuration), histogram(Instrument::ProcessDuration));
    let (sent, consumed) =
        (counter(Instrument::SentMessages), counter(Instrument::ConsumedMessages));
    move |measurement| {
        let attributes: Vec<KeyValue> = measurement
            .attributes()
            .map(|(name, value)| match value {
                AttributeValue::Number(number) => KeyValue::new(name, number),
                text => KeyValue::new(name, text.to_string()),
            })
            .collect();
        match measurement.instrument() {
            Instrument::OperationDuration => took.record(measurement.value(), &attributes),
            Instrument::ProcessDuration => processed.record(measurement.value(), &attributes),
            Instrument::SentMessages => sent.add(measurement.value(), &attributes),
            Instrument::ConsumedMessages => consumed.add(measurement.value(), &attributes),
            _ => {}
        }
    }
}

/// What a scenario must have reported.
pub(crate) struct Told {
    pub(crate) system: &'static str,
    /// The operation that sends.
    pub(crate) send: &'static str,
    pub(crate) destination: &'static str,
    /// How often handlers ran, failing once.
    pub(crate) runs: usize,
    /// The name of the failure.
    pub(crate) error: &'static str,
    /// The operation by which a worker gets messages.
    pub(crate) receive: &'static str,
    /// The operations by which it settles them, and how often.
    pub(crate) settle: &'static [(&'static str, u64)],
}

fn attribute<'a>(span: &'a SpanData, name: &'static str) -> Option<&'a Value> {
    let key = Key::from_static_str(name);
    span.attributes.iter().find(|known| known.key == key).map(|known| &known.value)
}

fn of_trace(trace: TraceId) -> Vec<SpanData> {
    let spans = SPANS.get_finished_spans().unwrap();
    spans.into_iter().filter(|span| span.span_context.trace_id() == trace).collect()
}

impl Told {
    /// Two messages were sent within `order`, and their handlers ran as children of it, failing once.
    pub(crate) fn check_trace(&self, order: Span) {
        let context = order.context();
        let order_context = context.span().span_context().clone();
        drop((context, order));
        let spans = of_trace(order_context.trace_id());
        let shown = || {
            let names = spans.iter().map(|span| format!("{:?} {}", span.span_kind, span.name));
            names.collect::<Vec<_>>().join(", ")
        };
        let named = |name: &str| -> Vec<&SpanData> {
            spans.iter().filter(|span| span.name == name).collect()
        };
        let ids = |spans: &[&SpanData]| -> BTreeSet<String> {
            let id = |span: &&SpanData| match attribute(span, "messaging.message.id") {
                Some(Value::String(id)) => id.to_string(),
                other => panic!("the id of {} is no text: {other:?}", span.name),
            };
            spans.iter().map(id).collect()
        };

        let sent = named(&format!("{} {}", self.send, self.destination));
        let run = named(&format!("process {}", self.destination));
        assert_eq!((sent.len(), run.len()), (2, self.runs), "{}", shown());
        for (spans, kind, operation_type) in
            [(&sent, SpanKind::Client, "send"), (&run, SpanKind::Consumer, "process")]
        {
            for span in spans {
                assert_eq!(span.span_kind, kind, "{}", span.name);
                assert_eq!(span.parent_span_id, order_context.span_id(), "{}", span.name);
                for (name, expected) in [
                    ("messaging.system", self.system),
                    ("messaging.operation.type", operation_type),
                    ("messaging.destination.name", self.destination),
                    ("server.address", "127.0.0.1"),
                ] {
                    let value = attribute(span, name).map(ToString::to_string);
                    assert_eq!(value.as_deref(), Some(expected), "{name} of {}", span.name);
                }
                for number in ["server.port", "messaging.message.body.size"] {
                    let value = attribute(span, number);
                    let is_known = value.is_some() || self.send.starts_with("SUBMIT");
                    assert!(
                        is_known && !matches!(value, Some(Value::String(_))),
                        "{number}: {value:?}"
                    );
                }
            }
        }
        assert!(run.iter().all(|span| span.parent_span_is_remote), "it came in an envelope");
        let attempt = format!("messaging.{}.message.delivery_attempt", self.system);
        let attempts: BTreeSet<String> = run
            .iter()
            .flat_map(|span| &span.attributes)
            .filter(|one| one.key.as_str() == attempt)
            .map(|one| format!("{:?}", one.value))
            .collect();
        let expected: &[&str] = match (self.system, self.runs) {
            ("gearman", _) => &[],
            (_, 2) => &["I64(1)"],
            _ => &["I64(1)", "I64(2)"],
        };
        assert!(attempts.iter().eq(expected), "{attempts:?}");
        assert_eq!(ids(&sent).len(), 2, "{:?}", ids(&sent));
        assert_eq!(ids(&sent), ids(&run));

        let (failed, done): (Vec<&SpanData>, Vec<&SpanData>) =
            run.iter().partition(|span| matches!(span.status, Status::Error { .. }));
        assert_eq!((failed.len(), done.len()), (1, self.runs - 1));
        assert!(done.iter().all(|span| span.status == Status::Unset));
        assert!(done.iter().all(|span| attribute(span, "error.type").is_none()));
        let error = attribute(failed[0], "error.type").map(ToString::to_string);
        assert_eq!(error.as_deref(), Some(self.error));
        let words = failed[0].events.iter().flat_map(|event| &event.attributes);
        let words: Vec<String> = words.map(|attribute| attribute.value.to_string()).collect();
        assert!(words.iter().any(|word| word == "disk full"), "{words:?}");

        // So is the settlement of a message, within the span of its handling.
        for (operation, count) in self.settle {
            let settled = named(&format!("{operation} {}", self.destination));
            assert_eq!(settled.len() as u64, *count, "{operation}: {}", shown());
            for span in settled {
                assert_eq!(span.span_kind, SpanKind::Client, "{operation}");
                assert!(run.iter().any(|run| run.span_context.span_id() == span.parent_span_id));
                let value = attribute(span, "messaging.operation.type").map(ToString::to_string);
                assert_eq!(value.as_deref(), Some("settle"), "{operation}");
            }
        }

        // What a handler does is also within the trace.
        let work = named("work");
        assert_eq!(work.len(), self.runs, "{}", shown());
        for span in work {
            assert!(run.iter().any(|run| run.span_context.span_id() == span.parent_span_id));
        }
    }
}

/// The meters of one scenario.
pub(crate) struct Meters {
    exporter: InMemoryMetricExporter,
    provider: SdkMeterProvider,
}

impl Meters {
    pub(crate) fn new() -> Self {
        let exporter = InMemoryMetricExporter::default();
        let provider = SdkMeterProvider::builder().with_periodic_exporter(exporter.clone()).build();
        Meters { exporter, provider }
    }

    pub(crate) fn observer(
        &self,
    ) -> impl Fn(&Measurement<'_>) + Clone + Send + Sync + 'static + use<> {
        onto(&self.provider.meter("tests"))
    }

    /// Each series: the instrument, its attributes, how many there were, and for a histogram the number of buckets.
    fn series(&self) -> Vec<(String, BTreeSet<String>, u64, usize)> {
        self.provider.force_flush().unwrap();
        let exported = self.exporter.get_finished_metrics().unwrap();
        let last = exported.last().expect("something was measured");
        let mut series = Vec::new();
        let attributes = |of: &mut dyn Iterator<Item = &KeyValue>| -> BTreeSet<String> {
            of.map(|one| format!("{}={}", one.key, one.value)).collect()
        };
        for metric in last.scope_metrics().flat_map(|scope| scope.metrics()) {
            let name = format!("{} {}", metric.name(), metric.unit());
            match metric.data() {
                AggregatedMetrics::F64(MetricData::Histogram(histogram)) => {
                    for point in histogram.data_points() {
                        let of = attributes(&mut point.attributes());
                        let buckets = point.bucket_counts().count();
                        series.push((name.clone(), of, point.count(), buckets));
                    }
                }
                AggregatedMetrics::F64(MetricData::Sum(sum)) => {
                    assert!(sum.is_monotonic());
                    for point in sum.data_points() {
                        let of = attributes(&mut point.attributes());
                        series.push((name.clone(), of, point.value() as u64, 0));
                    }
                }
                other => panic!("{name} is {other:?}"),
            }
        }
        series
    }

    /// All four instruments have recorded the scenario, with the attributes and the buckets of the conventions.
    pub(crate) fn check(&self, told: &Told, receive: &str) {
        let series = self.series();
        let count = |name: &str, words: &[String]| -> u64 {
            let of = |(known, attributes, ..): &&(String, BTreeSet<String>, u64, usize)| {
                known == name && words.iter().all(|word| attributes.contains(word))
            };
            series.iter().filter(of).map(|(_, _, count, _)| count).sum()
        };
        let about = |operation: &str| {
            vec![
                format!("messaging.system={}", told.system),
                format!("messaging.operation.name={operation}"),
                format!("messaging.destination.name={}", told.destination),
                "server.address=127.0.0.1".to_owned(),
            ]
        };
        let with = |operation: &str, more: &str| [about(operation), vec![more.to_owned()]].concat();
        let (took, processed) =
            ("messaging.client.operation.duration s", "messaging.process.duration s");
        let sent = "messaging.client.sent.messages {message}";
        let consumed = "messaging.client.consumed.messages {message}";
        let runs = told.runs as u64;
        for (name, words, expected) in [
            (took, with(told.send, "messaging.operation.type=send"), 2),
            (sent, about(told.send), 2),
            (consumed, about(receive), runs),
            (processed, about("process"), runs),
            (processed, with("process", &format!("error.type={}", told.error)), 1),
        ] {
            assert_eq!(count(name, &words), expected, "{name} {words:?} in {series:#?}");
        }
        for (operation, expected) in told.settle {
            let words = with(operation, "messaging.operation.type=settle");
            assert_eq!(count(took, &words), *expected, "{operation} in {series:#?}");
        }
        // Some receives return none.
        let words = with(told.receive, "messaging.operation.type=receive");
        assert!(count(took, &words) >= runs, "{words:?} in {series:#?}");
        let histograms = series.iter().filter(|(name, ..)| name.ends_with(" s"));
        assert!(histograms.clone().all(|(.., buckets)| *buckets == 15), "{series:#?}");
    }
}

/// The handler: it fails if the payload says so, unless it has run before.
pub(crate) fn work(payload: &str, is_first: bool) -> Result<(), &'static str> {
    let _work = tracing::info_span!("work").entered();
    match payload {
        "fail" if is_first => Err("disk full"),
        _ => Ok(()),
    }
}

/// One scenario at a time: many threads at once would only make each slower.
pub(crate) static ONE: Mutex<()> = Mutex::new(());
