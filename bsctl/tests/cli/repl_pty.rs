//! `bsctl repl` as a person uses it: through a pseudo-terminal.

use std::time::Duration;

use beanstalk_client::blocking::Client;
use beanstalk_client::{JobState, PutOptions};
use ctl_contract::terminal::{PATIENCE, READS, Terminal};
use fixtures::beanstalkd::Server;
use fixtures::real::Beanstalkd;
use rexpect::process::Signal;

use crate::harness::{PROGRAM, dead_address, on_both};

/// Puts `hello` by this line, and reserves it.
fn puts_and_reserves(terminal: &mut Terminal, put: &str) {
    terminal.says(put, "default> ");
    terminal.says("reserve", "hello");
    terminal.sees("default*1 ");
}

#[test]
fn the_prompt_shows_address_tube_watch_list_and_reserved_jobs() {
    on_both(|address| {
        let mut terminal = Terminal::plain(&PROGRAM, address);
        terminal.says("use mail", "using mail");
        terminal.sees(&format!("{address} mail watch:default> "));
        terminal.says("watch mail sms", "watching 3 tubes: default, mail, sms");
        terminal.sees(&format!("{address} mail watch:default,mail,sms> "));
        terminal.says("ignore default sms", "watching 1 tube: mail");
        terminal.sees(&format!("{address} mail> "));
        terminal.says("put -r 300 hello", "mail> ");
        terminal.says("reserve", "hello");
        terminal.sees(&format!("{address} mail*1 29"));
        terminal.says("delete", &format!("{address} mail> "));
        terminal.types("\u{4}");
        assert_eq!(terminal.ends(), 0);
    });
}

#[test]
fn tab_completes_verbs_flags_and_live_tube_names() {
    on_both(|address| {
        let mut terminal = Terminal::plain(&PROGRAM, address);
        let mut client = Client::connect(address).unwrap();
        client.use_tube("newsletter").unwrap();
        let _ = client.put("x", PutOptions::default()).unwrap();
        // Names are fetched again after a command that may have created a tube.
        terminal.says("use other", "using other");
        terminal.sees(READS);
        terminal.completes("use newsl", "newsletter");
        terminal.says("", "using newsletter");
        terminal.types("reserv\t");
        terminal.sees("reserved");
        terminal.interrupts();
        // Each Tab completes one word: a setting, a value, a verb, a flag, its value.
        terminal.types(":set on_\tbur\t\r");
        terminal.says(":set on_exit", "on_exit  bury");
        terminal.types("pin\t--outp\tndj\t\r");
        terminal.sees("{");
        terminal.leaves();
    });
}

#[test]
fn ctrl_c_clears_the_line_or_cancels_the_wait_only() {
    on_both(|address| {
        let mut terminal = Terminal::plain(&PROGRAM, address);
        puts_and_reserves(&mut terminal, "put -r 300 hello");
        terminal.types("put never");
        terminal.interrupts();
        terminal.says("reserved", "default*1 ");
        terminal.types("reserve\r");
        let mut client = Client::connect(address).unwrap();
        while client.stats().unwrap().current_waiting == 0 {}
        terminal.types("\u{3}");
        terminal.sees("cancelled");
        terminal.says("reserved", "300");
        terminal.sees("default*1 ");
        assert_eq!(client.stats().unwrap().current_jobs_reserved, 1);
        assert_eq!(client.stats().unwrap().total_jobs, 1, "nothing else was put");
        terminal.says("delete", "default> ");
        terminal.leaves();
    });
}

#[test]
fn a_wait_shows_its_tubes_and_where_jobs_are_ready() {
    on_both(|address| {
        let mut terminal = Terminal::plain(&PROGRAM, address);
        terminal.says("use mail", "using mail");
        terminal.says("put hello", "1");
        terminal.types("reserve\r");
        terminal.sees("waiting for a job in default; Ctrl-C ends it");
        terminal.sees("mail has 1 ready job, and is not watched: watch mail");
        terminal.types("\u{3}");
        terminal.sees("cancelled");
        terminal.says("watch mail", "watching 2 tubes");
        terminal.says("reserve", "hello");
        terminal.says("delete", "> ");
        terminal.leaves();
    });
}

#[test]
fn exit_asks_about_reserved_jobs() {
    on_both(|address| {
        let mut terminal = Terminal::plain(&PROGRAM, address);
        puts_and_reserves(&mut terminal, "put -p 5 hello");
        terminal.types("\u{4}");
        terminal.sees("1 job reserved: [r]elease (default) / [b]ury / [d]elete / [s]tay: ");
        terminal.says("c", "default*1 ");
        terminal.says("quit", "[s]tay: ");
        terminal.says("nonsense", "[s]tay: ");
        terminal.types("\u{3}");
        terminal.sees("default*1 ");
        terminal.says("quit", "[s]tay: ");
        // The second Ctrl-D is the default.
        terminal.types("\u{4}");
        terminal.sees("1 job released: ");
        assert_eq!(terminal.ends(), 0);
        let mut client = Client::connect(address).unwrap();
        let job = client.peek_ready().unwrap().unwrap();
        let stats = client.stats_job(job.id).unwrap().unwrap();
        assert_eq!((stats.state, stats.pri.get(), stats.releases), (JobState::Ready, 5, 1));

        let mut terminal = Terminal::plain(&PROGRAM, address);
        terminal.says("reserve", "hello");
        terminal.sees("default*1 ");
        // Nothing is settled for an unreachable server.
        terminal.says("connect 127.0.0.1:1", "still connected to");
        terminal.sees("default*1 ");
        terminal.says(&format!("connect {address}"), "[s]tay: ");
        terminal.says("b", "1 job buried: ");
        terminal.sees("connected to ");
        terminal.sees("> ");
        terminal.says("exit", "\n");
        assert_eq!(terminal.ends(), 0);
        assert_eq!(client.stats_job(job.id).unwrap().unwrap().state, JobState::Buried);
    });
}

#[test]
fn a_pasted_newline_runs_nothing() {
    let server = Server::start().unwrap();
    let mut terminal = Terminal::plain(&PROGRAM, server.address());
    terminal.types("\u{1b}[200~put one\nput two\n\u{1b}[201~");
    terminal.sees("put two");
    terminal.interrupts();
    terminal.says("use after", "using after");
    assert!(!server.requests().iter().any(|r| r.text().starts_with("put ")), "{}", terminal.shown);
    terminal.types("\u{1b}[200~put one\nput two\u{1b}[201~\r");
    assert!(server.wait_for(Duration::from_millis(PATIENCE), |view| view.jobs == 2));
    terminal.leaves();
}

#[test]
fn reconnects_when_the_server_returns() {
    let Some(mut server) = Beanstalkd::start() else { return };
    let address = server.address().to_owned();
    let mut terminal = Terminal::plain(&PROGRAM, &address);
    terminal.says("use mail", "using mail");
    terminal.says("watch sms", "watching 2 tubes");
    terminal.says("put -r 300 hello", "> ");
    terminal.says("watch mail", "watching 3 tubes");
    terminal.says("reserve", "hello");
    terminal.sees("mail*1 ");
    // The prompt is redrawn while idle.
    server.kill();
    terminal.sees("reserved job 1 went back to ready");
    terminal.sees("not connected> ");
    // The input line stays.
    terminal.types("put again");
    terminal.sees("put again");
    server.restart().unwrap();
    terminal.sees("reconnected");
    terminal.sees(&format!("{address} mail watch:default,sms,mail> put again"));
    terminal.types("\r");
    terminal.sees("\r\n1\r\n");
    let mut client = Client::connect(address.as_str()).unwrap();
    assert_eq!(client.stats_job(1).unwrap().unwrap().tube.as_str(), "mail");
    assert_eq!(client.peek(1).unwrap().unwrap().body, "again");
    terminal.leaves();
}

#[test]
fn reports_a_loss_without_disturbing_the_input() {
    let server = Server::start().unwrap();
    let mut terminal = Terminal::plain(&PROGRAM, server.address());
    puts_and_reserves(&mut terminal, "put hello");
    terminal.types("put typed");
    terminal.sees("put typed");
    server.close_connections();
    terminal.sees("reserved job 1 went back to ready");
    // The prompt is correct again as soon as the line is drawn anew below the message.
    terminal.sees(" default> put typed");
    terminal.types(" -r 9\r");
    terminal.sees("2");
    terminal.sees("default> ");
    terminal.leaves();
    let mut client = Client::connect(server.address()).unwrap();
    assert_eq!(client.peek(2).unwrap().unwrap().body, "typed");
    assert_eq!(client.stats_job(2).unwrap().unwrap().ttr, 9);
}

#[test]
fn warns_once_about_an_expiring_job() {
    let server = Server::start().unwrap();
    let mut terminal = Terminal::plain(&PROGRAM, server.address());
    puts_and_reserves(&mut terminal, "put -r 11 hello");
    terminal.types("put typed");
    terminal.sees("put typed");
    let shown = terminal.sees("s left (touch 1, hold 1, or :set autotouch on)");
    assert!(shown.contains("job 1: "), "{shown}");
    terminal.interrupts();
    terminal.says("delete", "default> ");
    assert_eq!(terminal.shown.matches(" left (touch").count(), 1);
    terminal.leaves();
}

/// What a hostile producer may put: set the clipboard, move the cursor, ring, C1 controls.
const HOSTILE: &[u8] = b"\x1b]52;c;aGk=\x07\x1b[2J\x1b[31mred\x9b2J\x07\xc2\x9b\xe2\x80\xaeend";

#[test]
fn escapes_control_characters_of_a_body() {
    on_both(|address| {
        let mut client = Client::connect(address).unwrap();
        let id = client.put(HOSTILE, PutOptions::default()).unwrap().id();
        // This terminal gets no escape sequences of the line editor either.
        let mut terminal = Terminal::start(&PROGRAM, address, &[("TERM", "dumb")]);
        for format in ["table", "wide", "plain", "json", "ndjson", "yaml"] {
            terminal.says(&format!(":set format {format}"), "> ");
            terminal.says(&format!("peek {id}"), "> ");
        }
        terminal.says(":set format table", "> ");
        terminal.says("reserve", "end");
        terminal.says("reserved -o raw", "> ");
        terminal.says(&format!("peek {id} -o raw"), "binary body not shown on a terminal");
        terminal.says("delete", "default> ");
        terminal.says("use \"a\\x1b[2Jb\"", "> ");
        terminal.says("pt\\x1b \"\\x1b[2J\"", "> ");
        terminal.types("\u{4}");
        assert_eq!(terminal.ends(), 0);
        let shown = &terminal.shown;
        assert!(shown.contains("\\x1b[31mred"), "{shown:?}");
        for byte in ['\u{1b}', '\u{7}', '\u{9b}'] {
            assert!(!shown.contains(byte), "{byte:?} in {shown:?}");
        }
    });
}

#[test]
fn a_dumb_terminal_has_prompts_continuation_and_control_c() {
    let server = Server::start().unwrap();
    let mut terminal = Terminal::start(&PROGRAM, server.address(), &[("TERM", "dumb")]);
    terminal.types("put \"one\n");
    terminal.sees("...> ");
    terminal.says("two\"", "1");
    terminal.sees("default> ");
    terminal.says("reserve", "two");
    terminal.sees("default*1 5");
    terminal.types("put <<END\n");
    terminal.sees("...> ");
    terminal.types("\u{3}");
    terminal.sees("default*1 ");
    terminal.says("quit", "[s]tay: ");
    terminal.says("d", "1 job deleted: 1");
    assert_eq!(terminal.ends(), 0);
    assert!(
        terminal.shown.is_ascii() && !terminal.shown.contains('\u{1b}'),
        "{:?}",
        terminal.shown
    );
    assert_eq!(server.view().jobs, 0);
}

#[test]
fn colours_follow_the_settings() {
    let server = Server::start().unwrap();
    let mut coloured = Terminal::start(&PROGRAM, server.address(), &[]);
    coloured.says("put x", "> ");
    coloured.leaves();
    assert!(coloured.shown.contains("\u{1b}[1m"), "{:?}", coloured.shown);
    let mut plain = Terminal::plain(&PROGRAM, server.address());
    plain.says("put x", "> ");
    plain.leaves();
    // A style is ESC [ numbers m; the line editor's own sequences end in other letters.
    let styles = plain.shown.split("\u{1b}[").skip(1).filter(|rest| {
        rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';').starts_with('m')
    });
    assert_eq!(styles.count(), 0, "{:?}", plain.shown);
}

#[test]
fn a_resized_window_does_not_disturb_the_line() {
    let server = Server::start().unwrap();
    let mut terminal = Terminal::plain(&PROGRAM, server.address());
    terminal.types("put some");
    terminal.sees("put some");
    terminal.signal(Signal::SIGWINCH);
    terminal.types("thing\r");
    assert!(server.wait_for(Duration::from_millis(PATIENCE), |view| view.jobs == 1));
    terminal.leaves();
    let mut client = Client::connect(server.address()).unwrap();
    assert_eq!(client.peek(1).unwrap().unwrap().body, "something");
}

#[test]
fn a_signal_at_the_prompt_releases_jobs() {
    let server = Server::start().unwrap();
    let mut terminal = Terminal::plain(&PROGRAM, server.address());
    puts_and_reserves(&mut terminal, "put hello");
    terminal.signal(Signal::SIGTERM);
    terminal.sees("1 reserved job went back to ready: 1");
    assert_eq!(terminal.ends(), 143);
    let mut client = Client::connect(server.address()).unwrap();
    let stats = client.stats_job(1).unwrap().unwrap();
    assert_eq!((stats.state, stats.releases), (JobState::Ready, 0));
}

#[test]
fn a_session_starts_without_a_server() {
    let nowhere = dead_address();
    let mut terminal = Terminal::run(&PROGRAM, &nowhere, &[("NO_COLOR", "1")], &["repl"]);
    terminal.sees("UNAVAILABLE");
    terminal.sees("not connected> ");
    terminal.says("put x", "UNAVAILABLE");
    terminal.sees("not connected> ");
    terminal.types("\u{4}");
    assert_eq!(terminal.ends(), 0);
}
