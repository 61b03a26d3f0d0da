//! `gearctl repl` with scripts: from a pipe, `-f` and `-e`, against the in-memory server and the real one.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use fixtures::gearmand::{Flavour, Server};
use fixtures::real::Gearmand;
use gearman_client::blocking::{Client, JobContext, Worker};
use gearman_client::protocol::JobLimit;
use gearman_client::{Failure, Servers, SubmitOptions, WorkerOptions};

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
fn a_session_pings_a_server_that_leaves_echoes_unanswered() {
    let server = Server::builder().flavour(Flavour::Geard).start().unwrap();
    let text = "ping --timeout 4s -o json\nping --timeout 4s\nversion --timeout 100ms\n";
    let ended = repl(server.address(), &[], text);
    assert_eq!(ended.code, Some(124), "{ended:?}");
    assert!(ended.says("stdin:3: TIMEOUT"), "{ended:?}");
    assert!(ended.stdout().contains("\"packet\": \"GET_STATUS\""), "{ended:?}");
    assert_eq!(ended.stderr.matches("ECHO_REQ unanswered").count(), 1, "{ended:?}");
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

/// Serves functions with a handler until so many jobs have been done.
fn serve(address: &str, function: &str, jobs: u64, handler: Handler) -> JoinHandle<()> {
    let servers: Servers = address.parse().unwrap();
    let options = WorkerOptions::new(servers).limit(JobLimit::new(jobs));
    let mut worker = Worker::connect(options).unwrap();
    worker.register(function, handler).unwrap();
    std::thread::spawn(move || {
        worker.run().unwrap();
    })
}

type Handler = fn(&mut JobContext<'_>) -> Result<Vec<u8>, Failure>;

fn upper(job: &mut JobContext<'_>) -> Result<Vec<u8>, Failure> {
    job.status(1, 2)?;
    job.warning(b"careful")?;
    job.data(b"first ")?;
    Ok(job.workload.to_ascii_uppercase())
}

#[test]
fn started_jobs_are_listed_and_brought_back() {
    on_both(|address| {
        // Queued before anybody works: the order of things is certain.
        let text = "start up one\nstart up 'two'\nsubmit later x\nexpect 'count==3' :jobs\n\
                    expect 'count==0' functions nobody\nfg\nfg -o ndjson\nexpect 'count==1' :jobs\n\
                    expect 'kind==background' :jobs\n";
        let mut fed = Fed::start(address, &["--strict-jobs"]);
        fed.say(text.lines().next().unwrap());
        let first = fed.hear();
        assert!(first.starts_with("H:"), "{first}");
        for line in text.lines().skip(1).take(3) {
            fed.say(line);
        }
        assert!(fed.hear().starts_with("H:") && fed.hear().starts_with("H:"));
        let worker = serve(address, "up", 2, upper);
        for line in text.lines().skip(4) {
            fed.say(line);
        }
        worker.join().unwrap();
        let ended = fed.end();
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let (two, one) = ended.stdout().split_once('{').unwrap();
        assert_eq!(two, "first TWO", "fg brings the last one back");
        let events: Vec<&str> =
            one.lines().map(|line| line.split('"').nth(3).unwrap_or(line)).collect();
        assert!(one.contains("\"event\":\"warning\"") && one.contains("ONE"), "{events:?}");
        assert_eq!(ended.stderr.matches("warning: careful").count(), 1, "{ended:?}");
    });
}

#[test]
fn a_job_that_failed_while_nobody_looked_says_so_when_somebody_does() {
    on_both(|address| {
        let worker = serve(address, "no", 2, |_| Err(Failure::exception("no such thing")));
        let text = "start no one\nstart no two\n:set +e\nfg\n:set -e\nfg\nversion\n";
        let ended = repl(address, &[], text);
        worker.join().unwrap();
        assert_eq!(ended.code, Some(1), "{ended:?}");
        for line in ["stdin:4: JOB_EXCEPTION: ", "stdin:6: JOB_EXCEPTION: "] {
            assert!(ended.says(line), "{ended:?}");
        }
        assert!(ended.stderr.contains("no such thing"), "{ended:?}");
    });
}

#[test]
fn jobs_under_way_at_the_end_are_listed_or_waited_for() {
    on_both(|address| {
        let ended = repl(address, &[], "start nobody a\nstart nobody b\n");
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let handles: Vec<&str> = ended.stdout().lines().collect();
        let said = format!("2 foreground jobs left to the server: {}", handles.join(", "));
        assert!(ended.stderr.contains(&said), "{ended:?}");
        let ended = repl(address, &["--strict-jobs"], "start nobody a\n");
        assert_eq!(ended.code, Some(1), "{ended:?}");
        let worker = serve(address, "up", 2, upper);
        let text = ":set on_exit wait\nstart up a\nstart up b\n";
        let ended = repl(address, &["--strict-jobs"], text);
        worker.join().unwrap();
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(ended.stdout().ends_with("first Afirst B"), "{ended:?}");
    });
}

#[test]
fn only_jobs_of_the_session_are_brought_back_and_any_job_is_watched() {
    on_both(|address| {
        let ended = repl(address, &["--keep-going"], "fg\nfg H:nope:1\nattach H:nope:1\n");
        assert_eq!(ended.code, Some(3), "{ended:?}");
        assert!(ended.says("stdin:1: no job of this session"), "{ended:?}");
        assert!(ended.says("stdin:2: NOT_FOUND: ") && ended.says("stdin:3: NOT_FOUND: "));
    });
    let server = Server::start().unwrap();
    let mut client = Client::connect(server.address()).unwrap();
    let other = client.submit_background("up", "x", SubmitOptions::default()).unwrap();
    let handle = String::from_utf8(other.handle.name().to_vec()).unwrap();
    let mut fed = Fed::start(server.address(), &[]);
    fed.say(&format!("attach {handle}"));
    // It has to have seen the job before the job ends.
    while !server.requests().iter().any(|request| request.name() == "GET_STATUS") {
        std::thread::yield_now();
    }
    let worker = serve(server.address(), "up", 1, upper);
    assert_eq!(fed.hear(), format!("{handle}\tended"));
    worker.join().unwrap();
    assert_eq!(fed.end().code, Some(0));
}

#[test]
fn work_in_a_session_serves_and_leaves_the_session_as_it_was() {
    on_both(|address| {
        let text = "start up one\nwork -f up --builtin upper --once\nfg\nversion\n";
        let ended = repl(address, &[], text);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let lines: Vec<&str> = ended.stdout().lines().collect();
        assert_eq!(lines[1], "1\t0\t0\t0", "{ended:?}");
        assert!(lines[2].starts_with("ONE"), "{ended:?}");
    });
}

#[test]
fn the_embedded_server_lives_as_long_as_the_session() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("script");
    std::fs::write(&file, "start up one\nwork -f up --builtin upper --once\nfg\n").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_gearctl"));
    command.env_remove("GEARCTL_SERVER").args(["--embedded", "repl", "-f"]).arg(&file);
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(output.stdout.ends_with(b"\nONE"), "{output:?}");
    let stderr = String::from_utf8(output.stderr).unwrap();
    let address = stderr.split_whitespace().find(|word| word.starts_with("127.0.0.1:")).unwrap();
    assert!(std::net::TcpStream::connect(address).is_err(), "no listener is left behind");
}

#[test]
fn variables_are_filled_into_words_and_never_become_files_or_flags() {
    on_both(|address| {
        let vars = ["--var", "f=up", "--var", "body=@/etc/hosts"];
        let text = ":set on_exit wait\nstart ${f} ${body}\nstart ${f} '${f}'\nstart up ${nobody}\n";
        let worker = serve(address, "up", 2, upper);
        let ended = repl(address, &vars, text);
        worker.join().unwrap();
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.says("stdin:4: there is no variable `nobody`"), "{ended:?}");
        assert!(ended.stdout().ends_with("first @/ETC/HOSTSfirst ${F}"), "{ended:?}");
    });
}

#[cfg(unix)]
#[test]
fn a_variable_is_never_run_by_a_shell() {
    let server = Server::start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let canary = folder.path().join("canary");
    let var = format!("x_var=a; touch {}", canary.display());
    let text = "!echo ${x_var}\n!echo \"$x_var\"\n1 ! \"echo ${x_var}\"\n";
    let ended = repl(server.address(), &["--var", &var], text);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("stdin:3: a variable is not put into"), "{ended:?}");
    let value = var.split_once('=').unwrap().1;
    assert_eq!(ended.stdout(), format!("{value}\n{value}\n"));
    assert!(!canary.exists());
    // What is in the environment already is not hidden from what a shell runs.
    let ended = repl(server.address(), &["--var", "PATH=/nowhere"], "!true\n");
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("PATH"), "{ended:?}");
}

#[test]
fn watch_repeats_a_command() {
    let server = Server::start().unwrap();
    let ended = repl(
        server.address(),
        &[],
        ":watch i=100ms c=3 submit mail x\n:watch i=100ms m=1 workers --function nobody\n",
    );
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(server.view().jobs, 3);
}

#[cfg(unix)]
#[test]
fn shell_commands_run_where_they_are_allowed() {
    let server = Server::start().unwrap();
    let text = "!echo \"it's\" ${HOME:-} | cut -c 1-4\n!read -r line || echo none\n!exit 4\nsubmit mail never\n";
    let ended = repl(server.address(), &[], text);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert_eq!(ended.stdout(), "it's\nnone\n");
    assert!(
        ended.says("stdin:3: COMMAND_FAILED: the shell command ended with code 4"),
        "{ended:?}"
    );
    let ended = repl(server.address(), &["--no-shell"], "!echo no\n");
    assert_eq!((ended.code, ended.stdout()), (Some(2), ""), "{ended:?}");
    assert_eq!(server.view().jobs, 0);
}

/// A session that is fed line by line.
struct Fed {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Fed {
    fn start(address: &str, arguments: &[&str]) -> Self {
        let mut child = gearctl(address, arguments).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, stdin, stdout: BufReader::new(stdout) }
    }

    fn say(&mut self, line: &str) {
        writeln!(self.stdin, "{line}").unwrap();
    }

    /// The next line on stdout; the test runner's own limit bounds the waiting.
    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn end(mut self) -> Ended {
        let mut rest = Vec::new();
        drop(self.stdin);
        self.stdout.read_to_end(&mut rest).unwrap();
        let ended = end(self.child);
        Ended { stdout: rest, ..ended }
    }
}

#[test]
fn a_lost_connection_is_told_and_reads_are_asked_again() {
    let server = Server::start().unwrap();
    let mut fed = Fed::start(server.address(), &[]);
    fed.say("ping --count 1 -o ndjson");
    assert!(fed.hear().starts_with("{"));
    server.close_connections();
    fed.say("submit f x");
    assert!(fed.hear().starts_with("H:"));
    fed.say("job --unique nobody -o json");
    let ended = fed.end();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert_eq!(ended.stderr.matches("connection lost").count(), 1, "{ended:?}");
    assert_eq!(server.view().jobs, 1);
}

#[cfg(unix)]
#[test]
fn signals_end_a_script_in_order() {
    use rustix::process::{Pid, Signal, kill_process};
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        if signal == Signal::HUP && ctl_core::signals::is_hangup_ignored() {
            continue;
        }
        for waits in [true, false] {
            let server = Server::start().unwrap();
            let mut fed = Fed::start(server.address(), &[]);
            fed.say("start nobody a");
            let handle = fed.hear();
            if waits {
                fed.say("run nobody b");
                assert!(server.wait_for(Duration::from_secs(60), |view| view.jobs == 2));
            }
            let pid = Pid::from_child(&fed.child);
            kill_process(pid, signal).unwrap();
            // stdin stays open: the session must not need its end.
            let stdin = fed.stdin;
            let ended = end(fed.child);
            drop(stdin);
            assert_eq!(ended.code, Some(code), "{ended:?}");
            assert!(ended.stderr.contains(&format!("left to the server: {handle}")), "{ended:?}");
        }
    }
}

#[cfg(unix)]
#[test]
fn a_signal_lets_work_in_a_session_finish_its_job() {
    use rustix::process::{Pid, Signal, kill_process};
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        if signal == Signal::HUP && ctl_core::signals::is_hangup_ignored() {
            continue;
        }
        let server = Server::start().unwrap();
        let mut fed = Fed::start(server.address(), &[]);
        fed.say("start slow one");
        let handle = fed.hear();
        fed.say("work -f slow --builtin sleep=1s --log-jobs ndjson");
        assert!(server.wait_for(Duration::from_secs(60), |view| view.running == 1));
        kill_process(Pid::from_child(&fed.child), signal).unwrap();
        let log = fed.hear();
        assert!(log.contains(&handle) && log.contains("\"fate\":\"complete\""), "{log}");
        let stdin = fed.stdin;
        let ended = end(fed.child);
        drop(stdin);
        assert_eq!(ended.code, Some(code), "{ended:?}");
    }
}

#[test]
fn jobs_go_on_when_the_session_goes_to_other_servers() {
    let (one, two) = (Server::start().unwrap(), Server::start().unwrap());
    let text = format!(
        "start up a\nsubmit later b\nconnect {}\nexpect 'state==elsewhere' :jobs\nstart up b\n\
         expect 'count==2' :jobs\n",
        two.address()
    );
    let mut fed = Fed::start(one.address(), &[]);
    text.lines().for_each(|line| fed.say(line));
    // Three handles, and where it went.
    let said: Vec<String> = (0..4).map(|_| fed.hear()).collect();
    let workers = [&one, &two].map(|server| serve(server.address(), "up", 1, upper));
    fed.say("fg");
    fed.say("fg");
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    let ended = fed.end();
    assert_eq!(ended.code, Some(0), "{said:?} {ended:?}");
    assert_eq!(ended.stdout(), "first Bfirst A", "{ended:?}");
}
