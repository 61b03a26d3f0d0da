//! Functions by position and by flag.

use gearman_client::FunctionName;
use gearman_client::blocking::Client;

use crate::harness::*;

#[test]
fn accepts_a_function_by_position_or_by_flag() {
    on_both(|site| {
        let address = site.address();
        gearctl(address, &["submit", "mail", "x"]).exits(0);
        gearctl(address, &["submit", "-f", "mail", "y"]).exits(0);
        gearctl(address, &["submit", "z", "-f", "mail"]).exits(0);
        let listed = gearctl(address, &["functions", "-f", "mail", "-o", "json"]).exits(0).json();
        assert_eq!(listed[0]["queued"], 3);
        let worked = ["work", "mail", "--builtin", "echo", "--max-idle", "0"];
        gearctl(address, &worked).exits(0);
        gearctl(address, &["wait", "mail", "-f", "sms", "--for", "queued==0"]).exits(2);
        gearctl(address, &["work", "--builtin", "echo"]).exits(2);
        gearctl(address, &["function", "maxqueue", "-f", "mail", "9", "8"]).exits(2);
        gearctl(address, &["function", "maxqueue", "mail", "nine"]).exits(2);
    });
}

/// The server is asked for it only where a name is unknown.
#[test]
fn suggests_a_close_function_name() {
    on_both(|site| {
        let run = |line: &[&str]| gearctl(site.address(), line);
        run(&["submit", "mail", "x"]).exits(0);
        for line in [
            &["functions", "mial"][..],
            &["function", "drop", "mial", "--yes"],
            &["drain", "mial", "--yes"],
            &["clear", "mial", "--yes"],
            &["move", "--from", "mial", "--to", "sms", "--yes"],
            &["export", "mial", "--yes"],
            &["check", "function", "mial"],
            &["wait", "--for", "empty", "mial"],
            &["wait", "--for", "empty", "mial", "--must-exist"],
            // The last one, since a worker makes the function known.
            &["peek", "mial", "--yes"],
        ] {
            let ran = run(line);
            let said = format!("{}{}", ran.out(), ran.err);
            assert!(said.contains("did you mean mail?"), "{line:?}: {said}");
        }
        let different = run(&["peek", "quite-different", "--yes"]).exits(1);
        assert!(!different.err.contains("did you mean"), "{}", different.err);
    });
}

#[test]
fn notes_a_workload_that_names_a_function() {
    on_both(|site| {
        let address = site.address();
        gearctl(address, &["submit", "mail", "x"]).exits(0);
        let ran = gearctl(address, &["submit", "-f", "sms", "mail", "hello"]).exits(0);
        assert!(
            ran.err.contains("to select the function of that name, use -f mail"),
            "{}",
            ran.err
        );
        assert_eq!(ran.lines().len(), 2);
        let ran = gearctl(address, &["submit", "sms", "mail", "hello"]).exits(0);
        assert!(!ran.err.contains("of that name"), "{}", ran.err);
    });
}

/// Names as Nagios, Perl and PHP clients choose them, and how they are shown.
const NAMES: [(&[u8], &str); 7] = [
    (b"hostgroup_Linux Servers", "hostgroup_Linux Servers"),
    ("hostgroup_M\u{fc}nchen".as_bytes(), "hostgroup_M\u{fc}nchen"),
    (b"hostgroup_M\xfcnchen", r"hostgroup_M\xfcnchen"),
    (b"prefix\tname", r"prefix\x09name"),
    (br"App\Jobs\Mail", r"App\Jobs\Mail"),
    (br"literal\xff", r"literal\\xff"),
    (b"esc\x1b[2J", r"esc\x1b[2J"),
];

#[test]
fn accepts_names_as_listings_print_them() {
    on_both(|site| {
        let address = site.address();
        let run = |line: &[&str]| gearctl(address, line).exits(0);
        let mut client = Client::connect(address).unwrap();
        for (name, shown) in NAMES {
            let function = FunctionName::try_from(name).unwrap();
            client.submit_background(function, shown, Default::default()).unwrap();
        }
        let shown = NAMES.map(|(_, shown)| shown);
        let [linux, latin, .., php, literal, esc] = shown;
        let sorted = |lines: Vec<&str>| {
            let mut names: Vec<String> =
                lines.iter().map(|line| line.split('\t').next().unwrap().to_owned()).collect();
            names.sort();
            names
        };
        let all = sorted(shown.to_vec());
        for line in [&["functions", "-o", "name"][..], &["functions", "-o", "plain"]] {
            assert_eq!(sorted(run(line).lines()), all, "{line:?}");
        }
        for (line, key) in [
            (&["functions", "-o", "json"][..], ""),
            (&["top", "-c", "1", "-o", "json"], "queues"),
            (&["check", "functions", "*", "-c", "workers=0:", "-o", "json"], "metrics"),
        ] {
            let document = run(line).json();
            let rows = if key.is_empty() { &document } else { &document[key] };
            let names = rows.as_array().unwrap().iter();
            let mut names: Vec<_> = names.map(|row| row["queue"].as_str().unwrap()).collect();
            names.dedup();
            assert_eq!(sorted(names), all, "{line:?}");
        }
        run(&["check", "function", latin, "-c", "workers=0:", "-c", "queued=1:1"]);
        run(&["wait", literal, "--for", "queued==1"]);
        assert_eq!(run(&["peek", esc, "--yes", "-o", "json"]).json()[0]["function"], esc);
        run(&["move", "--from", linux, "--to", php, "--yes"]);
        run(&["move", "--from", php, "--to", linux, "-c", "1", "--yes"]);
        let records = run(&[&["export", "--yes"], &shown[..]].concat());
        let names: Vec<String> = records
            .lines()
            .iter()
            .map(|line| {
                serde_json::from_str::<serde_json::Value>(line).unwrap()["function"].to_string()
            })
            .map(|name| serde_json::from_str(&name).unwrap())
            .collect();
        assert_eq!(sorted(names.iter().map(String::as_str).collect()), all);
        let drain = || run(&[&["drain", "--yes"], &shown[..]].concat());
        gearctl_with(address, &["import"], drain().out().as_bytes()).exits(0);
        assert_eq!(drain().lines().len(), NAMES.len());
        run(&["submit", php, "x"]);
        let mut work = vec!["work", "--builtin", "echo"];
        work.extend(shown.iter().flat_map(|name| ["-f", name]));
        run(&[&work[..], &["--max-idle", "0"]].concat());
        run(&["wait", php, "--for", "queued==0"]);
        let _worker =
            Running::of(command(&[&["-s", address], &work[..]].concat()).spawn().unwrap());
        for name in [linux, literal] {
            assert_eq!(run(&["run", name, "hello"]).out(), "hello");
        }
        run(&["check", "roundtrip", latin, "--send", "x", "--expect", "x"]);
        let served = run(&["workers", php, "-o", "json"]).json()[0]["functions"].to_string();
        let served: Vec<String> = serde_json::from_str(&served).unwrap();
        assert_eq!(sorted(served.iter().map(String::as_str).collect()), all);
        // Commands of the text protocol are lines of words.
        let refused = gearctl(address, &["function", "drop", linux, "--yes"]).exits(65);
        assert!(refused.err.contains("visible ASCII"), "{}", refused.err);
    });
}
