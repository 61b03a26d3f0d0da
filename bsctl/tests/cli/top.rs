//! The keys of `top` that make changes.

use ctl_contract::terminal::Terminal;
use fixtures::beanstalkd::Server;

use crate::harness::*;

fn top(address: &str, flags: &[&str]) -> Terminal {
    let words = [&["top", "-i", "100ms", "--only", "mail"], flags].concat();
    Terminal::run(&PROGRAM, address, &[("NO_COLOR", "1")], &words)
}

#[test]
fn top_kicks_and_pauses_after_confirmation() {
    let server = Server::start().unwrap();
    let address = server.address();
    let buried = put_buried(address, "mail", "x");
    let mut terminal = top(address, &["--write"]);
    terminal.sees("> ");
    terminal.types("k");
    terminal.sees("mail: kick the buried jobs? y confirms");
    terminal.types("n");
    terminal.sees("quit");
    assert_eq!(state(address, buried), "buried");
    terminal.types("k");
    terminal.sees("y confirms");
    terminal.types("y");
    terminal.sees("kicked 1 job");
    assert_eq!(state(address, buried), "ready");
    // A key refers to what the screen shows, so the next poll must have arrived.
    terminal.sees("no workers");
    terminal.types("k");
    terminal.sees("mail: nothing to do for k");
    terminal.types("P");
    terminal.sees("y confirms");
    terminal.types("y");
    terminal.sees("paused");
    let left = || client(address).stats_tube("mail").unwrap().unwrap().pause_time_left;
    assert!(left() > 3000, "{}", left());
    // The row has a worse problem, so only all its data show the pause.
    terminal.types("\r");
    terminal.sees("PAUSE     59m");
    terminal.types("P");
    terminal.sees("mail: resume? y confirms");
    terminal.types("y");
    terminal.sees("resumed");
    assert_eq!(left(), 0);
    terminal.types("q");
    assert_eq!(terminal.ends(), 0);
}

#[test]
fn top_opens_the_jobs_of_a_tube() {
    on_both(|address| {
        put(address, "mail", "hello");
        put_buried(address, "mail", "\x1b[2Jfailed");
        let mut terminal = top(address, &[]);
        terminal.sees("> ");
        terminal.types("\r");
        terminal.sees("peak 1");
        terminal.types("\r");
        terminal.sees("mail: jobs");
        terminal.sees("hello");
        terminal.sees("[2Jfailed");
        put(address, "mail", "later");
        terminal.types(" ");
        terminal.sees("later");
        terminal.types("\u{1b}");
        terminal.sees("over ");
        terminal.types("\u{1b}");
        terminal.sees("TUBE");
        terminal.types("q");
        assert_eq!(terminal.ends(), 0);
        assert_eq!(places(address).len(), 3);
    });
}

#[test]
fn top_is_read_only_without_write() {
    let server = Server::start().unwrap();
    let buried = put_buried(server.address(), "mail", "x");
    let mut terminal = top(server.address(), &[]);
    terminal.sees("> ");
    terminal.types("k");
    terminal.sees("top --write enables it");
    terminal.types("y");
    terminal.sees("quit");
    assert_eq!(state(server.address(), buried), "buried");
    terminal.types("q");
    assert_eq!(terminal.ends(), 0);
}

#[test]
fn top_needs_the_name_of_a_protected_context() {
    let server = Server::start().unwrap();
    let address = server.address();
    let buried = put_buried(address, "mail", "x");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.toml");
    std::fs::write(&file, "[defaults]\nprotected = true\n").unwrap();
    let mut terminal = top(address, &["--write", "--config", file.to_str().unwrap()]);
    terminal.sees("> ");
    terminal.types("k");
    terminal.sees("y confirms");
    terminal.types("y");
    terminal.sees("type its name to go on");
    terminal.types("other");
    terminal.sees("other_");
    terminal.types("\r");
    terminal.sees("leaves it: _");
    assert_eq!(state(address, buried), "buried");
    terminal.types(&format!("{address}\r"));
    terminal.sees("kicked 1 job");
    assert_eq!(state(address, buried), "ready");
    terminal.types("q");
    assert_eq!(terminal.ends(), 0);
}
