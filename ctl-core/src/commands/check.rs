//! Checks for monitoring and CI: figures, thresholds, verdicts, and reports about them.

mod measured;
mod report;
mod several;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

pub use self::measured::{Measured, Metric, Problem, Stated};
pub use self::report::Subject;
use self::report::{Judged, Report};
use self::several::measure_all;
use crate::context::{Context, Tool};
use crate::error::{CliError, Exit};
use crate::link::{Link as _, PATIENCE};
use crate::output::{Format, Output};
use crate::program::Program;
use crate::rules::thresholds::{self, Range, Threshold, Verdict};

/// Flags of every check.
#[derive(Debug, Clone, Args)]
pub struct CheckFlags {
    /// Warn if this holds, e.g. 'rtt>50ms', or outside a range, rtt=50; repeatable
    #[arg(short, long, global = true, value_name = thresholds::VALUE)]
    warning: Vec<Threshold>,

    /// The same for critical; repeatable
    #[arg(short, long, global = true, value_name = thresholds::VALUE)]
    critical: Vec<Threshold>,

    /// Verdict on a timeout
    #[arg(long, global = true, value_name = "VERDICT", default_value = "critical", value_parser = on_timeout())]
    on_timeout: Verdict,

    /// Critical if it does not exist, or nothing matches
    #[arg(long, global = true)]
    must_exist: bool,
}

/// The verdicts on a timeout.
fn on_timeout() -> impl TypedValueParser<Value = Verdict> {
    let critical = PossibleValue::new("critical").help("Exit 2");
    let unknown = PossibleValue::new("unknown").help("Exit 3");
    PossibleValuesParser::new([critical, unknown])
        .map(|word| if word == "unknown" { Verdict::Unknown } else { Verdict::Critical })
}

/// Measures the servers, and judges and reports what it found. `own` is the connection to a single server.
///
/// # Errors
/// Only write failures.
pub fn run<T: Tool>(
    tool: &mut Context<T>,
    flags: &CheckFlags,
    mut subject: Subject,
    own: fn(&mut T::Link) -> &mut T::Link,
    measure: impl Fn(&mut T::Link) -> Measured + Sync,
) -> Result<Exit, CliError> {
    tool.link.dialer_mut().default_timeout(PATIENCE);
    let instead = format!("{} check server changes nothing", T::PROGRAM.name);
    let allowed = match subject.changes {
        true => tool.refuse_dry_run("check roundtrip", &instead),
        false => Ok(()),
    };
    let measured = match allowed {
        Ok(()) => {
            let servers = if subject.of_any { Ok(Vec::new()) } else { tool.link.each() };
            let (is_several, measured) = measure_all(servers, own(&mut tool.link), measure);
            subject.many |= is_several;
            measured
        }
        Err(error) => error.into(),
    };
    conclude(&mut tool.out, &T::PROGRAM, flags, &subject, measured)
}

/// Judges what was measured, writes the report and returns the exit code. Failures become verdicts; figures that
/// arrived anyway are reported with them.
///
/// # Errors
/// Only write failures.
fn conclude(
    out: &mut Output,
    program: &Program,
    flags: &CheckFlags,
    subject: &Subject,
    measured: Measured,
) -> Result<Exit, CliError> {
    let Measured { metrics, failure, absent, stated, known } = measured;
    let judge = |metrics: Vec<Metric>| -> Vec<Judged> {
        metrics.into_iter().map(|metric| flags.judge(metric)).collect()
    };
    let without_figures = |error| (error, Vec::new());
    let judged = match failure {
        None if metrics.is_empty() && absent.is_some() => {
            flags.require(&known).map(|()| Vec::new()).map_err(without_figures)
        }
        None => flags.require(&metrics).map(|()| judge(metrics)).map_err(without_figures),
        Some(error) => Err((error, judge(metrics))),
    };
    let report = match judged {
        Ok(judged) => {
            let verdict = if flags.must_exist { Verdict::Critical } else { Verdict::Ok };
            let absent = absent.map(|text| Stated { text, verdict, figures: String::new() });
            Report::of(subject, judged, stated.or(absent).unwrap_or_default())
        }
        Err((error, judged)) => Report::failed(&error, flags.on_timeout, judged),
    };
    let headline = report.verdict.headline(program, &report.summary);
    if out.style.format.is_json() {
        out.style.format = Format::Json;
        out.document(&report.json())?;
    } else if out.style.format.is_for_people() {
        out.text(&report.text(&headline, out.width()))?;
    } else {
        out.text(&report.nagios(&headline, subject.many))?;
    }
    out.flush()?;
    Ok(report.verdict.exit())
}

impl CheckFlags {
    /// Whether a threshold names this metric, which costs more to measure than the others.
    pub fn ask_for(&self, metric: &str) -> bool {
        self.warning.iter().chain(&self.critical).any(|threshold| threshold.metric == metric)
    }

    /// Refuses thresholds of metrics that do not exist.
    fn require(&self, metrics: &[Metric]) -> Result<(), CliError> {
        for threshold in self.warning.iter().chain(&self.critical) {
            let found = metrics.iter().find(|metric| metric.name == threshold.metric);
            if let Some(metric) = found
                && threshold.range.in_unit(metric.unit).is_none()
            {
                let (name, range) = (metric.name, &threshold.range);
                let text = format!("`{range}` is a time range, but {name} is a number");
                return Err(CliError::usage(text).hint(format!("{name}=10")));
            }
            if found.is_none() {
                let mut known: Vec<&str> = metrics.iter().map(|metric| metric.name).collect();
                known.sort_unstable();
                known.dedup();
                let text = format!("there is no metric `{}`", threshold.metric);
                let hint = format!("metrics: {}", known.join(", "));
                return Err(CliError::usage(text).hint(hint));
            }
        }
        Ok(())
    }

    fn judge(&self, metric: Metric) -> Judged {
        let find = |thresholds: &[Threshold]| {
            let of_metric = |threshold: &&Threshold| threshold.metric == metric.name;
            thresholds.iter().rev().find(of_metric)?.range.in_unit(metric.unit)
        };
        let (warning, critical) = (find(&self.warning), find(&self.critical));
        let alerts =
            |range: &Option<Range>, value| range.as_ref().is_some_and(|range| range.alerts(value));
        let at = |value| match () {
            () if alerts(&critical, value) => Verdict::Critical,
            () if alerts(&warning, value) => Verdict::Warning,
            () => Verdict::Ok,
        };
        let by_range = match (at(metric.value), metric.most.map(at)) {
            (least, Some(most)) if least != most => Verdict::Unknown,
            (least, _) => least,
        };
        let is_unjudged = |problem: &Problem| match problem {
            Problem::Unattended(_) | Problem::Untold(_) => critical.is_none(),
            Problem::Unusual(_) => critical.is_none() && warning.is_none(),
        };
        let problem = metric.problem.filter(is_unjudged).map(|problem| match problem {
            Problem::Unattended(why) => (Verdict::Critical, why),
            Problem::Untold(why) => (Verdict::Unknown, why),
            Problem::Unusual(why) => (Verdict::Warning, why),
        });
        let verdict = problem.map_or(by_range, |(verdict, _)| verdict.max(by_range));
        let text = |range: Option<Range>| range.map(|range| range.to_string());
        let problem = problem.map(|(_, why)| why);
        Judged { warning: text(warning), critical: text(critical), verdict, problem, metric }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::output::{Memory, Style};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: CheckFlags,
    }

    use crate::program::TOOL as PROGRAM;

    #[test]
    fn reports_available_figures_beside_errors() {
        for (line, exit, word) in [
            (&["check"][..], 2, "CRITICAL"),
            (&["check", "--on-timeout", "unknown"], 3, "UNKNOWN"),
            (&["check", "--on-timeout", "unknown", "-c", "rtt=1"], 2, "CRITICAL"),
            // It cannot be known whether there is a metric of this name.
            (&["check", "--on-timeout", "unknown", "-c", "queued=1"], 3, "UNKNOWN"),
        ] {
            let flags = Line::parse_from(line).flags;
            let failure = Some(CliError::timeout("status: no reply"));
            let metrics = vec![Metric::new("rtt", 5.0, "ms").usual()];
            let measured = Measured { metrics, failure, ..Measured::default() };
            let sink = Memory::default();
            let mut out = Output::to(Box::new(sink.clone()), Style::default());
            let subject = Subject::one("queue", "server");
            let verdict = conclude(&mut out, &PROGRAM, &flags, &subject, measured).unwrap();
            let text = String::from_utf8(sink.bytes()).unwrap();
            assert_eq!(verdict.code(), exit, "{line:?}: {text}");
            assert!(
                text.starts_with(&format!("TOOL {word} - TIMEOUT: status: no reply")),
                "{text}"
            );
            assert!(text.contains("'rtt'=5ms;"), "{text}");
        }
    }
}
