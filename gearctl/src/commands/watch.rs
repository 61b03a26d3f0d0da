//! `watch`: repeat a command that only looks.

use ctl_core::args::GlobalArgs;
use ctl_core::error::{CliError, Exit};
use ctl_core::output::Output;
pub use ctl_core::watch::WatchArgs;
use ctl_core::watch::{Repeat, watch};

use super::{dispatch, reads_only};
use crate::cli::{self, Command};
use crate::tool::Tool;

/// The end of `watch --help`.
pub const HELP: &str = "\
Repeats a command that changes nothing. On a terminal each result replaces the one before it; in a pipe
they follow each other, separated by empty lines; with -o ndjson (before the --) there is one object per look,
with its time `ts` and the command's result.
--until takes a condition on the result, such as 'queued==0'.

Examples:
  gearctl watch -- functions 'mail*'
  gearctl watch -i 500ms --until 'queued==0' -- functions mail
  gearctl watch -c 10 -o ndjson -- workers";

/// Runs `watch`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: WatchArgs) -> Result<Exit, CliError> {
    let interrupts = tool.interrupts()?;
    watch(tool, &args, &interrupts)
}

impl Repeat for Tool {
    type Command = Command;
    const NAME: &'static str = "gearctl";

    fn read(line: &[String]) -> Result<Option<(GlobalArgs, Command)>, clap::Error> {
        let cli = cli::parse(line)?;
        let looks =
            |command: &Command| reads_only(command) && !matches!(command, Command::Watch(_));
        Ok(cli.command.filter(looks).map(|command| (cli.globals, command)))
    }

    fn out(&mut self) -> &mut Output {
        &mut self.out
    }

    fn run(&mut self, command: Command) -> Result<Exit, CliError> {
        dispatch(self, command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_commands_that_look_are_repeated() {
        let read = |words: &[&str]| {
            let line: Vec<String> = words.iter().map(ToString::to_string).collect();
            Tool::read(&line)
        };
        assert!(read(&["gearctl", "functions"]).unwrap().is_some());
        for words in
            [&["gearctl", "cancel", "H:x:1"][..], &["gearctl", "watch", "functions"], &["gearctl"]]
        {
            assert!(read(words).unwrap().is_none(), "{words:?}");
        }
        assert!(read(&["gearctl", "nope"]).is_err());
    }
}
