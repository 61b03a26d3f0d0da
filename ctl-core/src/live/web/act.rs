//! Runs the tool's own commands for the page.

use std::net::SocketAddr;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Field, Kind, Site};
use crate::commands::exporter::Collector;
use crate::error::{CliError, Exit};
use crate::live::own::{Own, name};
use crate::output::Format;
use crate::output::messages::Messages;
use crate::repl::guest::Interactive;
use crate::system::signals::Interrupts;
use crate::text::{escape, units};

/// Maximum length of a field's value in bytes, except for a body.
const LONGEST: usize = 1024;
/// Number of characters that the log has of a result.
const LONGEST_RESULT: usize = 200;

/// Runs commands for the page.
pub(super) struct Acts<T: Interactive> {
    pub(super) site: &'static Site,
    pub(super) write: bool,
    pub(super) own: Own<T>,
    /// Where actions are reported.
    pub(super) messages: Messages,
    /// Queries the servers for their own ids.
    pub(super) collector: Arc<Collector<T>>,
}

/// A request of the page.
#[derive(Debug, Deserialize)]
pub(super) struct Asked {
    /// The server's address.
    server: String,
    /// The name of a view or an action.
    name: String,
    /// The displayed queue.
    #[serde(default)]
    queue: String,
    /// The values of its fields.
    #[serde(default)]
    values: Map<String, Value>,
    /// The server's own id when it gave the ids among these values, if it has one.
    server_id: Option<String>,
    /// The confirmation that the user has typed; `None` to see what would be done.
    confirm: Option<String>,
}

/// The result or the error.
type Outcome = Result<Value, CliError>;

impl<T: Interactive> Acts<T> {
    /// The rows of a view.
    pub(super) fn view(&self, asked: &Asked, interrupts: &Interrupts) -> Outcome {
        let mut all = self.site.views.iter().chain(self.site.server);
        let view = all.find(|view| view.name == asked.name).ok_or_else(unknown)?;
        let (line, _) = line(view.line, view.fields, asked)?;
        self.own
            .run(&asked.server, Format::Json, (line, None), interrupts)
            .map(|came| came.document())
    }

    /// Executes the action for a client, or reports what it would do.
    pub(super) fn act(&self, asked: &Asked, peer: SocketAddr, interrupts: &Interrupts) -> Outcome {
        if !self.write {
            return Err(CliError::usage("this page is read-only").hint("web --write"));
        }
        let mut all = self.site.actions.iter();
        let action = all.find(|action| action.name == asked.name).ok_or_else(unknown)?;
        let (mut line, body) = line(action.line, action.fields, asked)?;
        match &asked.confirm {
            None if action.asks => line.insert(1, "--dry-run".to_owned()),
            None => {}
            Some(typed) => {
                line.insert(1, "--yes".to_owned());
                if !typed.is_empty() {
                    line.insert(1, format!("--confirm={typed}"));
                }
            }
        }
        let is_done = asked.confirm.is_some() || !action.asks;
        let mut said = escape::line(&line.join(" ")).into_owned();
        if let Some(body) = &body {
            said.push_str(&format!(", a body of {}", units::count(body.len() as u64, "byte")));
        }
        let run = |()| self.own.run(&asked.server, Format::Json, (line, body), interrupts);
        let outcome = self.refuse_old_ids(asked).and_then(run);
        if is_done {
            let result = match &outcome {
                Ok(came) if came.exit == Exit::Done => came.line(),
                Ok(came) => format!("exit {}: {}", came.exit.code(), came.line()),
                Err(error) => format!("exit {}: {}", error.exit.code(), error.message),
            };
            let (server, result) = (escape::line(&asked.server), shortened(&result));
            self.messages.note(format!("{peer} ran at {server}: {said}: {result}"));
        }
        outcome.map(|came| came.document())
    }

    /// The page notices a restart later than a user may act.
    fn refuse_old_ids(&self, asked: &Asked) -> Result<(), CliError> {
        let Some(before) = &asked.server_id else { return Ok(()) };
        let place = self.collector.addresses().position(|address| address == asked.server);
        let Some(place) = place else { return Ok(()) };
        let look = || self.collector.look_at(place);
        // The connection of the last look may have been lost since.
        let is_lost = |error: &CliError| error.exit == Exit::Unavailable;
        let look = look().or_else(|error| if is_lost(&error) { look() } else { Err(error) })?;
        if look.metrics.server_id() == Some(before) {
            return Ok(());
        }
        let why = "the server restarted, and ids may name other jobs now: choose again";
        Err(CliError::not_found(why))
    }
}

/// The beginning of a result, for a line of the log.
fn shortened(result: &str) -> String {
    let text = escape::line(result);
    match text.char_indices().nth(LONGEST_RESULT) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.into_owned(),
    }
}

fn unknown() -> CliError {
    CliError::usage("unknown action")
}

/// The command line, and its stdin.
fn line(
    words: &[&str],
    fields: &[Field],
    asked: &Asked,
) -> Result<(Vec<String>, Option<Vec<u8>>), CliError> {
    let mut values = vec![("queue", name(&asked.queue, "queue")?)];
    let mut body = None;
    for field in fields {
        let value = match asked.values.get(field.name) {
            None | Some(Value::Null) => field.default.to_owned(),
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            Some(_) => return Err(invalid(field, "it is not text")),
        };
        if let Kind::Body = field.kind {
            body = Some(value.into_bytes());
        } else {
            values.push((field.name, valid(field, value)?));
        }
    }
    let mut line = Vec::new();
    for word in words {
        let field = word.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
        match field.map(|(field, _)| field) {
            None => line.push((*word).to_owned()),
            Some(field) => {
                let value = values.iter().find(|(name, _)| *name == field);
                let value = value.map_or("", |(_, value)| value.as_str());
                if word.starts_with('{') && value.starts_with('-') {
                    return Err(CliError::usage(format!("{field} is not valid: it starts with -")));
                }
                if !value.is_empty() {
                    line.push(word.replace(&format!("{{{field}}}"), value));
                }
            }
        }
    }
    Ok((line, body))
}

fn valid(field: &Field, value: String) -> Result<String, CliError> {
    if value.len() > LONGEST {
        return Err(invalid(field, "it is too long"));
    }
    match field.kind {
        Kind::Number if !value.bytes().all(|byte| byte.is_ascii_digit()) => {
            Err(invalid(field, "it must consist of digits"))
        }
        Kind::Word(words) if !value.is_empty() && !words.contains(&value.as_str()) => {
            Err(invalid(field, "it must be one of its keywords"))
        }
        Kind::Name => name(&value, field.name),
        _ if value.chars().any(|c| c == '\0') => Err(invalid(field, "it has a NUL")),
        _ => Ok(value),
    }
}

fn invalid(field: &Field, why: &str) -> CliError {
    CliError::usage(format!("{} is not valid: {why}", field.name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::error::Exit;

    const FIELDS: [Field; 5] = [
        Field::new("time", Kind::Text),
        Field::new("id", Kind::Number),
        Field::new("state", Kind::Word(&["ready", "buried"])),
        Field::new("filter", Kind::Text),
        Field::new("body", Kind::Body),
    ];
    const LINE: [&str; 6] =
        ["do", "--tube={queue}", "--state={state}", "--filter={filter}", "{id}", "{time}"];

    fn asked(queue: &str, values: Value) -> Asked {
        let asked = json!({ "server": "x", "name": "do", "queue": queue, "values": values });
        serde_json::from_value(asked).unwrap()
    }

    #[test]
    fn values_are_separate_arguments_and_empty_ones_are_omitted() {
        let values = json!({ "id": 7, "filter": "body~=a b; rm", "body": "@/etc/passwd" });
        let (words, body) = line(&LINE, &FIELDS, &asked("mail", values)).unwrap();
        assert_eq!(words, ["do", "--tube=mail", "--filter=body~=a b; rm", "7"]);
        assert_eq!(body.as_deref(), Some(&b"@/etc/passwd"[..]));
    }

    #[test]
    fn page_input_never_becomes_a_flag_or_a_file() {
        for (queue, values) in [
            ("-v", json!({})),
            ("@/etc/passwd", json!({})),
            ("mail", json!({ "id": "-" })),
            ("mail", json!({ "id": "--all" })),
            ("mail", json!({ "state": "--all" })),
            ("mail", json!({ "filter": "x".repeat(2000) })),
            ("mail", json!({ "filter": ["x"] })),
            ("mail", json!({ "time": "--yes" })),
        ] {
            let error = line(&LINE, &FIELDS, &asked(queue, values.clone())).unwrap_err();
            assert_eq!(error.exit, Exit::Usage, "{queue} {values}");
        }
    }
}
