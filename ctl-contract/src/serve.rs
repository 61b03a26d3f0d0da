//! `serve` and `--embedded`.

use std::net::{TcpListener, TcpStream};
use std::process::Command;

use ctl_core::context::Tool;
use ctl_core::link::Link as _;
use rustix::process::{Pid, test_kill_process};

use crate::Case;
use crate::program::{Running, ended};

/// Whatever the umask.
pub fn serve_keeps_its_unix_socket_private<T: Tool>(case: &Case<T>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let script = "umask 0; exec \"$0\" serve --listen \"unix:$1\" -- stat -c %a \"$1\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, case.program.path, path.to_str().unwrap()]);
    let output = shell.output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "600\n");
    assert!(!path.exists());
}

/// Neither is its temporary file.
pub fn serve_never_follows_a_link_at_the_ready_file<T: Tool>(case: &Case<T>) {
    let folder = tempfile::tempdir().unwrap();
    let precious = folder.path().join("precious");
    std::fs::write(&precious, "precious").unwrap();
    for trap in ["ready", "ready.new"] {
        std::os::unix::fs::symlink(&precious, folder.path().join(trap)).unwrap();
    }
    let ready = folder.path().join("ready");
    let file = ready.to_str().unwrap();
    let script = "test ! -L \"$0\" && cat \"$0\"";
    let line =
        ["serve", "--listen", "127.0.0.1:0", "--ready-file", file, "--", "sh", "-c", script, file];
    assert!(case.program.bare(&line).exits(0).out().contains("127.0.0.1:"));
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious");
    assert!(!ready.exists());
}

/// Through the variables that the tool itself reads.
pub fn serve_exec_passes_the_address_and_exit_code<T: Tool>(case: &Case<T>) {
    let program = &case.program;
    let variables: String = program.variables.iter().map(|name| format!(" ${name}")).collect();
    let script = format!("\"$0\" ping > /dev/null && echo \"{}\"", variables.trim());
    let ran = program.bare(&["serve", "--", "sh", "-c", &script, program.path]).exits(0);
    let words: Vec<&str> = ran.out().split_whitespace().collect();
    assert_eq!(words.len(), program.variables.len());
    assert!(words.iter().all(|word| *word == words[0]), "{words:?}");
    assert!(TcpStream::connect(words[0]).is_err(), "the server is gone");
    program.bare(&["mock", "--", "sh", "-c", "exit 7"]).exits(7);
    program.bare(&["serve", "--", "sh", "-c", "kill -TERM $$"]).exits(143);
    program.bare(&["serve", "--", "/no/such/program"]).exits(127);
}

/// Needs no setting for the server.
pub fn serve_keeps_state_between_commands<T: Tool>(case: &Case<T>) {
    let script = format!("\"$0\" {} x >/dev/null && \"$0\" {} -o json", case.add, case.pop);
    let ran = case.program.bare(&["serve", "--", "sh", "-c", &script, case.program.path]).exits(0);
    assert_eq!(ran.json()[0]["body"], "x", "{ran:?}");
    let script = format!("\"$0\" {} x >/dev/null && \"$0\" ping --no-such-flag", case.add);
    case.program.bare(&["serve", "--", "sh", "-c", &script, case.program.path]).exits(2);
}

/// Neither the background processes of the command, nor the command itself after a signal.
pub fn serve_leaves_no_process_behind<T: Tool>(case: &Case<T>) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pid");
    let file = file.to_str().unwrap();
    let alive = |pid: &str| {
        let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
        // A process that has ended counts as gone even before init has reaped it.
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
        test_kill_process(pid).is_ok() && !stat.is_ok_and(|stat| stat.contains(") Z "))
    };
    let script = "sleep 600 >/dev/null 2>&1 & echo $! > \"$0\"";
    case.program.bare(&["serve", "--", "sh", "-c", script, file]).exits(0);
    let pid = std::fs::read_to_string(file).unwrap();
    crate::until(|| !alive(&pid));
    let script = "echo $$ > \"$0.new\"; mv \"$0.new\" \"$0\"; sleep 600";
    std::fs::remove_file(file).unwrap();
    let child = case.program.command(&["serve", "--", "sh", "-c", script, file]).spawn().unwrap();
    let child = Running::of(child);
    crate::until(|| std::path::Path::new(file).exists());
    let pid = std::fs::read_to_string(file).unwrap();
    child.terminated();
    crate::until(|| !alive(&pid));
}

/// Both contain the same address, and the file is removed with the server.
pub fn serve_prints_its_address_and_writes_the_ready_file<T: Tool>(case: &Case<T>) {
    let directory = tempfile::tempdir().unwrap();
    let ready = directory.path().join("ready");
    let file = ready.to_str().unwrap();
    let line = ["serve", "--listen", ":0", "--ready-file", file];
    let mut child = Running::of(case.program.command(&line).spawn().unwrap());
    let address = child.first_line();
    crate::until(|| ready.exists());
    assert_eq!(std::fs::read_to_string(&ready).unwrap(), format!("{address}\n"));
    case.program.at(&address, &["ping"]).exits(0);
    child.terminated();
    assert!(!ready.exists());
}

/// `--exit-with-parent`.
pub fn serve_exits_with_its_parent<T: Tool>(case: &Case<T>) {
    let directory = tempfile::tempdir().unwrap();
    let ready = directory.path().join("ready");
    let script = "\"$0\" serve --listen 127.0.0.1:0 --ready-file \"$1\" --exit-with-parent 2>/dev/null >/dev/null & \
                  while ! test -e \"$1\"; do sleep 0.01; done; cat \"$1\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, case.program.path, ready.to_str().unwrap()]);
    let address = String::from_utf8(shell.output().unwrap().stdout).unwrap();
    // The shell has ended, and the server follows.
    crate::until(|| TcpStream::connect(address.trim()).is_err());
}

/// Both forms.
pub fn unix_sockets<T: Tool>(case: &Case<T>) {
    let directory = tempfile::tempdir().unwrap();
    let socket = format!("unix:{}", directory.path().join("s").display());
    let program = &case.program;
    let script = format!("\"$0\" {} \"$1\" ping >/dev/null", program.flag);
    let line = ["serve", "--listen", &socket, "--", "sh", "-c", &script, program.path, &socket];
    program.bare(&line).exits(0);
}

/// Neither by another in-memory server nor by a tap, and not at their end.
pub fn serve_keeps_a_socket_in_use<T: Tool>(case: &Case<T>) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    let socket = format!("unix:{}", path.display());
    let (_server, address) = T::Link::start(&socket, None).unwrap();
    for line in [&["serve"][..], &["tap", "--to", "127.0.0.1:1"]] {
        let ran = case.program.bare(&[line, &["--listen", &socket]].concat()).exits(69);
        assert!(ran.err.contains("is in use by another server"), "{line:?}: {}", ran.err);
        case.program.at(&address, &["ping", "-c", "1"]).exits(0);
    }
}

/// An invalid address and one in use give different errors.
pub fn serve_listens_on_loopback_by_default<T: Tool>(case: &Case<T>) {
    let serve = |address: &str, more: &[&str]| {
        let line = [&["serve", "--listen", address], more, &["--", "true"]].concat();
        case.program.bare(&line)
    };
    let ran = serve("0.0.0.0:0", &[]).exits(2);
    assert!(ran.err.contains("--allow-remote"), "{}", ran.err);
    serve("0.0.0.0:0", &["--allow-remote"]).exits(0);
    serve("nonsense", &[]).exits(2);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    serve(&taken.local_addr().unwrap().to_string(), &[]).exits(69);
}

/// `--embedded`.
pub fn embedded_runs_without_a_server<T: Tool>(case: &Case<T>) {
    let ran = case.program.bare(&["--embedded", "bench", "--count", "3", "-o", "json"]).exits(0);
    assert_eq!(ran.json()[0]["ops"], 3);
    assert!(ran.err.contains("embedded server on 127.0.0.1:"), "{}", ran.err);
    let address = ran.err.split_whitespace().find(|word| word.starts_with("127.0.0.1:")).unwrap();
    assert!(TcpStream::connect(address).is_err());
}

/// Wherever the flag stands; the environment is overridden.
pub fn embedded_conflicts_with_an_address<T: Tool>(case: &Case<T>) {
    let (program, flag) = (&case.program, case.program.flag);
    program.bare(&["--embedded", flag, "localhost", "ping"]).exits(2);
    program.bare(&[flag, "localhost", "ping", "--embedded"]).exits(2);
    let (_port, dead) = Case::<T>::dead_address();
    let mut command = program.command(&["--embedded", "ping"]);
    ended(command.env(program.variables[0], dead).spawn().unwrap()).exits(0);
}

/// `--fail`.
pub fn faults_are_scripted<T: Tool>(case: &Case<T>) {
    let serve = |fault: &str| {
        let ping = ["--", case.program.path, "--timeout", "10s", "ping"];
        case.program.bare(&[&["serve", "--fail", fault], &ping[..]].concat())
    };
    serve("always:delay=1ms").exits(0);
    let ran = serve("nosuchverb:every=1:hang").exits(2);
    assert!(ran.err.contains("nosuchverb"), "{}", ran.err);
    case.program.bare(&["serve", "--fail", "nonsense", "--", "true"]).exits(2);
    let failing = ["serve", "--fail", "always:cut=0", "--", case.program.path, "ping"];
    assert!(case.program.bare(&failing).code != Some(0));
}

/// The file of one server is loaded by the next, whatever the settings say about other servers.
pub fn serve_loads_records_from_a_file<T: Tool>(case: &Case<T>) {
    let folder = tempfile::tempdir().unwrap();
    let records = folder.path().join("records");
    let records = records.to_str().unwrap();
    let (server, address) = Case::<T>::server();
    for body in ["a", "b"] {
        case.adds(&address, body);
    }
    case.program.at(&address, &["drain", "mail", "--to", records, "--yes"]).exits(0);
    assert_eq!((case.jobs)(&server), 0);
    let again = ["drain", "mail", "--yes"];
    let serve = ["serve", "--seed-file", records, "--", case.program.path];
    let mut command = case.program.command(&[&serve[..], &again].concat());
    command.env(case.program.variables[0], "127.0.0.1:1");
    let ran = crate::program::ended(command.spawn().unwrap()).exits(0);
    let bodies: Vec<_> = ran.lines().iter().map(|line| record(line)["body"].clone()).collect();
    assert_eq!(bodies, ["a", "b"]);
    std::fs::write(records, "{\"v\":1}\n").unwrap();
    let ran = case.program.bare(&["serve", "--seed-file", records, "--", "true"]).exits(65);
    assert!(ran.err.contains("record 1"), "{}", ran.err);
    case.program.bare(&["serve", "--seed-file", "none", "--", "true"]).exits(66);
}

fn record(line: &str) -> serde_json::Value {
    serde_json::from_str(line).unwrap()
}

/// The server says which there are.
pub fn rejects_a_fault_for_an_unknown_command<T: Tool>(case: &Case<T>) {
    let ran =
        case.program.bare(&["serve", "--fail", "nonsense:always:hang", "--", "true"]).exits(2);
    let known = match case.noun {
        "tube" => "reserve-with-timeout",
        "function" => "SUBMIT_JOB",
        _ => "pull",
    };
    assert!(
        ran.err.contains("the server's commands are ") && ran.err.contains(known),
        "{}",
        ran.err
    );
}
