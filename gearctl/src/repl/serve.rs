//! The verbs on functions that the session serves: register them, list them, unregister them.

use ctl_core::error::{CliError, Exit};
use ctl_core::input::named::One;
use ctl_core::output::{Column, Record, Shape};
use ctl_core::text::units;

use super::state::State;
use crate::names::{Function, show_function};
use crate::repl::serving::{MOST, Serving};
use crate::work::builtin::Builtin;

static SERVED: Shape = Shape::rows(
    "function",
    &[
        Column::new("function", "FUNCTION"),
        Column::new("handler", "HANDLER"),
        Column::new("state", "STATE"),
        Column::new("completed", "COMPLETED"),
        Column::new("failed", "FAILED"),
        Column::new("lost", "LOST"),
    ],
);

impl State<'_> {
    /// `register FUNCTION --builtin HANDLER`.
    pub(super) fn register(
        &mut self,
        function: &One<Function>,
        handler: Builtin,
    ) -> Result<Exit, CliError> {
        let function = function.name()?;
        let name = show_function(&function);
        let serving = &self.session().serving;
        if serving.iter().any(|served| served.function == name) {
            return Err(CliError::usage(format!("this session serves {name} already"))
                .hint(format!("unregister {name}")));
        }
        if serving.len() >= MOST {
            return Err(CliError::usage(format!("a session serves at most {MOST} functions"))
                .hint("unregister FUNCTION"));
        }
        // The session informs a person when no line is being edited.
        let messages = (!self.person).then(|| self.tool.messages.clone());
        let usual = self.tool.link.dialer.clone();
        self.tool.link.dialer.outlive();
        let servers = self.tool.link.servers();
        self.tool.link.dialer = usual;
        let servers = servers?;
        let served = Serving::start(&function, handler, servers, messages)?;
        self.session().serving.push(served);
        let record =
            Record::new().with("function", name.as_str()).with("handler", handler.to_string());
        self.tool.out.done(&record, &format!("serving {name} with {handler}"))
    }

    /// `unregister FUNCTION`.
    pub(super) fn unregister(&mut self, function: &One<Function>) -> Result<Exit, CliError> {
        let name = show_function(&function.name()?);
        let found = self.session().serving.iter().position(|served| served.function == name);
        let Some(found) = found else {
            return Err(CliError::not_found(format!("this session does not serve {name}"))
                .hint("registered, to list what it serves"));
        };
        let interrupts = self.tool.interrupts()?;
        let mut served = self.session().serving.remove(found);
        served.stop(&interrupts)?;
        let counts = served.counts();
        let mut record = Record::new().with("function", name.as_str());
        for (word, count) in counts {
            record.push(word, count);
        }
        let [completed, others @ ..] = counts;
        let mut said = format!("{} {}", units::count(completed.1, "job"), completed.0);
        for (word, count) in others.iter().filter(|(_, count)| *count > 0) {
            said += &format!(", {count} {word}");
        }
        self.tool.out.done(&record, &format!("stopped serving {name}: {said}"))
    }

    /// `registered`.
    pub(super) fn show_served(&mut self) -> Result<Exit, CliError> {
        let mut rows = Vec::new();
        for served in &self.session().serving {
            let mut row = Record::new()
                .with("function", served.function.as_str())
                .with("handler", served.handler.to_string())
                .with("state", served.state());
            for (word, count) in served.counts() {
                row.push(word, count);
            }
            rows.push(row);
        }
        let mut list = self.tool.out.list(&SERVED)?;
        for row in rows {
            list.push(row)?;
        }
        list.finish()?;
        Ok(Exit::Done)
    }

    /// Ends everything, because the session switches to other servers.
    pub(super) fn stop_serving(&mut self) {
        let served: Vec<Serving> = self.session().serving.drain(..).collect();
        if !served.is_empty() {
            let names: Vec<&str> = served.iter().map(|served| served.function.as_str()).collect();
            self.tool.messages.note(format!("no longer serving {}", names.join(", ")));
        }
    }
}
