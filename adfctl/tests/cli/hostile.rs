//! Names and bodies that would harm a terminal, a log or a shell.

use fixtures::adf_queue::Server;

use crate::harness::*;

/// Escapes, a bell, DEL, C1, and characters that turn or hide text.
const NAME: &str = "a\x1b[2J\x07\x7f\u{9b}\u{202e}\u{200b}b";

fn acts(c: char) -> bool {
    c.is_control() && c != '\n' && c != '\t' || "\u{202e}\u{200b}".contains(c)
}

#[test]
fn escapes_names_and_bodies_on_a_terminal_behind_a_pipe() {
    let server = Server::builder().queue(NAME).start().unwrap();
    let address = format!("adf+json://{}", server.address());
    adfctl(&address, &["push", NAME, NAME, NAME, NAME, NAME, NAME, NAME, NAME]).exits(0);
    for format in ["plain", "table", "wide", "json", "ndjson", "yaml"] {
        for line in [["queues", "*"], ["pop", NAME]] {
            let ran = adfctl(&address, &[&line[..], &["-o", format]].concat()).exits(0);
            assert!(!ran.out().is_empty(), "{format} {line:?}");
            assert!(!ran.out().contains(acts) && !ran.err.contains(acts), "{line:?} {ran:?}");
        }
    }
    for line in [
        &["queue", "create", NAME][..],
        &["queue", "delete", NAME],
        &["clear", NAME],
        &["pull", NAME],
        &["queues", &format!("--{NAME}")],
    ] {
        let ran = adfctl(&address, line);
        let shown = ran.err.contains(acts) || String::from_utf8_lossy(&ran.bytes).contains(acts);
        assert!(!shown, "{line:?} {ran:?}");
    }
}

#[test]
fn never_runs_a_name_or_body_in_a_shell() {
    let folder = tempfile::tempdir().unwrap();
    let canary = folder.path().join("canary");
    let text = format!("$(touch {0}); touch {0}", canary.display());
    let server = Server::builder().queue(text.clone()).start().unwrap();
    adfctl(server.address(), &["push", &text, &text]).exits(0);
    let refused = ["pull", &text, "--exec", "sh", "-c", "echo {queue}"];
    let ran = adfctl(server.address(), &refused).exits(2);
    assert!(ran.err.contains("$ADFCTL_QUEUE"), "{}", ran.err);
    let line = ["pull", &text, "--exec", "sh", "-c", "test \"$ADFCTL_QUEUE\" = \"$(cat)\""];
    adfctl(server.address(), &line).exits(0);
    assert!(!canary.exists());
}
