//! Scenarios of tubes, the watch list, drain mode, raw commands, and of every refusal.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use beanstalk_client::{
    ErrorKind, Fate, PutOptions, ReleaseOptions, TubeName,
    protocol::{PeekReady, RawCommand, Response},
};
use fixtures::{
    beanstalkd::{Server, Verb, Version},
    fault::Fault,
};

use crate::support::{
    Environment, Face, both_faces,
    catalogue::{self, Sample, Visitor},
    place::{connect, start, with_client},
    scenarios,
};

fn names(tubes: &[TubeName]) -> Vec<&str> {
    tubes.iter().map(TubeName::as_str).collect()
}

scenarios!(
    use_and_watch_are_mirrored_and_listed,
    a_client_watches_only_the_given_tubes,
    a_draining_server_refuses_puts_and_serves_the_rest,
    quit_closes_the_connection,
    raw_commands_are_sent_as_they_are,
    unsendable_commands_are_refused_before_sending,
);

fn use_and_watch_are_mirrored_and_listed<F: Face>(environment: Environment) {
    let (_place, mut client) = environment.with_client::<F>();
    assert_eq!(client.list_tube_used().unwrap(), "default");
    client.use_tube("out").unwrap();
    assert_eq!(client.list_tube_used().unwrap(), "out");
    assert_eq!(*client.used_tube(), "out");
    assert_eq!(client.watch("in").unwrap(), 2);
    assert_eq!(client.watch("in").unwrap(), 2);
    assert_eq!(client.ignore("never-watched").unwrap(), 2);
    assert_eq!(client.ignore("default").unwrap(), 1);
    assert_eq!(names(&client.list_tubes_watched().unwrap()), ["in"]);
    assert_eq!(names(client.watched_tubes()), ["in"]);
    let mut tubes = client.list_tubes().unwrap();
    tubes.sort();
    assert_eq!(names(&tubes), ["default", "in", "out"]);
}

fn a_client_watches_only_the_given_tubes<F: Face>(environment: Environment) {
    let (_place, mut client) = environment.with_client::<F>();
    client.watch("old").unwrap();
    client.watch_only(vec!["mail", "sms", "mail"]).unwrap();
    let watched = |client: &mut F| {
        let mut watched = client.list_tubes_watched().unwrap();
        watched.sort();
        watched
    };
    assert_eq!(names(&watched(&mut client)), ["mail", "sms"]);
    client.watch_only(vec!["sms", "default"]).unwrap();
    assert_eq!(names(&watched(&mut client)), ["default", "sms"]);
    let commands = client.metrics().commands;
    client.watch_only(vec!["default", "sms"]).unwrap();
    for wrong in [vec![], vec!["mail", "no good"]] {
        assert_eq!(client.watch_only(wrong).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    assert_eq!(client.metrics().commands, commands, "nothing was sent");
    assert_eq!(names(client.watched_tubes()).len(), 2);
}

#[cfg(unix)]
fn a_draining_server_refuses_puts_and_serves_the_rest<F: Face>(environment: Environment) {
    let (place, mut client) = environment.with_client::<F>();
    assert_eq!(client.stats().unwrap().draining, Some(false));
    let _ = client.put(b"before", PutOptions::default()).unwrap();
    place.drain();
    let error = client.put(b"after", PutOptions::default()).unwrap_err();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::Draining, Fate::Refused));
    assert!(error.is_temporary());
    assert!(client.is_connected());
    let job = client.reserve().unwrap().job().unwrap();
    client.release(&job, ReleaseOptions::new(0)).unwrap();
    let job = client.reserve().unwrap().job().unwrap();
    client.delete(&job).unwrap();
    let stats = client.stats().unwrap();
    assert_eq!((stats.draining, stats.cmd_put, stats.total_jobs), (Some(true), 2, 1));
}

#[cfg(not(unix))]
fn a_draining_server_refuses_puts_and_serves_the_rest<F: Face>(_: Environment) {}

fn quit_closes_the_connection<F: Face>(environment: Environment) {
    let (place, mut other) = environment.with_client::<F>();
    let mut client: F = place.connect();
    let id = client.put(b"x", PutOptions::default()).unwrap().id();
    let _ = client.reserve().unwrap().job().unwrap();
    client.quit().unwrap();
    let job = other.reserve_with_timeout(crate::support::place::PATIENCE).unwrap().job().unwrap();
    assert_eq!(job.id, id);
}

fn raw_commands_are_sent_as_they_are<F: Face>(environment: Environment) {
    let (_place, mut client) = environment.with_client::<F>();
    let mut raw = |line: &str| client.call(&RawCommand::new(line).unwrap()).unwrap();
    assert_eq!(raw("no-such-command"), Response::UnknownCommand);
    assert_eq!(raw("stats-foo"), Response::BadFormat);
    assert_eq!(raw("peek x"), Response::BadFormat);
    assert_eq!(raw("watch a"), Response::Watching(2));
    assert_eq!(raw("use a"), Response::Using("a".into()));
    assert_eq!(names(client.watched_tubes()), ["default", "a"]);
    let put = RawCommand::with_body("put 0 0 1 4", "\r\n\r\n").unwrap();
    assert!(matches!(client.call(&put).unwrap(), Response::Inserted(_)));
    assert_eq!(client.call(&PeekReady).unwrap().unwrap().body, "\r\n\r\n");
}

fn unsendable_commands_are_refused_before_sending<F: Face>(environment: Environment) {
    let (place, mut client) = environment.with_client::<F>();
    let too_long = Duration::from_secs(1 << 32);
    let names = ["", "-a", "a b", "a\r\ndelete 1", "a\0", "\u{e9}", &"x".repeat(201)];
    let mut errors = Vec::new();
    for name in names {
        errors.push(client.use_tube(name).unwrap_err());
        errors.push(client.watch(name).unwrap_err());
        errors.push(client.ignore(name).unwrap_err());
        errors.push(client.stats_tube(name).unwrap_err());
        errors.push(client.pause_tube(name, Duration::ZERO).unwrap_err());
    }
    errors.push(client.put(b"", PutOptions::default().delay(too_long)).unwrap_err());
    errors.push(client.put(b"", PutOptions::default().ttr(too_long)).unwrap_err());
    errors.push(client.release(1, ReleaseOptions::new(0).delay(too_long)).unwrap_err());
    errors.push(client.pause_tube("a", too_long).unwrap_err());
    errors.push(client.reserve_with_timeout(Duration::from_secs(1 << 31)).unwrap_err());
    for error in errors {
        assert_eq!((error.kind(), error.fate()), (ErrorKind::InvalidInput, Fate::NotSent));
    }
    // The server has seen none of them.
    if let crate::support::Place::InMemory(server) = &place {
        assert_eq!(server.requests(), []);
    }
    assert_eq!(client.stats().unwrap().cmd_put, 0);
    assert!(client.is_connected());
}

both_faces!(
    every_refusal_of_every_command_is_typed,
    reserve_job_is_unsupported_before_1_12,
    an_unknown_word_is_kept_and_the_connection_stays,
    a_known_word_that_does_not_belong_closes_the_connection,
    a_job_that_the_server_could_only_bury_is_a_success_with_a_warning,
);

const REFUSALS: [(&str, ErrorKind); 9] = [
    ("OUT_OF_MEMORY", ErrorKind::OutOfMemory),
    ("INTERNAL_ERROR", ErrorKind::InternalError),
    ("BAD_FORMAT", ErrorKind::BadFormat),
    ("UNKNOWN_COMMAND", ErrorKind::UnknownCommand),
    ("DRAINING", ErrorKind::Draining),
    ("EXPECTED_CRLF", ErrorKind::ExpectedCrlf),
    ("JOB_TOO_BIG", ErrorKind::JobTooBig),
    ("NOT_IGNORED", ErrorKind::NotIgnored),
    ("NOT_FOUND", ErrorKind::NotFound),
];

struct Refuse<F> {
    server: Arc<Server>,
    client: F,
    visited: Arc<Mutex<Vec<&'static str>>>,
}

impl<F: Face> Visitor for Refuse<F> {
    fn visit<C: Sample>(&mut self, command: C, _: &[&[u8]]) {
        self.visited.lock().unwrap().push(C::NAME);
        assert!(C::NAME.parse::<Verb>().is_ok(), "{} is no command", C::NAME);
        for (word, kind) in REFUSALS {
            self.server.faults().add(Fault::nth(1).of(C::NAME).reply(word));
            let outcome = self.client.call(&command);
            // Looking up something that does not exist is not an error.
            let lookup = [
                "peek",
                "peek-ready",
                "peek-delayed",
                "peek-buried",
                "stats-job",
                "stats-tube",
                "reserve-job",
            ];
            if word == "NOT_FOUND" && lookup.contains(&C::NAME) {
                assert_eq!(format!("{:?}", outcome.unwrap()), "None", "{} {word}", C::NAME);
                continue;
            }
            let unsupported =
                C::NAME == "reserve-job" && matches!(word, "BAD_FORMAT" | "UNKNOWN_COMMAND");
            let kind = if unsupported { ErrorKind::Unsupported } else { kind };
            let error = outcome.unwrap_err();
            assert_eq!(
                (error.kind(), error.fate(), error.command()),
                (kind, Fate::Refused, Some(C::NAME)),
                "{} {word}: {error}",
                C::NAME
            );
            // Only a misread put leaves the stream out of step.
            let misread = C::NAME == "put"
                && matches!(word, "BAD_FORMAT" | "UNKNOWN_COMMAND" | "EXPECTED_CRLF");
            assert_eq!(self.client.is_connected(), !misread, "{} {word}", C::NAME);
            assert_eq!(self.client.list_tube_used().unwrap(), "default", "{} {word}", C::NAME);
        }
    }
}

fn every_refusal_of_every_command_is_typed<F: Face>() {
    let server = Arc::new(Server::start().unwrap());
    let visited = Arc::default();
    let client: F = connect(server.address());
    let mut visitor = Refuse { server, client, visited: Arc::clone(&visited) };
    catalogue::each(&mut visitor);
    let mut visited = visited.lock().unwrap().clone();
    visited.push("quit");
    visited.sort_unstable();
    let mut all: Vec<&str> = Verb::ALL.iter().map(|verb| verb.as_str()).collect();
    all.sort_unstable();
    assert_eq!(visited, all);
}

fn reserve_job_is_unsupported_before_1_12<F: Face>() {
    for version in Version::ALL {
        let (_server, mut client) =
            with_client::<F>(Server::builder().version(version).start().unwrap());
        match client.reserve_job(1) {
            Ok(job) => {
                assert!(version >= Version::V1_12, "{version}");
                assert_eq!(job, None);
            }
            Err(error) => {
                assert!(version < Version::V1_12, "{version}");
                assert_eq!(error.kind(), ErrorKind::Unsupported);
                assert!(error.to_string().contains("1.12"), "{error}");
            }
        }
        assert!(client.is_connected());
    }
}

fn an_unknown_word_is_kept_and_the_connection_stays<F: Face>() {
    let (server, mut client) = start::<F>();
    server.faults().add(Fault::nth(1).of("delete").reply("FLUSHED 3 \x1b[2J"));
    let error = client.delete(1).unwrap_err();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::UnexpectedReply, Fate::Refused));
    assert_eq!(error.reply(), Some(&b"FLUSHED 3 \x1b[2J"[..]));
    assert!(error.to_string().contains("FLUSHED 3 \\x1b[2J"), "{error}");
    assert!(client.is_connected());
    server.faults().add(Fault::nth(1).of("put").reply("OUT_OF_STORAGE"));
    let error = client.put(b"x", PutOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnexpectedReply);
    assert_eq!(client.list_tube_used().unwrap(), "default");
}

fn a_known_word_that_does_not_belong_closes_the_connection<F: Face>() {
    let (server, mut client) = start::<F>();
    server.faults().add(Fault::nth(1).of("delete").reply("TOUCHED"));
    let error = client.delete(1).unwrap_err();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::Protocol, Fate::Unknown));
    assert!(!client.is_connected());
    server.faults().add(Fault::nth(1).of("use").reply("USING other"));
    assert_eq!(client.use_tube("mine").unwrap_err().kind(), ErrorKind::Protocol);
    server.faults().add(Fault::nth(1).of("put").reply("BURIED"));
    let error = client.put(b"x", PutOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol);
}

fn a_job_that_the_server_could_only_bury_is_a_success_with_a_warning<F: Face>() {
    let (server, mut client) = start::<F>();
    server.faults().add(Fault::nth(1).of("put").reply("BURIED 18446744073709551615"));
    let inserted = client.put(b"x", PutOptions::default()).unwrap();
    assert!(inserted.is_buried());
    assert_eq!(inserted.id().get(), u64::MAX);
    server.faults().add(Fault::nth(1).of("release").reply("BURIED"));
    let released = client.release(1, ReleaseOptions::new(0)).unwrap();
    assert_eq!(released, beanstalk_client::Released::Buried);
}
