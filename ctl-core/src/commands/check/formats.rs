//! Reports of a check for programs other than Nagios-like monitoring systems.

use std::io;

use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};

use super::report::{Judged, NAMED, Report, Title};
use crate::commands::exporter::{Kind, Metrics};
use crate::rules::thresholds::Verdict;
use crate::text::escape;

impl Report {
    /// Gauges: the verdict, and every figure in base units.
    pub(super) fn prometheus(&self, tool: &str, title: Title<'_>) -> String {
        let mut metrics = Metrics::default();
        let check = ("check", title.name);
        let help = "The verdict: 0 is OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN.";
        let code = f64::from(self.verdict.exit().code());
        metrics.add(Kind::Gauge, &format!("{tool}_check_status"), help, [check], code);
        for Judged { metric, .. } in self.reported() {
            let (end, value) = match metric.unit {
                "ms" => ("_seconds", metric.value / 1000.0),
                "s" => ("_seconds", metric.value),
                _ => ("", metric.value),
            };
            let name = format!("{tool}_check_{}{end}", metric.name);
            let subject = metric.subject.as_deref().map(|subject| (title.noun, subject));
            let server = metric.server.as_deref().map(|server| ("server", server));
            let labels = [Some(check), subject, server].into_iter().flatten();
            metrics.add(Kind::Gauge, &name, "A figure of the check.", labels, value);
        }
        metrics.text()
    }

    /// Workflow commands, which become annotations: one for each alert, the worst first, and the verdict.
    pub(super) fn github(&self, headline: &str) -> String {
        let mut alerts: Vec<&Judged> = self.judged.iter().filter(|one| one.is_alert()).collect();
        alerts.sort_by_key(|alert| std::cmp::Reverse(alert.verdict));
        let annotation = |verdict: Verdict, text: &str| {
            let word = match verdict {
                Verdict::Ok => "notice",
                Verdict::Warning => "warning",
                Verdict::Critical | Verdict::Unknown => "error",
            };
            // Characters that would end the command, or begin an escape.
            let text = escape::line(text).replace('%', "%25");
            format!("::{word}::{text}\n")
        };
        let mut text = annotation(self.verdict, headline);
        for alert in alerts.into_iter().take(NAMED) {
            text.push_str(&annotation(alert.verdict, &alert.whole_reason()));
        }
        text
    }

    /// A suite with a case for the check and one for each figure; for many subjects, only for those that thresholds
    /// name.
    pub(super) fn junit(&self, tool: &str, title: Title<'_>) -> io::Result<String> {
        let cases: Vec<&Judged> =
            self.reported().filter(|one| !title.many || one.is_asked_for()).collect();
        let failures = cases.iter().filter(|one| one.is_alert()).count();
        let has_failed = self.verdict != Verdict::Ok;
        let suite = format!("{tool} check {}", escape::line(title.name));
        let counts = [cases.len() + 1, failures + usize::from(has_failed)].map(|n| n.to_string());
        let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
        writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
        let element = writer.create_element("testsuites");
        element.write_inner_content(|writer| {
            let [tests, failures] = &counts;
            let attributes = [("name", &*suite), ("tests", tests), ("failures", failures)];
            let element = writer.create_element("testsuite").with_attributes(attributes);
            element.write_inner_content(|writer| {
                let failure = has_failed.then_some((self.verdict, self.summary.as_str()));
                case(writer, &suite, "verdict", failure)?;
                for one in &cases {
                    let place = one.metric.place();
                    let place = escape::line(place.as_deref().unwrap_or(title.name));
                    let class = format!("{suite}.{place}");
                    let reason = one.whole_reason();
                    let failure = one.is_alert().then_some((one.verdict, reason.as_str()));
                    case(writer, &class, one.metric.name, failure)?;
                }
                Ok(())
            })?;
            Ok(())
        })?;
        let mut text = String::from_utf8(writer.into_inner()).map_err(io::Error::other)?;
        text.push('\n');
        Ok(text)
    }
}

fn case(
    writer: &mut Writer<Vec<u8>>,
    class: &str,
    name: &str,
    failure: Option<(Verdict, &str)>,
) -> io::Result<()> {
    let case = writer.create_element("testcase");
    let case = case.with_attributes([("classname", class), ("name", name)]);
    let Some((verdict, why)) = failure else { return case.write_empty().map(drop) };
    // XML has no way to write control characters.
    let why = escape::line(why);
    case.write_inner_content(|writer| {
        let failure = writer.create_element("failure");
        let attributes = [("type", verdict.word()), ("message", &*why)];
        failure.with_attributes(attributes).write_text_content(BytesText::new(&why)).map(drop)
    })
    .map(drop)
}

#[cfg(test)]
mod tests {
    use quick_xml::Reader;

    use super::super::measured::Metric;
    use super::super::report::Missing;
    use super::*;

    const HOSTILE: &str = "a\"b<&>\n::error::x%0A\u{1b}[2J";

    fn report() -> (Report, Title<'static>) {
        let judged = |name, value, unit, verdict: Verdict| Judged {
            metric: Metric::new(name, value, unit).of(HOSTILE),
            warning: Some("1".to_owned()),
            critical: None,
            verdict,
            problem: None,
        };
        let judged = vec![
            judged("ready", 12.0, "", Verdict::Warning),
            judged("rtt", 2.5, "ms", Verdict::Ok),
        ];
        let title = Title { name: HOSTILE, noun: "queue", many: false, missing: Missing::Ok };
        (Report::of(title, judged, None), title)
    }

    #[test]
    fn no_name_ends_a_line_or_an_element() {
        let (report, title) = report();
        let github = report.github("TOOL WARNING - x");
        let lines: Vec<&str> = github.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].starts_with("::warning::TOOL WARNING") && lines[1].contains("%250A"));
        assert!(!github.contains('\u{1b}'));
        let junit = report.junit("tool", title).unwrap();
        assert!(!junit.contains('\u{1b}'));
        let mut reader = Reader::from_str(&junit);
        let (mut cases, mut failures) = (0, 0);
        loop {
            match reader.read_event().unwrap() {
                Event::Start(element) | Event::Empty(element) => {
                    element.attributes().for_each(|attribute| drop(attribute.unwrap()));
                    cases += usize::from(element.name().as_ref() == "testcase");
                    failures += usize::from(element.name().as_ref() == "failure");
                }
                Event::Eof => break,
                _ => {}
            }
        }
        assert_eq!((cases, failures), (3, 2), "{junit}");
        let metrics = report.prometheus("tool", title);
        let rtt = metrics.lines().find(|line| line.starts_with("tool_check_rtt_seconds{")).unwrap();
        assert!(rtt.ends_with(" 0.0025"), "{rtt}");
        assert!(metrics.contains("\ntool_check_status{check=\"a\\\"b<&>\\n"), "{metrics}");
    }
}
