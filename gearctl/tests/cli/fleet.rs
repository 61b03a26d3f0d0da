//! Several servers, one of which may be dead.

use fixtures::gearmand::Server;
use serde_json::json;

use crate::harness::*;

/// Two servers, a dead one before them, and the list of all.
struct Fleet {
    dead: String,
    one: Server,
    two: Server,
}

impl Fleet {
    fn start() -> Self {
        let (one, two) = (Server::start().unwrap(), Server::start().unwrap());
        Self { dead: dead_address(), one, two }
    }

    fn alive(&self) -> String {
        format!("{},{}", self.one.address(), self.two.address())
    }

    fn all(&self) -> String {
        format!("{},{}", self.dead, self.alive())
    }
}

#[test]
fn what_is_listed_is_asked_of_every_server() {
    let fleet = Fleet::start();
    let (one, two) = (fleet.one.address(), fleet.two.address());
    queue(one, "mail", b"x");
    queue(two, "mail", b"y");
    let expected = format!("{one}\tmail\t1\t1\t0\t0\n{two}\tmail\t1\t1\t0\t0\n");
    assert_eq!(gearctl(&fleet.alive(), &["functions"]).exits(0).out(), expected);
    let ran = gearctl(&fleet.all(), &["functions"]).exits(69);
    assert_eq!(ran.out(), expected);
    assert_eq!(ran.err.matches(&fleet.dead).count(), 1, "{}", ran.err);
    let ran = gearctl(&fleet.all(), &["functions", "--diff", "--interval", "1ms"]).exits(69);
    assert_eq!(ran.err.matches(&fleet.dead).count(), 1, "{}", ran.err);
    let rows = gearctl(&fleet.alive(), &["workers", "-o", "json"]).exits(0).json();
    assert!(rows.as_array().unwrap().iter().any(|row| row["server"] == two), "{rows}");
    let rows = gearctl(&fleet.all(), &["jobs", "-o", "json"]).exits(69).json();
    let servers: Vec<_> = rows.as_array().unwrap().iter().map(|row| &row["server"]).collect();
    assert_eq!(servers, [&json!(one), &json!(two)]);
    // Of a single server there is nothing new.
    assert_eq!(gearctl(one, &["functions"]).exits(0).out(), "mail\t1\t1\t0\t0\n");
    let dead = format!("{},{}", fleet.dead, dead_address());
    assert_eq!(gearctl(&dead, &["functions", "-o", "json"]).exits(69).error_alone()["exit"], 69);
}

#[test]
fn a_check_is_as_bad_as_the_worst_server() {
    let fleet = Fleet::start();
    let check = |servers: &str, what: &[&str]| gearctl(servers, &[&["check"], what].concat());
    assert!(check(&fleet.alive(), &["server"]).exits(0).out().contains("2 servers fine"));
    let said = check(&fleet.all(), &["server", "-c", "queued=5"]).exits(2);
    assert!(said.out().contains(&fleet.dead), "{}", said.out());
    let figure = format!("'{}_queued'=0;", fleet.two.address());
    assert!(said.out().contains(&figure), "what came is reported, too: {}", said.out());
    queue(fleet.two.address(), "mail", b"x");
    let said = check(&fleet.alive(), &["function", "mail", "-c", "queued=0"]).exits(2);
    let subject = format!("mail on {} ", fleet.two.address());
    assert!(said.out().contains(&subject), "{}", said.out());
}

#[test]
fn a_ping_says_which_server_is_dead() {
    let fleet = Fleet::start();
    let ran = gearctl(&fleet.all(), &["ping", "-o", "json"]).exits(69);
    let rows = ran.json();
    assert_eq!(rows[0]["address"], fleet.dead.as_str());
    assert!(rows[0]["error"].is_string() && rows[0].get("ms").is_none(), "{rows}");
    assert!(rows[2]["ms"].is_number() && rows[2]["address"] == fleet.two.address(), "{rows}");
    let summary = format!("{}: 0 of 1 answered", fleet.dead);
    assert!(ran.says(&summary), "{}", ran.err);
}

#[test]
fn a_job_is_found_and_cancelled_wherever_it_is() {
    let fleet = Fleet::start();
    // The first one is known to the second server alone.
    queue(fleet.one.address(), "mail", b"x");
    queue(fleet.two.address(), "mail", b"y");
    let handle = queue(fleet.two.address(), "mail", b"z");
    let job = gearctl(&fleet.all(), &["job", &handle, "-o", "json"]).exits(0);
    assert_eq!(job.json()["server"], fleet.two.address());
    assert!(job.err.contains(&fleet.dead), "{}", job.err);
    gearctl(&fleet.all(), &["cancel", &handle]).exits(0);
    assert!(gearctl(&fleet.alive(), &["job", "H:none:1"]).exits(1).err.contains("no server knows"));
    // The dead one may have it.
    gearctl(&fleet.all(), &["job", "H:none:1"]).exits(69);
    gearctl(&fleet.all(), &["cancel", "H:none:1"]).exits(69);
    gearctl(&fleet.alive(), &["cancel", "H:none:1"]).exits(1);
}
