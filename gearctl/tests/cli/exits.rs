//! Exit codes and errors.

use crate::harness::*;

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
    on_both(|site| {
        let dead = dead_address();
        let both = format!("{dead},{}", site.address());
        gearctl(&both, &["submit", "f", "x"]).exits(0);
        bare(&["-s", &dead, "-s", site.address(), "submit", "f", "x"]).exits(0);
    });
}
