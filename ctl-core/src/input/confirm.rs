//! Confirmation of dangerous commands: asked on a terminal, otherwise given by flags.

use std::io;
use std::sync::{Arc, Mutex};

use queue_core::lock;

use crate::error::{CliError, Exit};
use crate::output::messages::Messages;

/// How a command gets its confirmations.
#[derive(Debug, Clone, Default)]
pub struct Confirm {
    /// `--yes`: confirms level 2.
    pub yes: bool,
    /// `--confirm=NAME`: confirms level 3; several names are separated by commas.
    pub name: Option<String>,
    /// Whether the user can be asked.
    pub can_ask: bool,
    /// The name to type before anything changes, if the server is protected.
    pub lock: Option<String>,
    /// Whether the command refuses `--dry-run`, so that no hint may name it.
    pub(crate) is_unrehearsed: bool,
    /// For a command on several servers: collects the question of each.
    pub(crate) asking: Option<Asking>,
}

/// The questions of a command that runs on several servers; they are asked as one.
pub(crate) type Asking = Arc<Mutex<Vec<String>>>;

/// The error code of a command that waits for the answer to that question.
const WAITS: &str = "WAITS";

/// Whether the command was not run because its question is still open.
pub(crate) fn waits(error: &CliError) -> bool {
    error.code == WAITS
}

/// The question about all servers, with the total if each begins with `VERB N NOUN`.
pub(crate) fn in_all(actions: &[String]) -> String {
    let number =
        |action: &String| action.split(' ').nth(1).and_then(|word| word.parse::<u64>().ok());
    let numbers: Option<Vec<u64>> = actions.iter().map(number).collect();
    let all = actions.join("; ");
    match (numbers, actions.first().and_then(|action| action.split(' ').next())) {
        (Some(numbers), Some(verb)) if numbers.len() > 1 => {
            format!("{verb} {} in all: {all}", numbers.iter().sum::<u64>())
        }
        _ => all,
    }
}

impl Confirm {
    /// Asks for the name of a protected server or context, before anything changes.
    ///
    /// # Errors
    /// As [`Confirm::everything`].
    pub fn unlock(&self, messages: &Messages) -> Result<(), CliError> {
        let Some(name) = &self.lock else { return Ok(()) };
        self.named(&format!("make changes on {name} (protected)"), name, messages)
    }

    /// Level 2, a whole tube or function. `action` names the change, its size and the place, such as "delete 12 jobs
    /// from tube mail on 127.0.0.1:11300".
    ///
    /// # Errors
    /// There is no terminal to ask on, and `--yes` is missing: exit 2. Declined: exit 1.
    pub fn many(&self, action: &str, messages: &Messages) -> Result<(), CliError> {
        // The protected name confirms everything.
        if self.yes || self.lock.as_deref().is_some_and(|lock| self.says(lock)) {
            return Ok(());
        }
        if let Some(asking) = &self.asking {
            lock(asking).push(action.to_owned());
            return Err(CliError::new(Exit::Negative, WAITS, "not confirmed yet"));
        }
        if !self.can_ask {
            return Err(CliError::usage(format!("refusing to {action} without confirmation"))
                .hint(match self.is_unrehearsed {
                    true => "--yes (or -y) confirms it",
                    false => "--yes (or -y) confirms it; --dry-run shows what would be done",
                }));
        }
        messages.prompt(&format!("{}? [y/N]", capitalized(action)));
        match answer(messages)?.to_ascii_lowercase().as_str() {
            "y" | "yes" => Ok(()),
            _ => Err(declined()),
        }
    }

    /// The same for a command that refuses `--dry-run`.
    #[must_use]
    pub fn unrehearsed(self) -> Self {
        Self { is_unrehearsed: true, ..self }
    }

    /// Level 3, everything: the answer is `name`, and `--yes` is not enough. If the name of a protected context was
    /// already given, this asks as [`Confirm::many`] does.
    ///
    /// # Errors
    /// There is no terminal to ask on, and `--confirm` is missing or has another name: exit 2. Declined: exit 1.
    pub fn everything(
        &self,
        action: &str,
        name: &str,
        messages: &Messages,
    ) -> Result<(), CliError> {
        if self.lock.is_some() {
            self.many(action, messages)
        } else {
            self.named(action, name, messages)
        }
    }

    /// Whether `--confirm` has this name, alone or among others.
    fn says(&self, name: &str) -> bool {
        self.name
            .as_deref()
            .is_some_and(|said| said == name || said.split(',').any(|one| one == name))
    }

    fn named(&self, action: &str, name: &str, messages: &Messages) -> Result<(), CliError> {
        if self.says(name) {
            return Ok(());
        }
        if self.name.is_some() || !self.can_ask {
            return Err(CliError::usage(format!(
                "refusing to {action} without its name as confirmation"
            ))
            .hint(format!("--confirm={name} confirms it (--yes is not enough)")));
        }
        messages.prompt(&format!("{}. Type {name} to continue:", capitalized(action)));
        if answer(messages)? == name { Ok(()) } else { Err(declined()) }
    }
}

fn answer(messages: &Messages) -> Result<String, CliError> {
    let mut line = String::new();
    io::stdin().read_line(&mut line).map_err(|error| CliError::reading("stdin", &error))?;
    if !line.ends_with('\n') {
        // Ctrl-D leaves the cursor after the question.
        messages.text("");
    }
    Ok(line.trim().to_owned())
}

fn declined() -> CliError {
    CliError::new(Exit::Negative, "DECLINED", "not confirmed, nothing was changed")
}

fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages() -> Messages {
        Messages::to(Box::new(io::sink()), "tool", false, false)
    }

    #[test]
    fn asks_once_with_the_total_of_all_servers() {
        let asking = Asking::default();
        let confirm = Confirm { asking: Some(asking.clone()), ..Confirm::default() };
        for count in [12, 30] {
            let waiting = confirm.many(&format!("delete {count} jobs on one"), &messages());
            assert!(waits(&waiting.unwrap_err()));
        }
        let asked = asking.lock().unwrap().clone();
        assert_eq!(
            in_all(&asked),
            "delete 42 in all: delete 12 jobs on one; delete 30 jobs on one"
        );
        assert_eq!(in_all(&["take those".to_owned(), "take 3".to_owned()]), "take those; take 3");
    }

    #[test]
    fn names_the_missing_flag_without_a_terminal() {
        let silent = Confirm::default();
        let error = silent.many("delete 3 jobs", &messages()).unwrap_err();
        assert_eq!(error.exit.code(), 2);
        assert!(error.hints[0].contains("--yes"), "{error:?}");
        let error = silent.everything("delete all", "host:1", &messages()).unwrap_err();
        assert_eq!(error.exit.code(), 2);
        assert!(error.hints[0].contains("--confirm=host:1"), "{error:?}");
    }

    #[test]
    fn protected_contexts_need_their_name() {
        let lock = Some("prod".to_owned());
        let yes = Confirm { yes: true, lock: lock.clone(), ..Confirm::default() };
        let error = yes.unlock(&messages()).unwrap_err();
        assert_eq!(error.exit.code(), 2);
        assert!(error.hints[0].contains("--confirm=prod"), "{error:?}");
        let other = Confirm { name: Some("host:1".into()), ..yes };
        assert!(other.unlock(&messages()).is_err());
        let named = Confirm { name: lock.clone(), lock, ..Confirm::default() };
        assert!(named.unlock(&messages()).is_ok());
        assert!(named.many("delete 3 jobs", &messages()).is_ok());
        assert!(named.everything("delete all", "host:1", &messages()).is_ok());
        assert!(Confirm::default().unlock(&messages()).is_ok());
    }

    #[test]
    fn yes_answers_level_two_only() {
        let yes = Confirm { yes: true, ..Confirm::default() };
        assert!(yes.many("delete 3 jobs", &messages()).is_ok());
        assert!(yes.everything("delete all", "host:1", &messages()).is_err());
        let named = Confirm { name: Some("host:1".into()), ..Confirm::default() };
        assert!(named.everything("delete all", "host:1", &messages()).is_ok());
        assert!(named.everything("delete all", "host:2", &messages()).is_err());
    }
}
