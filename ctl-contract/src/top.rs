//! `top`, on a terminal and for programs.

use std::io::{BufRead, BufReader};

use ctl_core::context::Tool;
use fixtures::Port;
use rexpect::process::Signal;

use crate::Case;
use crate::program::{Running, ended};
use crate::terminal::{READS, Terminal};

/// Switches the terminal to its alternate screen.
const TAKEN: &str = "\u{1b}[?1049h";
const GIVEN_BACK: &str = "\u{1b}[?1049l";

fn start<T: Tool>(case: &Case<T>, address: &str) -> Terminal {
    let words = ["top", "-i", "100ms"];
    let mut terminal = Terminal::run(&case.program, address, &[("NO_COLOR", "1")], &words);
    terminal.sees(TAKEN);
    terminal
}

/// However it ends, and while it is suspended.
pub fn top_restores_the_terminal<T: Tool>(case: &Case<T>) {
    let (_server, address) = case.filled();
    let mut terminal = start(case, &address);
    terminal.sees("mail");
    terminal.types("?");
    terminal.sees("page keys");
    terminal.types("x/nothing\r");
    terminal.sees("only nothing");
    terminal.sees("(none)");
    terminal.types("\u{1b}");
    terminal.sees("mail");
    terminal.types("\u{1a}");
    terminal.sees(GIVEN_BACK);
    terminal.resumes(TAKEN);
    terminal.sees("mail");
    terminal.signal(Signal::SIGTSTP);
    terminal.sees(GIVEN_BACK);
    terminal.resumes(TAKEN);
    terminal.types("\u{3}");
    terminal.sees(GIVEN_BACK);
    assert_eq!(terminal.ends(), 0);
    let mut terminal = start(case, &address);
    terminal.signal(Signal::SIGTERM);
    terminal.sees(GIVEN_BACK);
    assert_eq!(terminal.ends(), 143);
}

/// Selects a row, and shows its details.
pub fn top_shows_queue_details<T: Tool>(case: &Case<T>) {
    let (_server, address) = case.filled();
    let words = ["top", "-i", "100ms", "--only", "*mail"];
    let mut terminal = Terminal::run(&case.program, &address, &[("NO_COLOR", "1")], &words);
    terminal.sees("> ");
    terminal.types("\r");
    terminal.sees(" samples: from 1 to 1, peak 1");
    terminal.types("\r");
    terminal.sees("mail: jobs  (space lists them anew, Esc goes back)");
    terminal.types("\u{1b}");
    terminal.sees(" samples: from 1 to 1, peak 1");
    terminal.types("\u{1b}");
    terminal.sees("> ");
    terminal.types("q");
    terminal.sees(GIVEN_BACK);
    assert_eq!(terminal.ends(), 0);
}

/// Even without a signal.
pub fn top_exits_when_the_terminal_closes<T: Tool>(case: &Case<T>) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    let (_server, address) = Case::<T>::server();
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    // Only this process may hold the other end, so that closing it closes the terminal.
    rustix::io::fcntl_setfd(&terminal, rustix::io::FdFlags::CLOEXEC).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let side = || {
        let path = std::path::Path::new(std::str::from_utf8(name.to_bytes()).unwrap());
        std::fs::File::options().read(true).write(true).open(path).unwrap()
    };
    let words = [case.program.flag, &address, "top", "-i", "100ms"];
    let mut command = case.program.command(&words);
    command.env("TERM", "xterm").stdin(side()).stdout(side()).stderr(side());
    let child = Running::of(command.spawn().unwrap());
    drop(command);
    let mut terminal = std::fs::File::from(terminal);
    let mut shown = Vec::new();
    while !String::from_utf8_lossy(&shown).contains("quit") {
        let mut some = [0; 1024];
        let read = std::io::Read::read(&mut terminal, &mut some).unwrap();
        shown.extend_from_slice(&some[..read]);
    }
    drop(terminal);
    assert_eq!(child.ended().code, Some(74));
}

/// The other servers are shown meanwhile.
pub fn top_survives_a_server_restart<T: Tool>(case: &Case<T>) {
    let port = Port::take().unwrap();
    let ((_one, first), (two, second)) = (Case::<T>::server(), Case::<T>::server_at(&port));
    case.adds(&first, "x");
    let mut terminal = start(case, &[&*first, &second].join(","));
    terminal.sees("mail");
    drop(two);
    terminal.sees("down for ");
    terminal.sees("mail");
    let _again = Case::<T>::server_at(&port);
    case.adds(&second, "x");
    case.adds(&second, "x");
    // The largest first.
    let shown = terminal.sees(" 2 ");
    assert!(!shown.is_empty());
    terminal.types("q");
    terminal.sees(GIVEN_BACK);
    assert_eq!(terminal.ends(), 0);
}

/// As with two servers, one of which answers.
pub fn top_waits_for_its_only_server<T: Tool>(case: &Case<T>) {
    let (port, place) = Case::<T>::dead_address();
    let mut terminal = start(case, &place);
    terminal.sees("down for ");
    let _again = Case::<T>::server_at(&port);
    case.adds(&place, "x");
    terminal.sees("mail");
    terminal.types("q");
    terminal.sees(GIVEN_BACK);
    assert_eq!(terminal.ends(), 0);
}

/// At the terminal's full width, and without a note on the elapsed time.
pub fn session_continues_after_top<T: Tool>(case: &Case<T>) {
    let (server, address) = case.filled();
    let mut terminal = Terminal::plain(&case.program, &address);
    terminal.says("!stty rows 24 cols 60", READS);
    terminal.says("top", TAKEN);
    terminal.sees("mail");
    terminal.types("q");
    terminal.sees(GIVEN_BACK);
    terminal.sees(READS);
    assert!(!terminal.shown.contains(" ms server"), "{}", terminal.shown);
    terminal.says(&format!("{} y", case.add), READS);
    assert_eq!((case.jobs)(&server), 2);
    terminal.leaves();
}

/// One per sample.
pub fn programs_get_snapshots<T: Tool>(case: &Case<T>) {
    let (_server, address) = case.filled();
    let top = |servers: &str, words: &[&str]| case.program.at(servers, &[&["top"], words].concat());
    let once = top(&address, &["-o", "json"]).exits(0).json();
    let queue = once["queues"]
        .as_array()
        .unwrap()
        .iter()
        .find(|queue| queue["queue"].as_str().unwrap().ends_with("mail"));
    let queue = queue.unwrap();
    assert!(queue["problem"].is_string() && once["ts"].is_string(), "{once}");
    assert_eq!(once["servers"][0]["up"], true);
    let twice = top(&address, &["-c", "2", "-i", "100ms", "-o", "ndjson"]).exits(0);
    let rate = |line: &str| {
        let snapshot: serde_json::Value = serde_json::from_str(line).unwrap();
        let queues = snapshot["queues"].as_array().unwrap().clone();
        let fields = queues.last().unwrap().as_object().unwrap().clone();
        let rates: Vec<bool> = fields
            .iter()
            .filter(|(key, _)| key.ends_with("per_second"))
            .map(|(_, rate)| rate.is_number())
            .collect();
        rates
    };
    let lines = twice.lines();
    assert_eq!(lines.len(), 2);
    assert!(rate(lines[0]).iter().all(|known| !known), "{lines:?}");
    assert!(!rate(lines[1]).is_empty() && rate(lines[1]).iter().all(|known| *known), "{lines:?}");
    let dead = format!("{address},127.0.0.1:1");
    let some = top(&dead, &["-c", "1", "-o", "json"]).exits(69);
    assert_eq!(some.json()["servers"][1]["up"], false, "{}", some.out());
    assert!(top(&dead, &["-c", "1"]).exits(69).out().contains("mail"));
    top("127.0.0.1:1", &[]).exits(69);
    assert!(top(&address, &["--columns", "none"]).exits(2).err.contains("problem"));
    assert!(top(&address, &["-i", "1ms"]).exits(2).err.contains("at least 100ms"));
    // It continues until its reader has gone.
    let words = [case.program.flag, &address, "top", "-i", "100ms", "--columns", "queue"];
    let mut child = case.program.command(&words).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    (0..4).for_each(|_| drop(lines.next().unwrap().unwrap()));
    drop(lines);
    assert_eq!(ended(child).code, Some(0));
}

/// The distribution is shown at the end, even after Ctrl-C, and even if the clock has no such interval.
pub fn ping_shows_the_latency_distribution<T: Tool>(case: &Case<T>) {
    let (_server, address) = Case::<T>::server();
    let ping = |more: &[&str]| case.program.at(&address, &[&["ping"], more].concat());
    let ran = ping(&["-c", "20", "-i", "1ms", "-o", "json"]).exits(0);
    assert_eq!(ran.json().as_array().map(Vec::len), Some(20), "{}", ran.out());
    assert!(ran.err.contains("20 of 20 answered, min ") && ran.err.contains(", p99 "), "{ran:?}");
    assert_eq!(ping(&[]).exits(0).lines().len(), 1);
    let _ = ping(&["-c", "0"]).exits(2);
    for interval in ["1ms", "18446744073709551615s"] {
        let words = ["ping", "-i", interval];
        let mut terminal = Terminal::run(&case.program, &address, &[("NO_COLOR", "1")], &words);
        terminal.sees(&address);
        terminal.types("\u{3}");
        terminal.sees(", p99 ");
        assert_eq!(terminal.ends(), 130);
    }
}

/// A listing takes the place of the one before, and can also be read by programs.
pub fn interval_repeats_a_listing<T: Tool>(case: &Case<T>) {
    let (_server, address) = case.filled();
    let words = [case.list, "-i", "100ms"];
    let mut terminal = Terminal::run(&case.program, &address, &[("NO_COLOR", "1")], &words);
    for _ in 0..2 {
        terminal.sees("\u{1b}[H\u{1b}[2J");
        terminal.sees("every 100ms: ");
        terminal.sees("mail");
    }
    terminal.types("\u{3}");
    assert_eq!(terminal.ends(), 130);
    for (format, end) in [("plain", ""), ("json", "]"), ("yaml", "---")] {
        let line = [case.program.flag, &address, case.list, "-i", "100ms", "-o", format];
        let mut child = case.program.command(&line).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert!(lines.any(|line| line == end), "{format}");
        assert!(lines.any(|line| line.contains("mail")), "{format}: again");
        drop(lines);
        assert_eq!(ended(child).code, Some(0), "{format}");
    }
    let too_short = case.program.at(&address, &[case.list, "-i", "99ms"]).exits(2);
    assert!(too_short.err.contains("at least 100ms"), "{too_short:?}");
    let ran = crate::session::repl(&case.program, &address, &[], format!("{} -i 1s", case.list));
    assert!(ran.exits(2).err.contains("does not repeat"));
}

/// In a pipe it has no keyboard to quit with. The flags select what the screen would show.
pub fn top_prints_one_snapshot_to_a_pipe<T: Tool>(case: &Case<T>) {
    let (_server, address) = Case::<T>::server();
    for (name, jobs) in [("quiet", 1), ("busy", 3), ("other", 2)] {
        for _ in 0..jobs {
            case.run(&address, case.add_to, &[name, "body"]).exits(0);
        }
    }
    let top = |flags: &[&str]| {
        let ran = case.program.at(&address, &[&["top"], flags].concat()).exits(0);
        let names = ["quiet", "busy", "other"];
        let line = |line: &str| names.iter().find(|name| line.contains(**name)).copied();
        ran.lines().into_iter().filter_map(line).collect::<Vec<_>>()
    };
    let main = if T::PROGRAM.name == "gearctl" { "queued" } else { "ready" };
    assert_eq!(top(&[]).len(), 3);
    assert_eq!(top(&["--sort-by", main]), ["busy", "other", "quiet"]);
    assert_eq!(top(&["--only", "*u*", "--only", "!none", "--sort", main]), ["busy", "quiet"]);
    assert_eq!(top(&["--only", "*the*"]), ["other"]);
    // An interval asks for more than one sample.
    assert_eq!(top(&["-i", "100ms", "-c", "2", "--only", "*busy"]), ["busy", "busy"]);
    let ran = case.program.at(&address, &["top", "-o", "json", "--only", "*busy"]).exits(0);
    assert_eq!(ran.json()["queues"].as_array().map(Vec::len), Some(1));
}
