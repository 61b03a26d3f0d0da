//! A command line for every command.

use std::any::Any;

use ctl_contract::formats::{Sample, Samples};
use fixtures::beanstalkd::Server;

use crate::harness::*;

const RECORD: &str = r#"{"v":1,"tube":"imported","state":"ready","pri":1,"body":"x"}"#;

pub(crate) const SAMPLES: Samples = Samples {
    succeeding: &[
        Sample::of("put", &["put", "-t", "mail", "x", "y"]),
        Sample::of("reserve", &["reserve", "-t", "mail"]),
        Sample::of("pop", &["pop", "-t", "mail"]),
        Sample::of("peek", &["peek", "1", "4"]),
        Sample::of("jobs", &["jobs", "--with-body"]),
        Sample::of("job", &["job", "1", "--with-body"]),
        Sample::of("tubes", &["tubes"]),
        Sample::of("server", &["server"]).without_shape(),
        Sample::of("delete", &["delete", "1", "2"]),
        Sample::of("edit", &["edit", "1", "new"]),
        Sample::of("kick", &["kick", "-t", "mail", "--all"]),
        Sample::of("bury", &["bury", "1"]),
        Sample::of("release", &["release", "4"]),
        Sample::of("pause", &["pause", "mail", "5s"]),
        Sample::of("clear", &["clear", "mail", "--yes"]),
        Sample::of("drain", &["drain", "mail", "--yes"]),
        Sample::of("move", &["move", "--from", "mail", "--to", "sms", "--yes"]),
        Sample::of("work", &["work", "-t", "mail", "--max-idle", "0", "--exec", "true"]),
        Sample::of("export", &["export"]),
        Sample::of("import", &["import", "-"]).fed(RECORD),
        Sample::of("check server", &["check", "server"]),
        Sample::of("check tube", &["check", "tube", "mail", "-c", "workers=0:", "-c", "buried=1"]),
        Sample::of("check tubes", &["check", "tubes", "*", "-c", "workers=0:", "-c", "buried=1"]),
        Sample::of("check job", &["check", "job", "1"]),
        Sample::of("check roundtrip", &["check", "roundtrip"]),
        Sample::of("wait", &["wait", "--for", "ready>=1", "-t", "mail"]),
        Sample::of("repl", &["repl", "-e", "stats-tube mail"]),
        Sample::of("raw", &["raw", "stats-tube mail"]),
    ],
    failing: &[
        // It runs until jobs arrive.
        Sample::of("tail", &["tail", "mail", "--filter", "nothing"]),
    ],
    prepared,
};

/// Ready jobs 1 and 2, a delayed one 3, a buried one 4, all in the tube mail; bodies of every kind.
fn prepared() -> (Box<dyn Any>, String) {
    let server = Server::start().unwrap();
    let address = server.address();
    put(address, "mail", "hello\tworld\n");
    put(address, "mail", b"\xff\x00");
    put_delayed(address, "mail", "");
    put_buried(address, "mail", "{\"a\":1}");
    let address = address.to_owned();
    (Box::new(server), address)
}
