//! Exit codes and errors.

use crate::harness::*;

#[test]
fn reads_the_environment_variables_of_the_standard_tools() {
    let dead = dead_address();
    for (name, seen) in [("GEARCTL_SERVER", true), ("GEARMAN_SERVER", true), ("GEARMAND", false)] {
        let mut line = command(&["ping"]);
        line.env(name, &dead);
        let ran = ended(line.spawn().unwrap());
        assert_eq!(ran.err.contains(&format!("environment {name}")), seen, "{}", ran.err);
    }
}

#[test]
fn falls_back_to_the_second_server() {
    on_both(|site| {
        let dead = dead_address();
        let both = format!("{dead},{}", site.address());
        gearctl(&both, &["submit", "f", "x"]).exits(0);
        bare(&["-s", &dead, "-s", site.address(), "submit", "f", "x"]).exits(0);
    });
}

/// Jobs are cancelled one by one.
#[test]
fn cancel_refuses_a_batch() {
    let ran = bare(&["cancel", "H:x:1", "--batch", "5"]).exits(2);
    assert!(ran.says("error: unexpected argument '--batch'"), "{}", ran.err);
}
