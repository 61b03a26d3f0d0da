//! `gearctl repl` with scripts: from a pipe, `-f` and `-e`, against the in-memory server and the real one.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs
)]

use std::io::Write;
use std::process::{Child, Command, Stdio};

use fixtures::gearmand::Server;
use fixtures::real::Gearmand;

/// How a session ended.
#[derive(Debug)]
struct Ended {
    code: Option<i32>,
    stdout: Vec<u8>,
    stderr: String,
}

impl Ended {
    fn stdout(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap()
    }

    /// Whether a line of stderr begins with this.
    fn says(&self, start: &str) -> bool {
        self.stderr.lines().any(|line| line.starts_with(start))
    }
}

fn gearctl(address: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gearctl"));
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("GEARCTL_") || text.starts_with("GEARMAN_") {
            command.env_remove(&name);
        }
    }
    command.args(["-s", address, "repl"]).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn repl(address: &str, arguments: &[&str], script: impl AsRef<[u8]>) -> Ended {
    let mut child = gearctl(address, arguments).spawn().unwrap();
    // A session that does not read its stdin may end first.
    let _ = child.stdin.take().unwrap().write_all(script.as_ref());
    end(child)
}

fn end(child: Child) -> Ended {
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(!stderr.contains("panicked"), "{stderr}");
    Ended { code: output.status.code(), stdout: output.stdout, stderr }
}

/// Runs a scenario against the in-memory server, and against the real one where it is installed.
fn on_both(scenario: impl Fn(&str)) {
    let server = Server::start().unwrap();
    scenario(server.address());
    if let Some(server) = Gearmand::start() {
        scenario(server.address());
    }
}

#[test]
fn commands_run_in_order_and_their_results_can_be_expected() {
    on_both(|address| {
        let text = "# nobody works yet\nsubmit mail \"\\x00\\xff\" 'b'\nexpect 'total==2' functions mail\n\
                    expect 'count==2' jobs\nsubmit mail <<END\none\ntwo\nEND\nexpect 'queued==3' functions mail\n\
                    function maxqueue mail 3\n:set +e\nsubmit mail 'too many'\n";
        let ended = repl(address, &[], text);
        assert_eq!(ended.code, Some(3), "{ended:?}");
        assert_eq!(ended.stdout().lines().filter(|line| line.starts_with("H:")).count(), 3);
        assert!(ended.says("stdin:12: QUEUE_FULL: "), "{ended:?}");
        assert!(!ended.stderr.contains("connected") && !ended.stdout().contains("> "), "{ended:?}");
    });
}

#[test]
fn each_error_ends_the_script_with_its_own_code() {
    let server = Server::start().unwrap();
    for (line, code) in [
        ("job H:nope:9", 1),
        ("functoins", 2),
        ("submit f \"x", 2),
        ("submit --nope f x", 2),
        ("functions --retry 3", 2),
        ("submit 'a b' x", 65),
        (":source /does/not/exist", 66),
        ("run nobody x --timeout 100ms", 124),
        ("expect 'count==1' workers --function nobody", 1),
    ] {
        let ended = repl(server.address(), &[], format!("# a comment\n{line}\nversion\n"));
        assert_eq!(ended.code, Some(code), "{line}: {ended:?}");
        assert!(ended.says("stdin:2: "), "{line}: {ended:?}");
        assert_eq!(ended.stdout(), "", "{line}");
    }
}

#[test]
fn a_dead_port_is_69_with_the_line_that_needed_it() {
    let address = Server::start().unwrap().address().to_owned();
    let ended = repl(&address, &["--connect-timeout", "5s"], ":set\nversion");
    assert_eq!(ended.code, Some(69), "{ended:?}");
    assert!(ended.says("stdin:2: UNAVAILABLE"), "{ended:?}");
}

#[test]
fn a_short_patience_of_one_command_does_not_stay() {
    let server = Server::start().unwrap();
    // ping bounds its own answers; run has no bound, and this one ends by its own.
    let text = "ping\n:set +e\nrun nobody x --timeout 200ms\n:set -e\nping -o json\n";
    let ended = repl(server.address(), &["--keep-going"], text);
    assert_eq!(ended.code, Some(3), "{ended:?}");
    assert_eq!(ended.stderr.matches("TIMEOUT").count(), 1, "{ended:?}");
}

#[test]
fn a_piped_session_asks_the_server_nothing_of_its_own() {
    let server = Server::start().unwrap();
    let ended = repl(server.address(), &[], ":set\nhelp\n");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(server.requests().len(), 0);
}

#[test]
fn files_and_texts_are_scripts() {
    let server = Server::start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("script");
    std::fs::write(&file, "submit mail a\nsubmit mail @nowhere\n").unwrap();
    let name = file.display().to_string();
    let ended = repl(server.address(), &["-f", &name], "");
    assert_eq!(ended.code, Some(66), "{ended:?}");
    assert!(ended.says(&format!("{name}:2: ")), "{ended:?}");
    let ended = repl(server.address(), &["-e", "submit mail a", "-e", "functions"], "");
    assert_eq!(ended.stdout().lines().last(), Some("mail\t2\t2\t0\t0"), "{ended:?}");
}

#[test]
fn connect_goes_to_other_servers() {
    let (one, two) = (Server::start().unwrap(), Server::start().unwrap());
    let text = format!("submit f a\nconnect {}\nsubmit f b\nsubmit f c\n", two.address());
    let ended = repl(one.address(), &[], text);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!((one.view().jobs, two.view().jobs), (1, 2));
    assert!(ended.stdout().contains(&format!("{}\n", two.address())), "{ended:?}");
}
