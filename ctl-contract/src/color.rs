//! Colours, decided per stream.

use std::process::Command;

use ctl_core::context::Tool;

use crate::Case;
use crate::program::{Program, ended};
use crate::terminal::Terminal;

const NONE: &[&str] = &[];

/// Variables added to a plain environment.
type Variables = &'static [(&'static str, &'static str)];

fn has_ansi(bytes: &[u8]) -> bool {
    bytes.contains(&0x1b)
}

fn line(program: &Program, address: &str, words: &[&str], variables: Variables) -> Command {
    let mut command = program.command(&[&[program.flag, address], words].concat());
    command.envs(variables.iter().copied());
    command
}

/// For both stdout and stderr; a flag takes precedence over the environment.
pub fn colours_a_pipe_only_when_forced<T: Tool>(case: &Case<T>) {
    let (_server, address) = case.filled();
    let (_port, dead) = Case::<T>::dead_address();
    let cases: [(&[&str], Variables, bool); 4] = [
        (NONE, &[], false),
        (NONE, &[("CLICOLOR_FORCE", "1")], true),
        (&["--color", "always"], &[("NO_COLOR", "1")], true),
        (&["--color", "never"], &[("CLICOLOR_FORCE", "1")], false),
    ];
    for (flags, variables, expected) in cases {
        let list = [&[case.list, "-o", "table"], flags].concat();
        let list = line(&case.program, &address, &list, variables).spawn().unwrap();
        assert_eq!(has_ansi(&ended(list).exits(0).bytes), expected, "{flags:?} {variables:?}");
        let ping = line(&case.program, &dead, &[&["ping"], flags].concat(), variables);
        let ran = ended({ ping }.spawn().unwrap()).exits(69);
        assert_eq!(has_ansi(ran.err.as_bytes()), expected, "{flags:?} {variables:?}");
    }
}

/// By flag or environment; the text stays the same.
pub fn colours_a_terminal_by_default<T: Tool>(case: &Case<T>) {
    let (_server, address) = case.filled();
    let cases: [(&[&str], Variables, bool); 3] = [
        (NONE, &[], true),
        (NONE, &[("NO_COLOR", "1")], false),
        (&["--color", "never"], &[], false),
    ];
    for (flags, variables, expected) in cases {
        let words = [&[case.list], flags].concat();
        let mut terminal = Terminal::run(&case.program, &address, variables, &words);
        assert_eq!(terminal.ends(), 0);
        let shown = &terminal.shown;
        assert_eq!(has_ansi(shown.as_bytes()), expected, "{flags:?} {variables:?} {shown}");
        assert!(shown.contains("mail"), "{shown}");
    }
}
