//! `doctor`: the source of every setting, the kind of each server, problems and remedies.

use std::fs;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Map, Value};

use super::in_force;
use crate::config::keys::{self, ADDRESS, Key, TLS_INSECURE};
use crate::context::{Context, Tool};
use crate::error::{CliError, Exit};
use crate::help::topics;
use crate::link::{Link, PATIENCE};
use crate::output::{Column, Field, Record, Shape};
use crate::system::at_once::at_once;
use crate::system::env::Setting;
use crate::text::units;

/// The end of `doctor --help`, with the tool's words.
pub(crate) const HELP: &str = "\
Checks the configuration file, the effective settings and where each came from, the files they name, and unknown
{prefix}_* variables, and asks every server what it is and supports. It changes nothing. STATUS is ok, warning or
failed; the exit code is that of the most severe failure, and 0 if there are only warnings. In JSON, a server's
answer is under `server`.

Examples:
  {name} doctor
  {name} doctor -o json
  {name} --context prod doctor";

/// Arguments of `doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {}

static FINDINGS: Shape = Shape::sentences(
    "subject",
    &[
        Column::new("status", "STATUS"),
        Column::new("subject", "SUBJECT"),
        Column::new("finding", "FINDING"),
        Column::new("next", "NEXT STEP"),
    ],
);

/// The findings so far, and the worst severity.
struct Findings {
    rows: Vec<Record>,
    worst: Exit,
}

impl Findings {
    fn new() -> Self {
        Self { rows: Vec::new(), worst: Exit::Done }
    }

    fn good(&mut self, subject: &str, finding: &str) {
        self.rows.push(row("ok", subject, finding));
    }

    fn warning(&mut self, subject: &str, finding: &str, next: &str) {
        self.rows.push(row("warning", subject, finding).with("next", next));
    }

    fn failure(&mut self, subject: &str, error: &CliError) {
        let next = error.hints.join("; ");
        self.rows.push(row("failed", subject, &error.message).with("next", next));
        self.worst = self.worst.worse(error.exit);
    }

    fn add(&mut self, other: Self) {
        self.rows.extend(other.rows);
        self.worst = self.worst.worse(other.worst);
    }
}

fn row(status: &'static str, subject: &str, finding: &str) -> Record {
    Record::new().with("status", status).with("subject", subject).with("finding", finding)
}

/// Runs `doctor`.
///
/// # Errors
/// Write failures. Problems are the result, and the worst of them determines the exit code.
pub fn run<T: Tool>(context: &mut Context<T>, _: DoctorArgs) -> Result<Exit, CliError> {
    context.link.dialer_mut().default_timeout(PATIENCE);
    let mut findings = Findings::new();
    about_file(context, &mut findings);
    about_settings(context, &mut findings);
    about_variables(context, &mut findings);
    match context.link.each() {
        Ok(servers) => {
            let about = |(address, link): &mut (String, T::Link)| about_server::<T>(address, link);
            at_once(servers, about).into_iter().for_each(|found| findings.add(found));
        }
        Err(error) => findings.failure(ADDRESS.name, &error),
    }
    context.out.list(&FINDINGS)?.all(findings.rows)?;
    Ok(findings.worst)
}

fn about_file<T: Tool>(context: &Context<T>, findings: &mut Findings) {
    const SUBJECT: &str = "configuration";
    let settings = context.settings();
    if let Some(error) = settings.trouble() {
        return findings.failure(SUBJECT, error);
    }
    match settings.place() {
        None => findings.good(SUBJECT, "no file: there is no home directory"),
        Some(place) if place.path.exists() => {
            let count = settings.config().contexts.len() as u64;
            let text = format!("{}, {}", place.shown(), units::count(count, "context"));
            findings.good(SUBJECT, &text);
        }
        Some(place) => findings.good(SUBJECT, &format!("no file: {}", place.shown())),
    }
}

fn about_settings<T: Tool>(context: &mut Context<T>, findings: &mut Findings) {
    // Includes the in-memory server, and servers that a session switched to.
    let dialer = context.link.dialer_mut();
    let address = dialer.address().map(|address| format!("{address} ({})", dialer.source()));
    let (program, settings) = (&T::PROGRAM, context.settings());
    let rows = match in_force(settings, program) {
        Ok(rows) => rows,
        Err(error) => return findings.failure("settings", &error),
    };
    for row in rows {
        let text = |key: &str| match row.get(key) {
            Some(Field::Value(Value::String(text))) => text.clone(),
            _ => String::new(),
        };
        let (subject, overrides) = (text("setting"), text("overrides"));
        let finding = match &address {
            Ok(address) if subject == ADDRESS.name => address.clone(),
            _ => format!("{} ({})", text("value"), text("source")),
        };
        let is_surprise = subject == ADDRESS.name
            && text("source").starts_with("environment")
            && overrides.starts_with("context");
        if is_surprise {
            let next = "unset the variable, or --context NAME, which takes precedence";
            findings.warning(&subject, &finding, next);
        } else {
            findings.good(&subject, &finding);
        }
    }
    for key in keys::KEYS.iter().copied().filter(|key| key.is_file()) {
        if let Ok(Some(setting)) = settings.text(key) {
            about_path(key, &setting, findings);
        }
    }
    if settings.is_on(TLS_INSECURE, false) {
        let finding = "server certificates are not verified";
        findings.warning(TLS_INSECURE.name, finding, "the CA certificate, with tls-ca");
    }
}

/// Checks a file named by a setting.
fn about_path(key: Key, setting: &Setting<String>, findings: &mut Findings) {
    let path = &setting.value;
    match fs::File::open(path).and_then(|file| file.metadata()) {
        Err(error) => {
            let why = format!("{path} cannot be read: {error}");
            let hint = format!("another file; this one came from: {}", setting.origin());
            findings.failure(key.name, &CliError::config(why).hint(hint));
        }
        #[cfg(unix)]
        Ok(about) if key == keys::TLS_KEY => {
            use std::os::unix::fs::PermissionsExt as _;
            if about.permissions().mode() & 0o044 != 0 {
                let finding = format!("other users can read {path}");
                findings.warning(key.name, &finding, &format!("chmod 600 {path}"));
            }
        }
        Ok(_) => {}
    }
}

/// Reports unknown variables with the tool's prefix.
fn about_variables<T: Tool>(context: &Context<T>, findings: &mut Findings) {
    let program = &T::PROGRAM;
    let prefix = format!("{}_", program.prefix);
    let rows = topics::environment(program);
    let names = rows.iter().flat_map(|(names, _)| names.split(", "));
    let known: Vec<&str> = names.chain(program.servers.variables.iter().copied()).collect();
    for name in context.settings().environment.names() {
        if name.starts_with(&prefix) && !known.contains(&name.as_str()) {
            let finding = format!("{} does not use this variable", program.name);
            let near = known.iter().filter(|known| known.starts_with(&prefix));
            let near: Vec<&str> = near.copied().collect();
            findings.warning(&name, &finding, &format!("one of {}", near.join(", ")));
        }
    }
}

fn about_server<T: Tool>(address: &str, link: &mut T::Link) -> Findings {
    let mut findings = Findings::new();
    let asked = link.connect().and_then(|()| {
        let took = link.ping(1)?.took;
        let start = Instant::now();
        let diagnosis = T::diagnose(link)?;
        Ok((took, start.elapsed(), diagnosis))
    });
    let (took, asking, diagnosis) = match asked {
        Ok(found) => found,
        Err(error) => {
            findings.failure(address, &error);
            return findings;
        }
    };
    let ms = units::milliseconds(took);
    let text = format!("{} answers in {ms} ms: {}", T::PROGRAM.servers.kind, diagnosis.text());
    let facts: Map<String, Value> =
        diagnosis.facts.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let row = row("ok", address, &text).with("duration_ms", ms).with("facts", Value::Object(facts));
    findings.rows.push(row);
    for (what, next) in &diagnosis.warnings {
        findings.warning(address, what, next);
    }
    let slowest = if diagnosis.is_partial { took } else { took.max(asking) };
    if slowest > SLOW {
        let finding = format!("it took {} to answer", units::show_duration(slowest));
        findings.warning(address, &finding, &format!("{} ping --count 10", T::PROGRAM.name));
    }
    findings
}

/// Slower than a user would expect.
const SLOW: Duration = Duration::from_secs(1);
