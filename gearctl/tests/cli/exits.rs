//! Exit codes and errors.

use crate::harness::*;

#[test]
fn wrong_lines_are_2() {
    for line in [&["nope"][..], &["ping", "--nope"], &[], &["job"], &["function"]] {
        bare(line).exits(2);
        let ran = bare(&[line, &["-o", "json"]].concat()).exits(2);
        assert_eq!(ran.error_alone()["code"], "USAGE", "{line:?}");
    }
}

#[test]
fn the_address_comes_from_the_environment_of_the_standard_tools_too() {
    let dead = dead_address();
    for (name, seen) in [("GEARCTL_SERVER", true), ("GEARMAN_SERVER", true), ("GEARMAND", false)] {
        let mut line = command(&["ping"]);
        line.env(name, &dead);
        let ran = ended(line.spawn().unwrap());
        assert_eq!(ran.err.contains(&format!("environment {name}")), seen, "{}", ran.err);
    }
}

#[test]
fn the_second_server_is_used_when_the_first_is_away() {
    on_both(|server| {
        let both = format!("{},{}", dead_address(), server.address());
        gearctl(&both, &["submit", "f", "x"]).exits(0);
        let dead = dead_address();
        bare(&["-s", &dead, "-s", server.address(), "submit", "f", "x"]).exits(0);
    });
}
