//! Metrics for monitoring systems: families of labelled samples, in the OpenMetrics format.

use std::iter;

use crate::output::Record;

/// How the value of a family changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Up and down.
    Gauge,
    /// Only up, until the server restarts. `_total` is appended to its name.
    Counter,
}

/// Families of samples, in order of insertion.
#[derive(Debug, Default)]
pub struct Metrics(Vec<Family>);

#[derive(Debug)]
struct Family {
    name: String,
    help: &'static str,
    kind: Kind,
    samples: Vec<Sample>,
}

#[derive(Debug)]
struct Sample {
    labels: Vec<(String, String)>,
    value: f64,
}

impl Metrics {
    /// Adds a sample to the family with this name. Characters that are invalid in a name become `_`.
    pub fn add<'a>(
        &mut self,
        kind: Kind,
        name: &str,
        help: &'static str,
        labels: impl IntoIterator<Item = (&'a str, &'a str)>,
        value: f64,
    ) {
        let may_be = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' };
        let name: String = name.chars().map(may_be).collect();
        let labels = labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
        let sample = Sample { labels: labels.collect(), value };
        match self.0.iter_mut().find(|family| family.name == name) {
            Some(family) => family.samples.push(sample),
            None => self.0.push(Family { name, help, kind, samples: vec![sample] }),
        }
    }

    /// The samples of a family: their labels and values.
    pub(crate) fn samples(&self, family: &str) -> impl Iterator<Item = (&[(String, String)], f64)> {
        let samples = self.family(family).into_iter().flat_map(|family| &family.samples);
        samples.map(|sample| (&*sample.labels, sample.value))
    }

    /// The value of this family's sample without labels.
    pub(crate) fn value(&self, family: &str) -> Option<f64> {
        self.samples(family).find(|(labels, _)| labels.is_empty()).map(|(_, value)| value)
    }

    /// How the values of a family change.
    pub(crate) fn kind(&self, family: &str) -> Option<Kind> {
        self.family(family).map(|family| family.kind)
    }

    /// The label's text in the first family whose name ends with `end`.
    pub(crate) fn label(&self, end: &str, key: &str) -> Option<&str> {
        let samples = &self.0.iter().find(|family| family.name.ends_with(end))?.samples;
        let labels = samples.iter().flat_map(|sample| &sample.labels);
        labels.filter(|(name, _)| name == key).map(|(_, text)| text.as_str()).next()
    }

    /// The server's own id, which changes with a restart, if it has one.
    pub(crate) fn server_id(&self) -> Option<&str> {
        self.label("_info", "id").filter(|id| !id.is_empty())
    }

    /// The value of the first family whose name ends with `end`.
    pub(crate) fn value_ending(&self, end: &str) -> Option<f64> {
        let family = self.0.iter().find(|family| family.name.ends_with(end))?;
        family.samples.first().map(|sample| sample.value)
    }

    /// Whether the server has restarted since: one of its counters has decreased.
    pub(crate) fn started_after(&self, before: &Metrics) -> bool {
        let counters = self.0.iter().filter(|family| family.kind == Kind::Counter);
        counters.map(|family| family.name.as_str()).any(|name| {
            self.value(name).zip(before.value(name)).is_some_and(|(now, then)| now < then)
        })
    }

    fn family(&self, name: &str) -> Option<&Family> {
        self.0.iter().find(|family| family.name == name)
    }

    /// Adds all families of another server, with this label.
    pub(super) fn merge(&mut self, other: Metrics, label: (&str, &str)) {
        for Family { name, help, kind, samples } in other.0 {
            for Sample { labels, value } in samples {
                let labels = labels.iter().map(|(key, text)| (&**key, &**text));
                self.add(kind, &name, help, iter::once(label).chain(labels), value);
            }
        }
    }

    /// A record for each sample.
    pub(super) fn records(&self) -> impl Iterator<Item = Record> {
        self.0.iter().flat_map(|Family { name, kind, samples, .. }| {
            let end = if *kind == Kind::Counter { "_total" } else { "" };
            samples.iter().map(move |Sample { labels, value }| {
                let mut record = Record::new().with("metric", format!("{name}{end}"));
                for (key, text) in labels {
                    record.push(key.clone(), text.as_str());
                }
                record.with("value", *value)
            })
        })
    }

    /// The text for scrapes.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for Family { name, help, kind, samples } in &self.0 {
            let (word, end) = match kind {
                Kind::Gauge => ("gauge", ""),
                Kind::Counter => ("counter", "_total"),
            };
            text.push_str(&format!("# HELP {name} {help}\n# TYPE {name} {word}\n"));
            for Sample { labels, value } in samples {
                let labels =
                    labels.iter().map(|(key, text)| format!("{key}=\"{}\"", escaped(text)));
                let labels = labels.collect::<Vec<_>>().join(",");
                let labels = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
                text.push_str(&format!("{name}{end}{labels} {value:?}\n"));
            }
        }
        text.push_str("# EOF\n");
        text
    }
}

/// The text of a label.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped_and_families_are_together() {
        let mut metrics = Metrics::default();
        let hostile = "a\"b\\c\nd{}";
        metrics.add(Kind::Gauge, "x-jobs", "Jobs", [("tube", hostile)], 1.0);
        metrics.add(Kind::Counter, "x_puts", "Puts", [], 2.0);
        metrics.add(Kind::Gauge, "x_jobs", "Jobs", [("tube", "b")], 3.5);
        let mut all = Metrics::default();
        all.merge(metrics, ("server", "one:1"));
        assert_eq!(
            all.text(),
            "# HELP x_jobs Jobs\n# TYPE x_jobs gauge\n\
             x_jobs{server=\"one:1\",tube=\"a\\\"b\\\\c\\nd{}\"} 1.0\n\
             x_jobs{server=\"one:1\",tube=\"b\"} 3.5\n\
             # HELP x_puts Puts\n# TYPE x_puts counter\nx_puts_total{server=\"one:1\"} 2.0\n# EOF\n"
        );
    }
}
