//! Exit codes and errors.

use crate::harness::*;

/// One line for every command that talks to a server.
pub(crate) const LINES: &[&[&str]] = &[
    &["run", "f", "x"],
    &["submit", "f", "x"],
    &["work", "-f", "f", "--builtin", "echo"],
    &["map", "f"],
    &["smoke"],
    &["wait", "--for", "idle", "-f", "f"],
    &["ping"],
    &["version"],
    &["pid"],
    &["verbose"],
    &["server"],
    &["functions"],
    &["function", "create", "f"],
    &["function", "drop", "f"],
    &["function", "maxqueue", "f", "1"],
    &["workers"],
    &["jobs"],
    &["unique-jobs"],
    &["job", "H:x:1"],
    &["cancel", "H:x:1"],
    &["raw", "status"],
];

#[test]
fn a_dead_port_is_69_and_json_says_so() {
    let address = dead_address();
    for line in LINES {
        let ran = gearctl(&address, &[line, &["-o", "json"][..]].concat()).exits(69);
        assert_eq!(ran.error_alone()["exit"], 69, "{line:?}");
    }
}

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

/// Nothing is grabbed, submitted or asked for the sake of an output that cannot be.
#[test]
fn a_wrong_column_is_2_before_anything_is_sent() {
    let address = dead_address();
    let lines: [&[&str]; 9] = [
        &["functions"],
        &["workers"],
        &["jobs"],
        &["unique-jobs"],
        &["drain", "f", "--yes", "--to", "-"],
        &["export", "f", "--yes"],
        &["smoke"],
        &["bench", "--msgs", "5"],
        &["ping"],
    ];
    for line in lines {
        let ran = gearctl(&address, &[line, &["--columns", "no-such"]].concat()).exits(2);
        assert!(ran.err.contains("no-such"), "{line:?}: {}", ran.err);
    }
}
