//! Read-only commands, and the contract of `plain` and `json`.

use std::collections::BTreeSet;

use beanstalk_client::PutOptions;
use fixtures::beanstalkd::{Server, Version};
use fixtures::fault::Fault;
use serde_json::{Value, json};

use crate::harness::*;

#[test]
fn peek_by_id_and_at_the_heads() {
    on_both(|address| {
        let ready = put(address, "t", "r").to_string();
        let delayed = put_delayed(address, "t", "d").to_string();
        let buried = put_buried(address, "t", "b").to_string();
        for (state, id, body) in
            [("ready", &ready, "r"), ("delayed", &delayed, "d"), ("buried", &buried, "b")]
        {
            let line = ["peek", "--state", state, "-t", "t", "-o", "json"];
            let job = bsctl(address, &line).exits(0).json();
            assert_eq!(job[0]["id"].to_string(), *id);
            assert_eq!(job[0]["body"], body);
        }
        let ran = bsctl(address, &["peek", &ready, &buried, "-o", "raw"]).exits(0);
        assert_eq!(ran.bytes, b"rb");
        bsctl(address, &["peek", "-t", "none"]).exits(1);
        let ran = bsctl(address, &["peek", &ready, "999"]).exits(3);
        assert_eq!(ran.lines().len(), 1);
        bsctl(address, &["peek", "999"]).exits(1);
        bsctl(address, &["peek", "999", "--state", "ready"]).exits(2);
    });
}

#[test]
fn finds_jobs_by_tube_state_and_id() {
    on_both(|address| {
        let a = put(address, "a", "1").get();
        let b = put_buried(address, "b", "2").get();
        let c = put_delayed(address, "b", "3").get();
        let ids = |arguments: &[&str]| -> Vec<u64> {
            let ran = bsctl(address, &[&["jobs", "-o", "id"], arguments].concat()).exits(0);
            ran.lines().iter().map(|line| line.parse().unwrap()).collect()
        };
        assert_eq!(ids(&[]), [a, b, c]);
        assert_eq!(ids(&["-t", "b"]), [b, c]);
        assert_eq!(ids(&["--state", "buried,ready"]), [a, b]);
        assert_eq!(ids(&["--filter", &format!("id=={b}")]), [b]);
        assert_eq!(ids(&["-c", "2"]), [b, c]);
        assert_eq!(ids(&["-t", "none"]), [0; 0]);
        let before = client(address).stats_job(a).unwrap().unwrap();
        assert_eq!((before.reserves, before.releases), (0, 0));
    });
}

#[test]
fn uses_a_configured_envelope_format() {
    let server = Server::start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.toml");
    let row = "[envelopes.orders]\nclass = \"/type\"\narguments = \"/order\"\n";
    std::fs::write(&file, row).unwrap();
    put(server.address(), "t", r#"{"type":"Pay","order":{"sum":3}}"#);
    put(server.address(), "t", r#"{"class":"Mail"}"#);
    let run = |line: &[&str]| {
        bsctl(server.address(), &[&["--config", file.to_str().unwrap()], line].concat())
    };
    let filters = ["--filter", "envelope.class==Pay", "--filter", "envelope.arguments.sum<5"];
    let jobs = ["jobs", "-t", "t", "-o", "ndjson", "--decode"];
    for decode in ["orders", "auto"] {
        let ran = run(&[&jobs, &[decode][..], &filters].concat()).exits(0);
        let arguments = serde_json::json!({"sum": 3});
        let expected =
            serde_json::json!({"format": "orders", "class": "Pay", "arguments": arguments});
        assert_eq!(ran.json()["envelope"], expected);
    }
    let ran = run(&["jobs", "--decode", "order"]).exits(2);
    assert!(ran.err.contains("did you mean orders?"), "{}", ran.err);
    let variable = [("BSCTL_CONFIG", file.to_str().unwrap())];
    let offered =
        command(&["complete", "bash", "--", "jobs", "--decode", "o"]).envs(variable).output();
    assert_eq!(offered.unwrap().stdout, b"orders\n");
}

/// Statistics as a whole reply.
fn statistics(lines: &str) -> String {
    format!("OK {}\r\n---\n{lines}\r\n", lines.len() + 4)
}

/// beanstalkd 1.10 reads up to 208 bytes as a line, and splits a longer one in two.
#[test]
fn names_tubes_that_cannot_be_queried() {
    let server = Server::builder().version(Version::V1_10).start().unwrap();
    let long = ["m", "n"].map(|letter| letter.repeat(199));
    for tube in ["a", &long[0], &long[1], "z"] {
        put(server.address(), tube, "");
    }
    let ran = bsctl(server.address(), &["tubes", "-o", "json"]).exits(3);
    let tubes = ran.json();
    let shown: Vec<_> = tubes.as_array().unwrap().iter().map(|tube| &tube["name"]).collect();
    assert_eq!(shown, ["a", "default", &long[0], &long[1], "z"]);
    for tube in tubes.as_array().unwrap() {
        let name = tube["name"].as_str().unwrap();
        assert_eq!(tube["error"].is_string(), name.len() == 199, "{tube}");
        assert_eq!(ran.err.contains(&format!("report on tube {name}:")), name.len() == 199);
    }
    assert_eq!(tubes[4]["current-jobs-ready"], 1);
    let ran = bsctl(server.address(), &["check", "tubes", "*", "-c", "ready=0"]).exits(2);
    assert!(ran.out().contains('z'), "{}", ran.out());
    assert!(long.iter().all(|tube| ran.err.contains(tube)), "{}", ran.err);
    bsctl(server.address(), &["check", "tubes", "m*"]).exits(3);
}

#[test]
fn doctor_counts_buried_jobs_of_tubes_that_cannot_be_queried() {
    let server = Server::builder().version(Version::V1_10).start().unwrap();
    let long = "m".repeat(199);
    put(server.address(), &long, "");
    let mut client = client(server.address());
    client.watch(&*long).unwrap();
    let job = client.reserve().unwrap().job().unwrap();
    client.bury(&job, 1024).unwrap();
    let ran = bsctl(server.address(), &["doctor"]).exits(0);
    let said = [ran.out(), &ran.err].concat();
    assert!(said.contains("1 job buried in tubes that it does not report on"), "{said}");
    assert!(said.contains("bsctl retry TUBE, to kick them"), "{said}");
}

#[test]
fn leaves_tubes_that_cannot_be_queried_unchanged() {
    let server = Server::builder().version(Version::V1_10).start().unwrap();
    let address = server.address();
    let long = "m".repeat(199);
    let confirm = format!("--confirm={address}");
    let fill = || {
        for tube in ["a", &long, "z"] {
            put(address, tube, "ready");
            put_delayed(address, tube, "delayed");
        }
    };
    let leaves = |line: &[&str]| {
        let ran = bsctl(address, &[line, &["-o", "json"]].concat()).exits(3);
        assert!(ran.err.contains(&format!("report on tube {long}:")), "{line:?}: {}", ran.err);
        ran
    };
    fill();
    let kicked = leaves(&["kick", "--all-tubes", "--all", &confirm]).json();
    assert_eq!(kicked["succeeded"], 2);
    assert_eq!(leaves(&["clear", "--all-tubes", "-n"]).json()["jobs"], 4);
    let drained = leaves(&["drain", "a", &long, "z", "--yes"]);
    assert_eq!(drained.json().as_array().unwrap().len(), 4, "{}", drained.out());
    fill();
    assert_eq!(leaves(&["clear", "--all-tubes", &confirm]).json()["succeeded"], 4);
    let mut client = client(address);
    assert_eq!(client.stats().unwrap().current_jobs_ready, 2);
    client.use_tube(&*long).unwrap();
    assert!(client.peek_ready().unwrap().is_some());
    // If nothing can be done, it is an error.
    for line in [&["clear", &long, "--yes"][..], &["kick", "-t", &long]] {
        let error = bsctl(address, &[line, &["-o", "json"]].concat()).exits(65).error();
        assert_eq!(error["code"], "BAD_FORMAT", "{line:?}");
    }
}

#[test]
fn types_unknown_statistics() {
    let server = Server::start().unwrap();
    let lines = "version: 1.13\nhostname: 123\nos: 5\nfuture-count: 12\nfuture-text: \"12\"\n";
    server.faults().add(Fault::always().of("stats").reply_bytes(statistics(lines)));
    let json = bsctl(server.address(), &["stats", "-o", "json"]).exits(0).json();
    assert_eq!(json["future-count"], 12);
    for (key, text) in
        [("version", "1.13"), ("hostname", "123"), ("os", "5"), ("future-text", "12")]
    {
        assert_eq!(json[key], text);
    }
    let tube = statistics("name: \"123\"\ncurrent-jobs-ready: 1\nfuture-count: 7\n");
    server.faults().add(Fault::always().of("stats-tube").reply_bytes(tube));
    put(server.address(), "123", "");
    let json = bsctl(server.address(), &["stats-tube", "123", "-o", "json"]).exits(0).json();
    assert_eq!((&json[0]["name"], &json[0]["future-count"]), (&"123".into(), &7.into()));
    let job = statistics("id: 1\ntube: 123\nstate: ready\nfuture-count: 7\n");
    server.faults().add(Fault::always().of("stats-job").reply_bytes(job));
    let json = bsctl(server.address(), &["job", "1", "-o", "json"]).exits(0).json();
    assert_eq!((&json["tube"], &json["id"]), (&"123".into(), &1.into()));
}

#[test]
fn lists_tubes_by_pattern_and_state() {
    on_both(|address| {
        put(address, "mail.in", "1");
        put_buried(address, "mail.out", "2");
        put(address, "123", "3");
        put(address, "true", "4");
        let names = |arguments: &[&str]| -> Vec<String> {
            let ran = bsctl(address, &[&["tubes", "-o", "name"], arguments].concat()).exits(0);
            ran.lines().iter().map(ToString::to_string).collect()
        };
        assert_eq!(names(&[]), ["123", "default", "mail.in", "mail.out", "true"]);
        assert_eq!(names(&["mail*"]), ["mail.in", "mail.out"]);
        assert_eq!(names(&["--state", "buried"]), ["mail.out"]);
        let json = bsctl(address, &["tubes", "123", "-o", "json"]).exits(0).json();
        assert_eq!(json[0]["queue"], "123");
        let yaml = bsctl(address, &["tubes", "true", "-o", "yaml"]).exits(0);
        let value: serde_json::Value = serde_yaml::from_slice(&yaml.bytes).unwrap();
        assert_eq!(value[0]["name"], "true");
        let sorted = bsctl(address, &["tubes", "--sort-by", "buried", "--columns", "tube,buried"]);
        assert_eq!(sorted.exits(0).lines().last().copied(), Some("mail.out\t1"));
    });
}

#[test]
fn stats_keep_server_keys_and_types() {
    on_both(|address| {
        let json = bsctl(address, &["stats", "-o", "json"]).exits(0).json();
        assert!(json["current-jobs-ready"].is_u64() && json["version"].is_string(), "{json}");
        assert_eq!(json["draining"], false);
        let ran = bsctl(address, &["stats", "--columns", "current-jobs-ready"]).exits(0);
        assert_eq!(ran.out(), "current-jobs-ready\t0\n");
        let line = ["stats-tube", "default", "nope", "--columns", "queue,ready"];
        let ran = bsctl(address, &line).exits(0);
        assert_eq!(ran.out(), "default\t0\n");
        assert!(ran.err.contains("no tubes match nope"), "{}", ran.err);
        let all = bsctl(address, &["stats-tube", "default", "-o", "table"]).exits(0);
        let line = all.lines().into_iter().find(|line| line.starts_with("cmd-pause-tube:"));
        assert!(line.is_some_and(|line| line.ends_with(" 0")), "{}", all.out());
        let all = bsctl(address, &["-o", "table", "stats"]).exits(0);
        assert!(all.out().contains("cmd-put:"), "{}", all.out());
        let few = bsctl(address, &["-o", "table", "server"]).exits(0);
        assert!(few.lines().len() <= 13 && few.out().contains("reserve_job:"), "{}", few.out());
        bsctl(address, &["stats", "--columns", "nope"]).exits(2);
    });
}

#[test]
fn job_shows_state_and_body_of_reserved_jobs_too() {
    on_both(|address| {
        let id = put(address, "t", b"\xff");
        let mut other = client(address);
        other.reserve_job(id).unwrap().unwrap();
        let json =
            bsctl(address, &["job", &id.to_string(), "--with-body", "-o", "json"]).exits(0).json();
        assert_eq!(json["state"], "reserved");
        assert_eq!(json["body_base64"], "/w==");
        bsctl(address, &["job", "999"]).exits(1);
    });
}

#[test]
fn server_shows_version_and_features() {
    on_both(|address| {
        let json = bsctl(address, &["server", "-o", "json"]).exits(0).json();
        assert_eq!((&json["server"], &json["reserve_job"]), (&address.into(), &true.into()));
        assert_eq!((&json["max-job-size"], &json["cmd-put"]), (&65_535.into(), &0.into()));
    });
    let old = Server::builder().version(Version::V1_11).start().unwrap();
    let json = bsctl(old.address(), &["server", "-o", "json"]).exits(0).json();
    assert_eq!(json["reserve_job"], false);
    assert_eq!(json["draining"], serde_json::Value::Null);
}

#[test]
fn raw_sends_one_line_and_shows_the_reply() {
    on_both(|address| {
        assert_eq!(bsctl(address, &["raw", "use mail"]).exits(0).out(), "USING mail\n");
        assert_eq!(
            bsctl(address, &["raw", "put 0 0 60 5", "hello"]).exits(0).out(),
            "INSERTED 1\n"
        );
        assert_eq!(bsctl(address, &["raw", "peek 1"]).exits(0).out(), "FOUND 1 5\nhello\n");
        assert_eq!(bsctl(address, &["raw", "peek 1", "-o", "raw"]).exits(0).out(), "hello");
        let json = bsctl(address, &["raw", "peek 1", "-o", "json"]).exits(0).json();
        assert_eq!(
            (json["reply"].as_str(), json["body"].as_str()),
            (Some("FOUND 1 5"), Some("hello"))
        );
        bsctl(address, &["raw", "peek 9"]).exits(1);
        bsctl(address, &["raw", "nonsense"]).exits(1);
        bsctl(address, &["raw", "use a\r\ndelete 1"]).exits(65);
        bsctl(address, &["raw", "reserve"]).exits(2);
        bsctl(address, &["raw", "put 0 0 60 4", "hello"]).exits(65);
        // A line is quoted or not.
        let stats = bsctl(address, &["raw", "stats-tube", "default"]).exits(0);
        assert!(stats.out().contains("current-jobs-ready: "), "{}", stats.out());
        bsctl(address, &["raw", "put", "0", "0", "60", "5", "hello"]).exits(0);
        bsctl(address, &["raw", "put 0 0 60 5", "hello", "more"]).exits(2);
    });
}

#[test]
fn finds_few_jobs_at_tube_heads() {
    let server = Server::start().unwrap();
    let address = server.address();
    let many = "x\n".repeat(3000);
    bsctl_with(address, &["put", "-t", "many", "--lines", "-"], many.as_bytes()).exits(0);
    bsctl(address, &["clear", "many", "-y"]).exits(0);
    let (a, b) = (put(address, "mail", "a"), put_buried(address, "sms", "b"));
    let before = server.view().requests;
    assert_eq!(bsctl(address, &["jobs", "-o", "id"]).exits(0).out(), format!("{a}\n{b}\n"));
    let asked = server.view().requests - before;
    assert!(asked < 100, "{asked} requests");
    // One behind another is still found, by its id.
    let c = put(address, "mail", "c");
    let ran = bsctl(address, &["jobs", "-t", "mail", "-o", "id"]).exits(0);
    assert_eq!(ran.out(), format!("{a}\n{c}\n"));
    let ran = bsctl(address, &["jobs", "-c", "1", "-o", "id"]).exits(0);
    assert_eq!(ran.out(), format!("{c}\n"), "the newest");
}

/// The formats of `plain` and `json` are a contract.
#[test]
fn contract_of_plain_and_json() {
    let server = Server::builder().virtual_clock().start().unwrap();
    let address = server.address();
    put_with(address, "mail", "tab\there\\", PutOptions::default().priority(5));
    put_delayed(address, "mail", b"\xff");
    put_buried(address, "sms", "");
    let lines: [&[&str]; 17] = [
        &["jobs"],
        &["jobs", "--decode", "base64"],
        &["jobs", "-t", "mail", "--with-body", "-o", "json"],
        &["peek", "1"],
        &["job", "1"],
        &["job", "1", "-o", "json"],
        &["tubes"],
        &["tubes", "mail", "-o", "json"],
        &["stats-tube", "mail"],
        &["pause", "mail", "90s"],
        &["pause", "mail", "90s", "-o", "json"],
        &["put", "-t", "default", "x", "y"],
        &["put", "x", "-o", "json"],
        &["delete", "4", "5"],
        &["kick", "-t", "sms"],
        &["export", "sms"],
        &["clear", "sms", "-y", "-o", "json"],
    ];
    let mut contract = String::new();
    for line in lines {
        let ran = bsctl(address, line).exits(0);
        contract.push_str(&format!("$ bsctl {}\n{}\n", line.join(" "), ran.out()));
    }
    insta::with_settings!({ filters => vec![(r#""duration_ms": \d+"#, "\"duration_ms\": 0")] }, {
        insta::assert_snapshot!("contract", contract);
    });
}

/// The ids that `jobs` lists with these arguments.
fn listed(address: &str, arguments: &[&str]) -> Vec<String> {
    let line = [&["jobs", "-o", "id"][..], arguments].concat();
    bsctl(address, &line).exits(0).lines().into_iter().map(Into::into).collect()
}

#[test]
fn filters_jobs_by_statistics_and_bodies() {
    on_both(|address| {
        let urgent = PutOptions::default().priority(5u32);
        let first = put_with(address, "mail", "SendMail(1)", urgent).to_string();
        let second = put_buried(address, "mail", "SendMail(2)").to_string();
        let third = put_delayed(address, "sms", b"\xff\x00SendSms").to_string();
        for (arguments, expected) in [
            (&["--filter", "pri<100"][..], vec![&first]),
            (&["--filter", "state==buried"], vec![&second]),
            (&["--filter", "state!=buried", "--filter", "tube==mail"], vec![&first]),
            (&["--filter", "body~=^SendMail"], vec![&first, &second]),
            (&["--filter", "body~=^SendMail", "-c", "1"], vec![&second]),
            (&["--filter", "body~=^\\xff"], vec![&third]),
            (&["--filter", "size>10", "-t", "mail"], vec![&first, &second]),
            (&["--filter", "left>59m"], vec![&third]),
            (&["--filter", "age<1h", "--filter", "id>=2"], vec![&second, &third]),
            (&["--filter", "age>1h"], vec![]),
        ] {
            let expected: Vec<&str> = expected.into_iter().map(String::as_str).collect();
            assert_eq!(listed(address, arguments), expected, "{arguments:?}");
        }
        // Read-only commands change nothing.
        assert_eq!(client(address).stats().unwrap().cmd_reserve, 0);
    });
}

#[test]
fn a_bad_filter_lists_the_fields_and_sends_nothing() {
    let address = dead_address();
    for (filter, hint) in [
        ("foo==1", "the fields of a job are id, tube, state, pri"),
        ("age>soon", "is not a duration"),
        ("state==burried", "ready, reserved, delayed, buried"),
    ] {
        let ran = bsctl(&address, &["jobs", "--filter", filter]).exits(2);
        assert!(ran.err.contains(filter) && ran.err.contains(hint), "{}", ran.err);
    }
}

#[test]
fn a_check_of_several_servers_is_as_bad_as_its_worst_one() {
    let (one, two, dead) = (Server::start().unwrap(), Server::start().unwrap(), dead_address());
    put(one.address(), "mail", "x");
    put(two.address(), "mail", "y");
    put(two.address(), "mail", "z");
    let alive = format!("{},{}", one.address(), two.address());
    let all = format!("{dead},{alive}");
    // A check is as bad as its worst server, and every figure names its server.
    let check = |servers: &str, what: &[&str]| bsctl(servers, &[&["check"], what].concat());
    check(&alive, &["server"]).exits(0);
    let said = check(&alive, &["tube", "mail", "-c", "ready=1", "-c", "workers=0:"]).exits(2);
    assert!(said.out().contains(&format!("mail on {}", two.address())), "{}", said.out());
    let said = check(&all, &["server", "-c", "ready=5"]).exits(2);
    assert!(said.out().contains(&dead), "{}", said.out());
    let whole = check(&all, &["tube", "mail", "-o", "json"]).exits(2).json();
    let summary = whole["summary"].as_str().unwrap();
    assert!(
        summary.contains(&dead) && summary.contains("ready jobs but no workers: "),
        "{summary}"
    );
    let of_two = |metric: &&Value| metric["server"] == two.address() && metric["name"] == "workers";
    let metric = whole["metrics"].as_array().unwrap().iter().find(of_two).unwrap();
    assert_eq!(
        (&metric["queue"], &metric["problem"]),
        (&json!("mail"), &json!("ready jobs but no workers"))
    );
    let figure = format!("'{}_ready'=2;", two.address());
    assert!(said.out().contains(&figure), "what came is reported, too: {}", said.out());
    // Commands for a single server say so.
    let ran = bsctl(&alive, &["job", "1"]).exits(2);
    assert!(ran.err.contains("takes a single server"), "{}", ran.err);
}

#[test]
fn id_filters_bound_the_queried_ids() {
    let server = Server::start().unwrap();
    fill(server.address(), "a", 20, false);
    for (filters, expected) in [
        (&["id==7"][..], vec![7]),
        (&["id<=3"], vec![1, 2, 3]),
        (&["id>=4", "id<6", "id<=19", "id!=9"], vec![4, 5]),
        (&["id<1"], vec![]),
        (&["id>6", "id<3"], vec![]),
    ] {
        server.clear_requests();
        let filters = filters.iter().flat_map(|filter| ["--filter", filter]);
        let line: Vec<&str> = ["jobs", "-o", "name"].into_iter().chain(filters).collect();
        let found = bsctl(server.address(), &line).exits(0);
        let found: Vec<u64> = found.lines().iter().map(|id| id.parse().unwrap()).collect();
        assert_eq!(found, expected, "{line:?}");
        let requests = server.requests();
        let id = |line: &[u8]| {
            std::str::from_utf8(line.strip_prefix(b"stats-job ")?).ok()?.parse::<u64>().ok()
        };
        let queried: BTreeSet<u64> = requests.iter().filter_map(|one| id(&one.line)).collect();
        assert_eq!(queried, expected.into_iter().collect(), "{line:?}");
    }
}

/// The search ends although the highest id that is given is far above all jobs.
#[test]
fn does_not_query_impossible_ids() {
    on_both(|address| {
        put(address, "mail", "x");
        let most = format!("id<={}", u64::MAX);
        let line = ["jobs", "-t", "mail", "-c", "50", "--filter", &most, "-o", "json"];
        let found = bsctl(address, &line).exits(0).json();
        assert_eq!(found.as_array().unwrap().len(), 1, "{found}");
    });
}
