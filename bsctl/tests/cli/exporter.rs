//! `exporter`, beyond the contract of every tool.

use std::time::Duration;

use ctl_contract::exporter::Exporter;
use fixtures::beanstalkd::Server;

use crate::harness::*;

/// Even a tube whose jobs the exporter has peeked at, because a tube exists while a client uses it.
#[test]
fn exporter_does_not_keep_an_empty_tube_alive() {
    on_both(|address| {
        let id = put(address, "mail", "");
        let exporter = Exporter::start(&PROGRAM, address);
        assert!(exporter.metrics().contains("tube=\"mail\""));
        client(address).delete(id).unwrap();
        let after = exporter.metrics();
        assert!(!after.contains("tube=\"mail\"") && after.contains("tube=\"default\""), "{after}");
        exporter.end();
    });
}

/// A worker has to be there by the time that a job is due.
#[test]
fn exporter_scale_includes_delayed_jobs_on_request() {
    on_both(|address| {
        put(address, "mail", "");
        put_delayed(address, "mail", "");
        put_delayed(address, "news", "");
        let exporter = Exporter::start(&PROGRAM, address);
        for (query, value) in [
            ("queue=mail", 1),
            ("queue=mail&include=delayed", 2),
            ("queue=mail&queue=news&include=delayed", 3),
        ] {
            let (status, document) = exporter.scale(query);
            assert!(status.contains("200"), "{query}: {status} {document}");
            assert_eq!(document["value"], value, "{query}: {document}");
        }
        exporter.end();
    });
}

/// They are queried together, and each answer belongs to its own tube, whatever comes in between.
#[test]
fn the_age_of_the_oldest_job_is_that_of_its_own_tube() {
    let server = Server::builder().virtual_clock().start().unwrap();
    let address = server.address();
    put(address, "first", "");
    server.advance(Duration::from_secs(5));
    put_delayed(address, "later", "");
    put(address, "second", "");
    server.advance(Duration::from_secs(2));
    let ran = bsctl(address, &["exporter", "-c", "1"]).exits(0);
    let text = ran.out();
    let age = |tube: &str| -> f64 {
        let figure = "beanstalkd_tube_oldest_job_age_seconds";
        let name = format!("{figure}{{server=\"{address}\",tube=\"{tube}\"}} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&name));
        line.unwrap_or_else(|| panic!("{tube}: {text}")).parse().unwrap()
    };
    assert_eq!(["first", "second", "later", "default"].map(age), [7.0, 2.0, 0.0, 0.0]);
    let check = ["check", "tube", "second", "-w", "oldest-age=0:3600", "-c", "workers=0:"];
    bsctl(address, &check).exits(0);
}
