//! Which metrics thresholds can name, and how a threshold that is being typed can continue.

/// The metrics of one kind of check.
#[derive(Debug, Clone, Copy)]
pub struct Measurable {
    /// The subcommand of `check`.
    pub what: &'static str,
    /// Its metrics, in groups that kinds of checks share.
    pub groups: &'static [&'static [Named]],
}

/// The name and the unit of a metric.
pub type Named = (&'static str, &'static str);

impl Measurable {
    /// The names and units of its metrics.
    pub fn metrics(&self) -> impl Iterator<Item = Named> + use<> {
        self.groups.iter().copied().flatten().copied()
    }
}

/// Continuations of what has been typed, from its beginning, each with a description: the names of metrics, then the
/// characters that a range can start with. Without the kind of check, the metrics of all kinds are offered.
pub(crate) fn continued(checks: &[Measurable], what: &str, typed: &str) -> Vec<(String, String)> {
    let is_known = checks.iter().any(|check| check.what == what);
    let checks = checks.iter().filter(|check| check.what == what || !is_known);
    let mut metrics: Vec<Named> = checks.flat_map(Measurable::metrics).collect();
    metrics.sort_unstable();
    metrics.dedup_by_key(|(name, _)| *name);
    if let Some(name) = typed.strip_suffix('=')
        && metrics.iter().any(|(metric, _)| *metric == name)
    {
        return FORMS.map(|(form, about)| (format!("{typed}{form}"), about.to_owned())).into();
    }
    let named = metrics.into_iter().map(|(name, unit)| (format!("{name}="), described(unit)));
    named.filter(|(name, _)| *name != typed && name.starts_with(typed)).collect()
}

/// How a range can start, besides with a number.
const FORMS: [(&str, &str); 2] =
    [("@", "alert inside the range instead of outside"), ("~:", "without a lower limit")];

fn described(unit: &str) -> String {
    let value = match unit {
        "ms" => "milliseconds, or a time such as 500ms",
        "s" => "seconds, or a time such as 10m",
        _ => "number",
    };
    format!("{value}; ranges: 10, 10:, ~:10, 10:20, @10:20")
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHECKS: &[Measurable] = &[
        Measurable {
            what: "server",
            groups: &[&[("ready", ""), ("uptime", "s")], &[("rtt", "ms")]],
        },
        Measurable { what: "tube", groups: &[&[("ready", ""), ("reserved", "")]] },
    ];

    fn on(what: &str, typed: &str) -> String {
        let words = continued(CHECKS, what, typed).into_iter().map(|(word, _)| word);
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn metrics_are_those_of_the_check() {
        assert_eq!(on("server", ""), "ready= rtt= uptime=");
        assert_eq!(on("tube", "re"), "ready= reserved=");
        assert_eq!(on("check", ""), "ready= reserved= rtt= uptime=");
        assert_eq!(on("tube", "up"), "");
    }

    #[test]
    fn a_range_can_start_with_more_than_a_number() {
        assert_eq!(on("tube", "ready="), "ready=@ ready=~:");
        for typed in ["ready=1", "ready=@", "ready=~:", "nonsense=", "="] {
            assert_eq!(on("tube", typed), "", "{typed}");
        }
    }

    #[test]
    fn descriptions_name_the_unit() {
        let about = |typed| continued(CHECKS, "server", typed).remove(0).1;
        assert!(about("rt").starts_with("milliseconds"));
        assert!(about("up").starts_with("seconds"));
        assert!(about("rea").starts_with("number"));
    }
}
