//! Readers that go away: no panic, no lost job. For Unix, where writing to a closed pipe fails.

use std::io::Read as _;
use std::process::{Command, Stdio};

use ctl_core::context::Tool;

use crate::Case;
use crate::program::{Ran, ended};
use crate::session::repl;

/// Runs it into a pipe whose reader has gone.
fn into_closed_pipe(mut command: Command) -> Ran {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    ended(command.stdout(writer).spawn().unwrap())
}

/// The exit code is 0, and stderr is empty.
pub fn read_only_commands_end_quietly_on_a_closed_pipe<T: Tool>(case: &Case<T>) {
    let (_server, address) = case.filled();
    let lines: [&[&str]; 8] = [
        &[case.list],
        &[case.list, "-o", "json"],
        &["doctor"],
        &["completions", "bash"],
        &["man"],
        &["--help"],
        &[case.list, "--help"],
        &["--version"],
    ];
    for line in lines {
        let line = [&[case.program.flag, &address], line].concat();
        let ran = into_closed_pipe(case.program.command(&line));
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{line:?}");
    }
}

/// With more output than a pipe holds.
pub fn a_short_reader_gets_the_first_lines<T: Tool>(case: &Case<T>) {
    let (_server, address) = Case::<T>::server();
    let long = "n".repeat(100);
    let script: String = (10..50).map(|at| format!("{} {at}{long} x\n", case.add_to)).collect();
    repl(&case.program, &address, &[], script).exits(0);
    let repeated = [case.list, "-i", "100ms"];
    for line in [&repeated[..], &["man"], &["completions", "zsh"]] {
        let line = [&[case.program.flag, &address], line].concat();
        let mut child = case.program.command(&line).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let mut first = [0];
        stdout.read_exact(&mut first).unwrap();
        drop(stdout);
        let ran = ended(child).exits(0);
        assert_eq!(ran.err, "", "{line:?}");
    }
}

/// Whether it would have been printed at once, or at the end.
pub fn counts_additions_after_the_pipe_closes<T: Tool>(case: &Case<T>) {
    let (server, address) = Case::<T>::server();
    let add: Vec<&str> = case.add.split(' ').chain(["body"]).collect();
    for (n, format) in (1..).zip(["plain", "json"]) {
        let line = [&[case.program.flag, &address, "-o", format], &add[..]].concat();
        let ran = into_closed_pipe(case.program.command(&line)).exits(74);
        let said = if format == "json" { "\"succeeded\":1" } else { "before that: " };
        assert!(ran.err.contains(said), "{line:?}: {}", ran.err);
        assert_eq!((case.jobs)(&server), n, "{line:?}");
    }
}

/// Jobs are deleted only after their records are written.
pub fn closed_pipe_keeps_jobs<T: Tool>(case: &Case<T>) {
    let (server, address) = case.filled();
    let pop: Vec<&str> = case.pop.split(' ').collect();
    for line in [&pop[..], &["drain", "mail", "--yes"]] {
        let line = [&[case.program.flag, &address], line].concat();
        let ran = into_closed_pipe(case.program.command(&line)).exits(74);
        assert!(ran.err.contains("closed by its reader"), "{line:?}: {}", ran.err);
        assert_eq!((case.jobs)(&server), 1, "{line:?}");
    }
    // The job can be taken again at once.
    case.program.at(&address, &pop).exits(0);
    assert_eq!((case.jobs)(&server), 0);
}
