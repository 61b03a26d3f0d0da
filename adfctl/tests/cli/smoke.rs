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
    for (step, action) in [STEPS[0], STEPS[1], STEPS[2], STEPS[3], STEPS[4], STEPS[6]] {
        let server = Server::start().unwrap();
        server.faults().add(Fault::nth(1).of(action).reply("not today."));
        let rows = adfctl(server.address(), &["smoke", "-o", "json"]).exits(1).json();
        let last = rows.as_array().unwrap().last().unwrap().clone();
        assert_eq!((last["step"].as_str(), &last["ok"]), (Some(step), &false.into()), "{last}");
        assert!(last["got"].as_str().unwrap().contains("not today."), "{last}");
        assert_eq!(server.queues(), [], "{step}");
    }
}
