//! `check roundtrip` passes if everything works, and names the step that fails.

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
fn passes_every_step_and_cleans_up() {
    on_both(|site| drop(adfctl(site.address(), &["check", "roundtrip"]).exits(0)));
    let server = Server::start().unwrap();
    adfctl(server.address(), &["check", "roundtrip"]).exits(0);
    assert_eq!(server.queues(), []);
}

#[test]
fn names_the_failing_step_and_cleans_up() {
    for (at, (step, action)) in STEPS.into_iter().enumerate() {
        let server = Server::start().unwrap();
        let same = STEPS[..=at].iter().filter(|(_, other)| *other == action).count();
        server.faults().add(Fault::nth(same as u64).of(action).reply("not today."));
        let ran = adfctl(server.address(), &["check", "roundtrip"]).exits(2);
        let out = ran.out();
        assert!(
            out.contains(&format!("roundtrip: {step}: ")) && out.contains("not today."),
            "{out}"
        );
        assert_eq!(server.queues(), [], "{step}");
    }
}

#[test]
fn names_the_step_of_a_broken_connection() {
    for fault in [
        Fault::nth(1).of("lcancel").cut_after(0),
        Fault::nth(1).of("lcancel").hang(),
        Fault::nth(1).of("lcancel").reply_bytes(*b"\x82\x01\xff"),
    ] {
        late("roundtrip: lcancel: ", |limit| {
            let server = Server::start().unwrap();
            server.faults().add(fault.clone());
            adfctl(server.address(), &["check", "roundtrip", "--timeout", limit]).exits(2)
        });
    }
}
