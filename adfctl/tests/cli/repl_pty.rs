//! Sessions as a person uses them: through a pseudo-terminal.

use ctl_contract::terminal::{READS, Terminal};
use fixtures::adf_queue::{Listen, Server};

use crate::harness::*;

#[test]
fn the_prompt_shows_pulled_messages_and_exit_asks_about_them() {
    on_both(|site| {
        let (address, queue) = (site.address(), site.queue("asked"));
        let q = &queue.name;
        let mut terminal = Terminal::plain(&PROGRAM, address);
        terminal.says(&format!("push {q} one two three"), "3");
        terminal.sees(READS);
        terminal.says(&format!("pull {q}"), "one");
        terminal.sees(&format!("{address} *1> "));
        terminal.says(&format!("pull {q}"), "two");
        terminal.sees(&format!("{address} *2> "));
        terminal.says("pulled", "DELIVERY");
        terminal.sees(" *2> ");
        terminal.types("\u{4}");
        terminal.sees("2 messages pulled: [l]cancel (default) / [r]cancel / [d]elete / [s]tay: ");
        terminal.says("c", " *2> ");
        terminal.says("quit", "[s]tay: ");
        terminal.says("r", "2 messages put back at the right end");
        assert_eq!(terminal.ends(), 0);
        let rest = adfctl(address, &["pop", q, "-c", "9", "--columns", "body"]).exits(0);
        assert_eq!(rest.out(), "three\none\ntwo\n");
    });
}

#[test]
fn ctrl_c_abandons_a_pull_and_a_late_message_is_reported() {
    on_both(|site| {
        let (address, queue) = (site.address(), site.queue("later"));
        let q = &queue.name;
        let mut terminal = Terminal::plain(&PROGRAM, address);
        terminal.types(&format!("pull {q}\r"));
        let waits = ["wait", "--for", "waiting>=1", q, "--interval", "10ms"];
        adfctl(address, &waits).exits(0);
        terminal.types("\u{3}");
        terminal.sees("cancelled");
        terminal.sees(&format!("waiting:{q}> "));
        adfctl(address, &["push", q, "late"]).exits(0);
        // While the prompt is idle.
        terminal.sees("message 1 of");
        terminal.types("\r");
        terminal.sees(&format!("{address} *1> "));
        terminal.says("delete", "is deleted");
        terminal.sees(&format!("{address}> "));
        terminal.leaves();
        assert_eq!(ready(address, q), 0);
    });
}

#[test]
fn reports_a_lost_connection_at_the_prompt() {
    let port = fixtures::Port::take().unwrap();
    let listen = || Listen::Tcp(port.address());
    let server = Server::builder().queue("/q").listen(listen()).start().unwrap();
    let address = server.address().to_owned();
    let mut terminal = Terminal::plain(&PROGRAM, &address);
    terminal.says("push /q x", "1");
    terminal.sees(READS);
    terminal.says("pull /q", "x");
    terminal.sees(" *1> ");
    server.stop();
    terminal.sees("connection lost");
    terminal.sees("message 1 of /q went back");
    terminal.sees("not connected> ");
    let _again = Server::builder().listen(listen()).start().unwrap();
    terminal.sees("reconnected");
    terminal.sees(&format!("{address}> "));
    terminal.leaves();
}

#[test]
fn tab_completes_verbs_queues_and_pulls() {
    let server = Server::builder().queue("/newsletter").start().unwrap();
    let mut terminal = Terminal::plain(&PROGRAM, server.address());
    terminal.says("push /newsletter x", "1");
    terminal.sees(READS);
    terminal.completes("clear /newsl", "newsletter");
    terminal.interrupts();
    terminal.says("pull /newsletter", " *1> ");
    terminal.types("lcan\t");
    terminal.sees("lcancel");
    terminal.interrupts();
    terminal.says("lcancel all", "put back at the left end");
    terminal.sees(READS);
    terminal.leaves();
}
