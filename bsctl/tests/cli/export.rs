//! `export | import` is the identity.

use std::sync::LazyLock;
use std::time::Duration;

use beanstalk_client::PutOptions;
use beanstalk_client::blocking::Client;
use fixtures::beanstalkd::Server;
use fixtures::fault::Fault;
use fixtures::real::Beanstalkd;
use proptest::prelude::*;
use serde_json::Value;

use crate::harness::*;

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Ready,
    Delayed,
    Buried,
}

#[derive(Debug, Clone)]
struct Job {
    tube: String,
    state: State,
    pri: u32,
    delay: u32,
    ttr: u32,
    body: Vec<u8>,
}

/// Names that YAML, globs or paths could misread, and one of the maximum length.
fn tube() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("123".to_owned()),
        Just("true".to_owned()),
        Just("1e5".to_owned()),
        Just("a/b".to_owned()),
        Just("n".repeat(200)),
        "[A-Za-z0-9+/;.$_()][A-Za-z0-9+/;.$_()-]{0,20}",
    ]
}

fn job() -> impl Strategy<Value = Job> {
    let state = prop_oneof![Just(State::Ready), Just(State::Delayed), Just(State::Buried)];
    let body = prop::collection::vec(any::<u8>(), 0..300);
    (tube(), state, any::<u32>(), 3600..u32::MAX, 1..u32::MAX, body)
        .prop_map(|(tube, state, pri, delay, ttr, body)| Job { tube, state, pri, delay, ttr, body })
}

/// Bodies that break naive tools.
fn extremes() -> Vec<Job> {
    let bodies = [
        (0..=u8::MAX).collect(),
        Vec::new(),
        vec![0xff; 65_535],
        vec![b'"'; 65_535],
        vec![0; 65_535],
        b"\r\ndelete 1\r\n".to_vec(),
        b"\n".to_vec(),
        "\u{2028}\u{feff}\u{202e}".as_bytes().to_vec(),
    ];
    let job = |body| Job { tube: "x".into(), state: State::Ready, pri: 0, delay: 0, ttr: 60, body };
    bodies.into_iter().map(job).collect()
}

fn fill(address: &str, jobs: &[Job]) {
    let mut client = Client::connect(address).unwrap();
    for job in jobs {
        client.use_tube(job.tube.as_str()).unwrap();
        let is_delayed = match job.state {
            State::Ready => false,
            State::Delayed => true,
            // A delay that is over, and none.
            State::Buried => job.pri % 2 == 0,
        };
        let delay = if is_delayed { job.delay } else { 0 };
        let options = PutOptions::default()
            .priority(job.pri)
            .delay(Duration::from_secs(delay.into()))
            .ttr(Duration::from_secs(job.ttr.into()));
        let id = client.put(&job.body, options).unwrap().id();
        if job.state == State::Buried {
            let reserved = client.reserve_job(id).unwrap().unwrap();
            client.bury(&reserved, job.pri).unwrap();
        }
    }
}

/// The schema published for programs.
static SCHEMA: LazyLock<jsonschema::Validator> = LazyLock::new(|| {
    let text = include_str!("../../../docs/job-record.schema.json");
    jsonschema::validator_for(&serde_json::from_str(text).unwrap()).unwrap()
});

#[test]
fn the_record_schema_matches_import() {
    let server = Server::start().unwrap();
    for (line, is_record) in [
        (r#"{"body":"x"}"#, true),
        (r#"{"v":1,"body":"x","more":[]}"#, true),
        (r#"{"v":2,"body":"x"}"#, false),
        (r#"{"v":1}"#, false),
        (r#"{"body":"x","body_hex":"78"}"#, false),
        (r#"{"body_base64":"x"}"#, false),
        (r#"{"body_hex":"7"}"#, false),
        (r#"{"body":"x","pri":4294967296}"#, false),
        (r#"{"body":"x","tube":"-a"}"#, false),
    ] {
        assert_eq!(SCHEMA.is_valid(&serde_json::from_str(line).unwrap()), is_record, "{line}");
        let imported = bsctl_with(server.address(), &["import", "-"], line.as_bytes());
        assert_eq!(imported.code == Some(0), is_record, "{line}: {}", imported.err);
    }
}

/// What must survive of each record, in the order of the export.
fn essence(export: &[u8]) -> Vec<Value> {
    let keep = |line: &str| {
        let record: Value = serde_json::from_str(line).unwrap();
        SCHEMA.validate(&record).unwrap();
        serde_json::json!([
            record["tube"],
            record["state"],
            record["pri"],
            record["delay"],
            record["ttr"],
            record["body"],
            record["body_base64"],
        ])
    };
    std::str::from_utf8(export).unwrap().lines().map(keep).collect()
}

fn survives(from: &str, to: &str, jobs: &[Job]) {
    fill(from, jobs);
    let exported = bsctl(from, &["export"]).exits(0);
    assert_eq!(exported.lines().len(), jobs.len());
    let report = bsctl_with(to, &["import", "-", "--keep-state", "-o", "json"], &exported.bytes);
    assert_eq!(report.exits(0).json()["succeeded"], jobs.len());
    let again = bsctl(to, &["export"]).exits(0);
    assert_eq!(essence(&again.bytes), essence(&exported.bytes));
    // And the exported jobs are those that were put.
    for (job, record) in jobs.iter().zip(exported.lines()) {
        let record = bsctl::jobs::parse(record.as_bytes()).unwrap();
        assert_eq!(record.body, job.body);
        assert_eq!(record.tube.unwrap().as_str(), job.tube);
        assert_eq!((record.pri, record.ttr), (Some(job.pri), Some(job.ttr)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn export_then_import_restores_every_job(jobs in prop::collection::vec(job(), 1000)) {
        let jobs = [jobs, extremes()].concat();
        let (from, to) = (Server::start().unwrap(), Server::start().unwrap());
        survives(from.address(), to.address(), &jobs);
        if let (Some(from), Some(to)) = (Beanstalkd::start(), Beanstalkd::start()) {
            survives(from.address(), to.address(), &jobs);
        }
    }
}

#[test]
fn buried_jobs_keep_their_order() {
    on_both(|address| {
        for body in ["1", "2", "3"] {
            put_buried(address, "t", body);
        }
        let exported = bsctl(address, &["export", "t"]).exits(0);
        let line = ["import", "-", "--keep-state", "--tube", "copy"];
        bsctl_with(address, &line, &exported.bytes).exits(0);
        bsctl(address, &["kick", "-t", "copy", "--all"]).exits(0);
        let popped = bsctl(address, &["pop", "-t", "copy", "-c", "3", "-o", "raw"]).exits(0);
        assert_eq!(popped.out(), "123");
    });
}

#[test]
fn imports_a_binlog_without_its_server() {
    let folder = tempfile::tempdir().unwrap();
    let real = Beanstalkd::builder().arg("-s").arg("4096").arg("-b").arg(folder.path()).start();
    let Some(mut real) = real else { return };
    let address = real.address();
    let buried = ["3", "1", "2"].map(|body| put_buried(address, "buried", body));
    let options = PutOptions::default().priority(9).ttr(Duration::from_secs(77));
    for at in 0..100 {
        put_with(address, "ready", [b'x', 0, 0xff, at].repeat(20), options);
    }
    put_delayed(address, "delayed", "later");
    let gone = put(address, "gone", "gone");
    client(address).delete(gone).unwrap();
    // The one that was buried first is buried last.
    client(address).kick_job(buried[0]).unwrap();
    bsctl(address, &["bury", &buried[0].to_string()]).exits(0);
    let mut before = essence(&bsctl(address, &["export"]).exits(0).bytes);
    real.kill();
    assert!(std::fs::read_dir(folder.path()).unwrap().count() > 3, "several files and a lock");

    let target = Server::start().unwrap();
    let line = ["import", "--binlog", folder.path().to_str().unwrap(), "--keep-state"];
    let report = bsctl(target.address(), &[&line[..], &["-o", "json"]].concat()).exits(0).json();
    assert_eq!(report["succeeded"], 104);
    let mut after = essence(&bsctl(target.address(), &["export"]).exits(0).bytes);
    for jobs in [&mut before, &mut after] {
        jobs.sort_by_key(|job| format!("{job:?}"));
    }
    assert_eq!(after, before);
    bsctl(target.address(), &["kick", "-t", "buried", "--all"]).exits(0);
    let popped = bsctl(target.address(), &["pop", "-t", "buried", "-c", "3", "-o", "raw"]).exits(0);
    assert_eq!(popped.out(), "123");

    let log = folder.path().join("binlog.1");
    std::fs::set_permissions(&log, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    std::fs::File::options().write(true).open(&log).unwrap().set_len(300).unwrap();
    let ran = bsctl(target.address(), &line).exits(3);
    assert!(ran.err.contains("BINLOG_DAMAGED") && ran.err.contains("at byte"), "{}", ran.err);
    bsctl(target.address(), &["import", "--binlog", "/nonexistent"]).exits(66);
    bsctl(target.address(), &["import", "x", "--binlog", "/nonexistent"]).exits(2);
}

#[test]
fn restores_buried_jobs_hidden_from_waiting_workers() {
    on_both(|address| {
        let options = PutOptions::default().priority(5).delay(Duration::from_secs(77));
        put_buried(address, "t", "x");
        let with_delay = put_with(address, "t", "y", options);
        let mut holder = client(address);
        let job = holder.reserve_job(with_delay).unwrap().unwrap();
        holder.bury(&job, 5).unwrap();
        let exported = bsctl(address, &["export", "t"]).exits(0);
        let address_of_worker = address.to_owned();
        let worker = std::thread::spawn(move || {
            let mut worker = Client::connect(address_of_worker.as_str()).unwrap();
            worker.watch("copy").unwrap();
            worker.reserve().unwrap().job().unwrap().body.to_vec()
        });
        let watched = || client(address).stats_tube("copy").unwrap().map(|t| t.current_waiting);
        while watched() != Some(1) {
            std::thread::yield_now();
        }
        let line = ["import", "-", "--keep-state", "--tube", "copy"];
        bsctl_with(address, &line, &exported.bytes).exits(0);
        let copy = client(address).stats_tube("copy").unwrap().unwrap();
        assert_eq!((copy.current_jobs_buried, copy.pause_time_left), (2, 0));
        // The tube gives out jobs as before.
        put(address, "copy", "work");
        assert_eq!(worker.join().unwrap(), b"work");
        assert_eq!(
            essence(&bsctl(address, &["export", "copy"]).exits(0).bytes)
                .iter()
                .filter(|job| job[1] == "buried")
                .map(|job| (job[2].clone(), job[3].clone()))
                .collect::<Vec<_>>(),
            [(1024.into(), 3600.into()), (5.into(), 77.into())]
        );
    });
}

#[test]
fn import_preserves_an_existing_pause() {
    on_both(|address| {
        let mut keeper = client(address);
        keeper.watch("long").unwrap();
        keeper.watch("short").unwrap();
        keeper.pause_tube("long", Duration::from_secs(3600)).unwrap();
        keeper.pause_tube("short", Duration::from_secs(30)).unwrap();
        for tube in ["long", "short"] {
            let record = format!("{{\"state\":\"buried\",\"tube\":\"{tube}\",\"body\":\"\"}}\n");
            bsctl_with(address, &["import", "-", "--keep-state"], record.as_bytes()).exits(0);
        }
        let mut left = |tube: &str| keeper.stats_tube(tube).unwrap().unwrap().pause_time_left;
        assert!(left("long") > 3000);
        assert!((1..=30).contains(&left("short")));
    });
}

/// A connection watches `default` from the start, and cannot ignore the last tube that it watches.
#[test]
fn restores_buried_jobs_of_the_default_tube() {
    on_both(|address| {
        put_buried(address, "default", "x");
        put_buried(address, "other", "y");
        let exported = bsctl(address, &["export"]).exits(0);
        let ran = bsctl_with(address, &["import", "-", "--keep-state"], &exported.bytes).exits(0);
        assert!(ran.err.starts_with("imported 2 jobs") && ran.err.lines().count() == 1, "{ran:?}");
        for tube in ["default", "other"] {
            let stats = client(address).stats_tube(tube).unwrap().unwrap();
            assert_eq!((stats.current_jobs_buried, stats.pause_time_left), (2, 0), "{tube}");
        }
    });
}

#[test]
fn imports_as_ready_without_keep_state() {
    on_both(|address| {
        put_delayed(address, "t", "");
        put_buried(address, "t", "");
        let exported = bsctl(address, &["export", "t"]).exits(0);
        bsctl_with(address, &["import", "-", "--tube", "copy"], &exported.bytes).exits(0);
        let copy = client(address).stats_tube("copy").unwrap().unwrap();
        assert_eq!(copy.current_jobs_ready, 2);
    });
}

#[test]
fn export_changes_nothing() {
    on_both(|address| {
        let id = put(address, "a", "1");
        put_buried(address, "b", "2");
        bsctl(address, &["export"]).exits(0);
        let stats = stats(address, id).unwrap();
        assert_eq!((stats.reserves, stats.releases), (0, 0));
        assert_eq!(bsctl(address, &["export", "b"]).exits(0).lines().len(), 1);
        let line = ["export", "--state", "reserved", "-o", "ndjson"];
        assert_eq!(bsctl(address, &line).exits(0).out(), "");
    });
}

#[test]
fn names_bad_records_and_imports_the_rest() {
    let server = Server::start().unwrap();
    let records = b"{\"body\":\"a\"}\n[]\n\n{\"body\":\"b\"}\n";
    let ran = bsctl_with(server.address(), &["import", "-", "-o", "json"], records).exits(3);
    let report = ran.json();
    assert_eq!((&report["succeeded"], &report["failed"]), (&2.into(), &1.into()));
    assert_eq!(report["failures"][0]["item"], "stdin record 2");
    bsctl_with(server.address(), &["import", "-"], b"nothing\n").exits(65);
    bsctl(server.address(), &["import", "/no/such/file"]).exits(66);
}

#[test]
fn counts_jobs_left_unburied_by_a_lost_connection() {
    let record = b"{\"tube\":\"t\",\"state\":\"buried\",\"body\":\"x\"}\n";
    // The first reserve-job asks whether the server knows it.
    for (verb, nth, exit) in [("reserve-job", 2, 69), ("reserve-job", 3, 69), ("bury", 2, 4)] {
        let server = Server::start().unwrap();
        server.faults().add(Fault::nth(nth).of(verb).cut_after(0));
        let line = ["import", "--keep-state"];
        let ran = bsctl_with(server.address(), &line, &record.repeat(3)).exits(exit);
        let places = places(server.address());
        let buried = places.iter().filter(|place| *place == "x t buried").count();
        // A failure of the first job is not counted if it was read alone.
        let counts = ran.err.split_once("before that: imported ").map_or("0, 1", |(_, rest)| rest);
        let (imported, rest) = counts.split_at(1);
        let failed =
            rest.split_once(", ").map_or("0", |(_, failed)| failed.split(' ').next().unwrap());
        let [imported, failed] = [imported, failed].map(|count| count.parse::<usize>().unwrap());
        assert!(!places.is_empty());
        assert_eq!(imported + failed, places.len(), "{verb} {nth}: {}", ran.err);
        assert!(buried == imported || buried == imported + 1, "{verb} {nth}: {}", ran.err);
    }
}

#[test]
fn keep_state_needs_server_support() {
    use fixtures::beanstalkd::Version;
    let old = Server::builder().version(Version::V1_11).start().unwrap();
    let ran = bsctl_with(old.address(), &["import", "-", "--keep-state"], b"{\"body\":\"a\"}\n");
    assert_ne!(ran.code, Some(0));
    assert!(ran.err.contains("1.12"), "{}", ran.err);
    assert_eq!(client(old.address()).stats().unwrap().total_jobs, 0);
}

/// Fifty megabytes of records pass through a bounded amount of memory.
#[cfg(target_os = "linux")]
#[test]
fn import_memory_does_not_grow_with_the_file() {
    use std::io::Write as _;
    use std::process::Stdio;
    let server = Server::builder().log_capacity(0).start().unwrap();
    let line = ["-a", server.address(), "import", "-", "--tube", "t"];
    let mut child = command(&line).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = std::io::BufWriter::new(child.stdin.take().unwrap());
    for n in 0..12_000 {
        writeln!(
            stdin,
            "{{\"v\":1,\"state\":\"ready\",\"pri\":{n},\"ttr\":60,\"body\":\"{}\"}}",
            "x".repeat(4000)
        )
        .unwrap();
    }
    stdin.flush().unwrap();
    // Everything but the last pipeful has been read, and the process still exists.
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kilobytes: u64 = peak.trim().trim_end_matches("kB").trim().parse().unwrap();
    drop(stdin);
    ended(child).exits(0);
    assert!(kilobytes < 32 * 1024, "{kilobytes} kB");
    assert_eq!(client(server.address()).stats().unwrap().current_jobs_ready, 12_000);
}
