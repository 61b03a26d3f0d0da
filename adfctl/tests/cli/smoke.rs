//! `smoke` passes if everything works, and names the step that fails.

use fixtures::adf_queue::Server;
use fixtures::fault::Fault;

use crate::harness::*;

const STEPS: [(&str, &str); 9] = [
    ("createqueue", "createqueue"),
    ("rpush", "rpush"),
    ("count", "count"),
    ("pull", "pull"),
    ("lcancel", "lcancel"),
    ("pull again", "pull"),
    ("delete", "delete"),
    ("count", "count"),
    ("deletequeue", "deletequeue"),
];

#[test]
fn every_step_passes_and_nothing_is_left() {
    on_both(|site| {
        let rows = adfctl(site.address(), &["smoke", "-o", "json"]).exits(0).json();
        let rows = rows.as_array().unwrap();
        let steps: Vec<&str> = rows.iter().map(|row| row["step"].as_str().unwrap()).collect();
        assert_eq!(steps, STEPS.map(|(step, _)| step));
        assert!(rows.iter().all(|row| row["ok"] == true), "{rows:?}");
    });
    let server = Server::start().unwrap();
    adfctl(server.address(), &["smoke"]).exits(0);
    assert_eq!(server.queues(), []);
}

#[test]
fn a_step_that_fails_is_named_and_cleaned_up_after() {
    for (at, (step, action)) in STEPS.into_iter().enumerate() {
        let server = Server::start().unwrap();
        let same = STEPS[..=at].iter().filter(|(_, other)| *other == action).count();
        server.faults().add(Fault::nth(same as u64).of(action).reply("not today."));
        let rows = adfctl(server.address(), &["smoke", "-o", "json"]).exits(1).json();
        assert_eq!(rows.as_array().unwrap().len(), at + 1, "{step}: {rows}");
        let last = rows[at].clone();
        assert_eq!((last["step"].as_str(), &last["ok"]), (Some(step), &false.into()), "{last}");
        assert!(last["got"].as_str().unwrap().contains("not today."), "{last}");
        assert_eq!(server.queues(), [], "{step}");
    }
}

#[test]
fn a_broken_connection_has_its_own_code_and_the_row_says_where() {
    for (fault, code) in [
        (Fault::nth(1).of("lcancel").cut_after(0), 4),
        (Fault::nth(1).of("lcancel").hang(), 4),
        (Fault::nth(1).of("lcancel").reply_bytes(*b"\x82\x01\xff"), 4),
    ] {
        let server = Server::start().unwrap();
        server.faults().add(fault);
        let ran = adfctl(server.address(), &["smoke", "--timeout", "3s"]).exits(code);
        let last = ran.lines().last().copied().unwrap_or_default();
        assert!(last.starts_with("lcancel\t") && last.ends_with("\tfalse"), "{ran:?}");
    }
}
