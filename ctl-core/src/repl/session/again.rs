//! Commands that repeat other commands: `5 put x`, `:watch i=2 stats`.

use std::time::{Duration, Instant};

use super::{Flow, Session};
use crate::error::CliError;
use crate::repl::shell::{Shell, Terminal};
use crate::text::lexer::Word;
use crate::text::units;

impl<S: Shell> Session<'_, S> {
    pub(super) fn repeat(
        &mut self,
        times: u64,
        words: &[Word],
        mut terminal: Option<&mut dyn Terminal>,
    ) -> Result<Flow, CliError> {
        for _ in 0..times {
            self.shell.interrupts().check()?;
            // Reborrow for each round.
            let person = terminal.as_mut().map(|terminal| &mut **terminal as &mut dyn Terminal);
            match self.execute(words, person)? {
                Flow::Next => {}
                other => return Ok(other),
            }
        }
        Ok(Flow::Next)
    }

    /// `:watch`: shows a command's result repeatedly.
    pub(super) fn watch(
        &mut self,
        words: &[Word],
        mut terminal: Option<&mut dyn Terminal>,
    ) -> Result<Flow, CliError> {
        let (rounds, words) = Rounds::read(words)?;
        let mut round = 0;
        loop {
            if terminal.is_some() {
                let now = units::now_in_seconds();
                let every = units::show_duration(rounds.pause);
                self.shell.note(&format!("{now}, every {every}"));
            }
            self.shell.rows();
            // Reborrow for each round.
            let person = terminal.as_mut().map(|terminal| &mut **terminal as &mut dyn Terminal);
            match self.execute(words, person)? {
                Flow::Next => {}
                other => return Ok(other),
            }
            round += 1;
            let enough = rounds.count.is_some_and(|count| round >= count);
            let too_few = rounds.least.is_some_and(|least| self.shell.rows() < least);
            if enough || too_few {
                return Ok(Flow::Next);
            }
            let asleep = Instant::now();
            let woken = self.shell.interrupts().sleep(rounds.pause);
            self.slept += asleep.elapsed();
            woken?;
        }
    }
}

/// How often `:watch` runs a command.
#[derive(Debug, PartialEq, Eq)]
struct Rounds {
    pause: Duration,
    count: Option<u64>,
    /// Ends when there are fewer rows than this.
    least: Option<u64>,
}

/// The shortest interval, to spare the server.
const SHORTEST: Duration = Duration::from_millis(100);

impl Rounds {
    /// Reads `i=2 c=10 m=1` before the command.
    fn read(words: &[Word]) -> Result<(Self, &[Word]), CliError> {
        let mut rounds = Self { pause: Duration::from_secs(2), count: None, least: None };
        let mut rest = words;
        while let Some((word, after)) = rest.split_first() {
            let text = std::str::from_utf8(&word.bytes).unwrap_or_default();
            let Some((name, value)) = text.split_once('=').filter(|_| !word.literal) else { break };
            let number = || {
                value.parse().map_err(|_| {
                    CliError::usage(format!("`{text}` is not a number (example: {name}=10)"))
                })
            };
            match name {
                "i" => rounds.pause = units::duration(value).map_err(CliError::usage)?,
                "c" => rounds.count = Some(number()?),
                "m" => rounds.least = Some(number()?),
                _ => {
                    return Err(CliError::usage(format!(
                        "`{text}` is not an option of :watch (options: i=DUR, c=N, m=N)"
                    )));
                }
            }
            rest = after;
        }
        if rounds.pause < SHORTEST {
            let shortest = units::show_duration(SHORTEST);
            return Err(CliError::usage(format!(
                "the interval of :watch must be at least {shortest}"
            )));
        }
        if rounds.count == Some(0) {
            return Err(CliError::usage("c=0 would never run the command"));
        }
        if rest.is_empty() {
            return Err(CliError::usage("no command to repeat").hint("help :watch"));
        }
        Ok((rounds, rest))
    }
}

/// `5 put x` runs `put x` five times.
pub(super) fn repetition(words: &[Word]) -> Option<(u64, &[Word])> {
    let (first, rest) = words.split_first()?;
    let times = std::str::from_utf8(&first.bytes).ok()?.parse().ok()?;
    (!first.literal && !rest.is_empty()).then_some((times, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::lexer::next_statement;

    #[test]
    fn options_stand_before_the_command() {
        let words = next_statement(b"i=500ms c=3 m=1 stats c=9").unwrap().words;
        let (rounds, rest) = Rounds::read(&words).unwrap();
        let expected = Rounds { pause: Duration::from_millis(500), count: Some(3), least: Some(1) };
        assert_eq!((rounds, rest.len()), (expected, 2));
        for bad in ["", "i=2", "i=1ms stats", "c=x stats", "c=0 stats", "x=1 stats", "i=x stats"] {
            let words = next_statement(bad.as_bytes()).unwrap().words;
            assert!(Rounds::read(&words).is_err(), "{bad}");
        }
    }
}
