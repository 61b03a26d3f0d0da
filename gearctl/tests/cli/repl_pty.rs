//! `gearctl repl` as a person uses it: through a pseudo-terminal.

use std::time::Duration;

use ctl_contract::terminal::{READS, Terminal};
use fixtures::Port;
use fixtures::fault::Fault;
use fixtures::gearmand::Server;
use gearman_client::blocking::{Admin, Client};
use gearman_client::{Failure, SubmitOptions};

use crate::harness::{PROGRAM, gearctl, on_both, serve, start_at};

#[test]
fn run_reports_waiting_without_a_worker() {
    let server = Server::start().unwrap();
    let line = ["run", "nobody", "x"];
    let mut terminal = Terminal::run(&PROGRAM, server.address(), &[("NO_COLOR", "1")], &line);
    terminal.sees("no worker serves nobody: waiting for one; Ctrl-C stops");
    terminal.types("\u{3}");
    assert_eq!(terminal.ends(), 130);
}

#[test]
fn tab_completes_verbs_flags_handles_and_live_function_names() {
    on_both(|site| {
        let address = site.address();
        let mut terminal = Terminal::plain(&PROGRAM, address);
        let mut client = Client::connect(address).unwrap();
        client.submit_background("newsletter", "x", SubmitOptions::default()).unwrap();
        // Names are fetched again after a command that may have created a function.
        terminal.says("submit other x", "H:");
        terminal.sees(READS);
        terminal.completes("submit newsl", "newsletter");
        let handle = terminal.says("y", "H:");
        assert!(!handle.contains("error"), "{handle}");
        terminal.sees(READS);
        // A subcommand of a command, a flag with its value, the handle that was shown last.
        terminal.types("cance\t");
        terminal.sees("cancel");
        terminal.interrupts();
        terminal.types("function maxq\tnewsl\t7\r");
        terminal.sees("newsletter");
        terminal.sees(READS);
        // All handles start with the same letters.
        terminal.types("cancel H\t3 -o json -n\r");
        terminal.sees("\"handles\": [");
        terminal.says("quit", "\n");
        assert_eq!(terminal.ends(), 0);
    });
}

/// They are fetched while a line is typed, which no message may disturb.
#[test]
fn forged_names_do_not_disturb_completion() {
    let server = Server::start().unwrap();
    let address = server.address();
    let packet = ["SUBMIT_JOB_BG", "news\nletter", "", "x"];
    gearctl(address, &[&["raw", "--packet"], &packet[..]].concat()).exits(0);
    let warning = "corrupt the rows";
    let ran = gearctl(address, &["functions"]).exits(0);
    assert!(ran.err.contains(warning), "{}", ran.err);
    let mut terminal = Terminal::plain(&PROGRAM, address);
    terminal.completes("submit lett", "letter");
    // Kills the line.
    terminal.types("\u{15}");
    terminal.leaves();
    assert!(!terminal.shown.contains(warning), "{}", terminal.shown);
    // A completion does without the names of a server that is slow to answer.
    let completed = (0..100).any(|_| {
        let ran = gearctl(address, &["complete", "zsh", "--", "submit", "lett"]);
        assert!(ran.err.is_empty(), "{ran:?}");
        ran.out().contains("letter")
    });
    assert!(completed);
}

#[test]
fn map_on_a_terminal_answers_line_by_line() {
    on_both(|site| {
        let address = site.address();
        let worker = serve(address, "up", 2, |job| Ok(job.workload.to_ascii_uppercase()));
        let lines = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(lines.path(), "one\ntwo\n").unwrap();
        let file = format!("@{}", lines.path().display());
        let mut terminal =
            Terminal::run(&PROGRAM, address, &[("NO_COLOR", "1")], &["map", "up", &file]);
        assert_eq!(terminal.ends(), 0, "{}", terminal.shown);
        worker.join().unwrap();
        assert_eq!(terminal.shown, "ONE\r\nTWO\r\n");
    });
}

#[test]
fn timings_are_on_a_separate_line() {
    let server = Server::start().unwrap();
    let address = server.address();
    let worker = serve(address, "up", 1, |job| Ok(job.workload.to_ascii_uppercase()));
    let mut terminal = Terminal::plain(&PROGRAM, address);
    terminal.says(":set timing on", READS);
    terminal.says("run up abc", "ABC\r\n");
    assert!(!terminal.sees(" ms)").contains("ABC"), "{}", terminal.shown);
    worker.join().unwrap();
}

#[test]
fn the_prompt_shows_servers_and_their_loss() {
    let port = Port::take().unwrap();
    let (one, two) = (Server::start().unwrap(), start_at(&port));
    let both = format!("{},{}", one.address(), two.address());
    let mut terminal = Terminal::plain(&PROGRAM, &both);
    terminal.says("version", &format!("{both}> "));
    terminal.says(&format!("connect {}", two.address()), "connected to ");
    terminal.sees(&format!("{}> ", two.address()));
    let address = two.address().to_owned();
    two.stop();
    // While the prompt is idle.
    terminal.sees("connection lost");
    terminal.sees("not connected> ");
    let _again = start_at(&port);
    terminal.sees("reconnected");
    terminal.sees(&format!("{address}> "));
    terminal.says("quit", "\n");
    assert_eq!(terminal.ends(), 0);
}

#[test]
fn ctrl_c_backgrounds_a_job_and_fg_resumes_it() {
    on_both(|site| {
        let address = site.address();
        let mut terminal = Terminal::plain(&PROGRAM, address);
        let mut admin = Admin::connect(address).unwrap();
        terminal.types("run up hello\r");
        while admin.status().unwrap().iter().all(|function| function.queued() == 0) {}
        terminal.types("\u{3}");
        // Its name appears once the server has reported it, which may be a moment later; it counts from the start.
        terminal.sees(" running; ");
        terminal.sees(" *1> ");
        while !terminal.says(":jobs", " *1> ").contains(" queued") {}
        // A Ctrl-C at the prompt clears the line and touches no job.
        terminal.types("fg");
        terminal.interrupts();
        terminal.types("half a li");
        let worker = serve(address, "up", 1, |job| {
            job.warning(b"careful")?;
            Ok(job.workload.to_ascii_uppercase())
        });
        // Reported above the line that is being typed, which stays.
        terminal.sees(": warning: careful");
        terminal.sees("is complete; fg ");
        terminal.sees("half a li");
        worker.join().unwrap();
        terminal.types("\u{15}\r");
        terminal.sees(" done:1> ");
        terminal.says("fg", "HELLO");
        terminal.sees(&format!("{address}> "));
        terminal.says("fg", "this session has no running jobs");
        terminal.sees(READS);
        terminal.says("quit", "\n");
        assert_eq!(terminal.ends(), 0);
    });
}

#[test]
fn exit_asks_about_foreground_jobs() {
    on_both(|site| {
        let address = site.address();
        let mut terminal = Terminal::plain(&PROGRAM, address);
        terminal.says("start up one", " *1> ");
        terminal.types("\u{4}");
        terminal.sees("1 foreground job running");
        terminal.sees("[s]tay: ");
        terminal.says("c", " *1> ");
        terminal.says("quit", "[s]tay: ");
        terminal.types("\u{3}");
        terminal.sees(" *1> ");
        terminal.says("quit", "[s]tay: ");
        terminal.types("w\r");
        let worker = serve(address, "up", 1, |job| Ok(job.workload.to_ascii_uppercase()));
        terminal.sees("ONE");
        assert_eq!(terminal.ends(), 0);
        worker.join().unwrap();

        let mut terminal = Terminal::plain(&PROGRAM, address);
        terminal.says("start up two", " *1> ");
        terminal.types("\u{4}");
        terminal.sees("[s]tay: ");
        // The second Ctrl-D leaves.
        terminal.types("\u{4}");
        terminal.sees("1 foreground job left to the server: H:");
        assert_eq!(terminal.ends(), 0);
    });
}

/// Submits a job that this server never acknowledges, and gives it up.
fn gives_up(terminal: &mut Terminal, server: &Server) {
    server.faults().add(Fault::always().of("SUBMIT_JOB_BG").hang());
    terminal.types("submit other x\r");
    while server.faults().struck() == 0 {
        std::thread::yield_now();
    }
    terminal.types("\u{3}");
    terminal.sees("Ctrl-C again gives it up");
    terminal.types("\u{3}");
    terminal.sees("GIVEN_UP: ");
}

#[test]
fn abandoning_a_reply_keeps_started_jobs() {
    let server = Server::start().unwrap();
    let mut terminal = Terminal::plain(&PROGRAM, server.address());
    // Each has its own connection, which looks for signals at another moment.
    terminal.says("start -j 8 up a b c d e f g h", "> ");
    assert!(server.wait_for(Duration::from_secs(60), |view| view.jobs == 8));
    gives_up(&mut terminal, &server);
    terminal.sees(" *8> ");
    let worker = serve(server.address(), "up", 8, |_| Ok(b"done".to_vec()));
    terminal.types("fg\r");
    (0..8).for_each(|_| drop(terminal.sees("done")));
    worker.join().unwrap();
}

/// Whether `work` had to connect the session or not.
#[test]
fn work_leaves_signals_to_the_worker_and_later_lines_give_up() {
    for (is_there, prompt) in [(true, "(type help"), (false, "not connected> ")] {
        let port = Port::take().unwrap();
        let early = is_there.then(|| start_at(&port));
        let address = port.address().to_string();
        let mut terminal = Terminal::run(&PROGRAM, &address, &[("NO_COLOR", "1")], &["repl"]);
        terminal.sees(prompt);
        let server = early.unwrap_or_else(|| start_at(&port));
        let mut client = Client::connect(server.address()).unwrap();
        client.submit_background("up", "x", SubmitOptions::default()).unwrap();
        terminal.types("work -f up --exec sh -c 'echo begun >&2; sleep 2'\r");
        terminal.sees("begun\r\n");
        terminal.types("\u{3}");
        let worker = terminal.sees("completed 1 job");
        assert!(!worker.contains("waiting for the answer"), "{worker}");
        terminal.sees(READS);
        gives_up(&mut terminal, &server);
    }
}

#[test]
fn unacknowledged_jobs_count_at_exit() {
    let server = Server::start().unwrap();
    server.faults().add(Fault::nth(1).of("SUBMIT_JOB").executed().hang());
    let mut terminal = Terminal::plain(&PROGRAM, server.address());
    terminal.types("run up hello\r");
    assert!(server.wait_for(Duration::from_mins(1), |view| view.jobs == 1));
    terminal.types("\u{3}");
    terminal.sees("the jobs keep running");
    terminal.sees(" *1> ");
    terminal.types("\u{4}");
    terminal.sees("1 foreground job running");
    terminal.says("l", "1 foreground job left to the server\r\n");
    assert_eq!(terminal.ends(), 0);
}

#[test]
fn waiting_for_jobs_at_exit_can_be_cancelled() {
    let server = Server::start().unwrap();
    let mut terminal = Terminal::plain(&PROGRAM, server.address());
    terminal.says("start up one", " *1> ");
    terminal.says("quit", "[s]tay: ");
    terminal.says("w", "\n");
    terminal.types("\u{3}");
    terminal.sees("keeps running");
    terminal.sees(" *1> ");
    terminal.types("\u{4}");
    terminal.sees("[s]tay: ");
    terminal.says("l", "left to the server: H:");
    assert_eq!(terminal.ends(), 0);
}

/// What a hostile worker may send: set the clipboard, clear the screen, C1 controls.
const HOSTILE: &[u8] = b"\x1b]52;c;aGk=\x07\x1b[2J\x1b[31mred\x9b2J\x07\xc2\x9b\xe2\x80\xaeend";

#[test]
fn escapes_control_characters_of_a_job() {
    on_both(|site| {
        let address = site.address();
        // This terminal gets no escape sequences of the line editor either.
        let mut terminal = Terminal::start(&PROGRAM, address, &[("TERM", "dumb")]);
        let worker = serve(address, "evil", 5, |job| {
            job.warning(HOSTILE)?;
            job.data(HOSTILE)?;
            match job.workload.as_ref() {
                b"fail" => Err(Failure::exception(String::from_utf8_lossy(HOSTILE).into_owned())),
                _ => Ok(HOSTILE.to_vec()),
            }
        });
        for (line, end) in [
            ("run evil x", "end"),
            ("run evil x -o json", "}"),
            ("run evil x -o ndjson", "complete"),
            ("run evil fail", "JOB_EXCEPTION"),
        ] {
            terminal.says(line, end);
            terminal.sees("> ");
        }
        terminal.says("start evil x", "is complete");
        terminal.says("fg", "end");
        terminal.says("submit \"a\\x1b[2Jb\" x", "> ");
        terminal.says("pt\\x1b \"\\x1b[2J\"", "> ");
        worker.join().unwrap();
        terminal.types("\u{4}");
        assert_eq!(terminal.ends(), 0);
        assert!(terminal.shown.contains("\\x1b[31mred"), "{:?}", terminal.shown);
        for byte in ['\u{1b}', '\u{7}', '\u{9b}'] {
            assert!(!terminal.shown.contains(byte), "{byte:?} in {:?}", terminal.shown);
        }
    });
}
