//! `serve` and `--embedded`.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;

use crate::harness::*;

const PROGRAM: &str = env!("CARGO_BIN_EXE_bsctl");

#[cfg(unix)]
#[test]
fn a_unix_socket_is_for_its_owner_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let script = "umask 0; exec \"$0\" serve --listen \"unix:$1\" -- stat -c %a \"$1\"";
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_bsctl"), path.to_str().unwrap()]);
    let output = shell.output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "600\n");
    assert!(!path.exists());
}

#[cfg(unix)]
#[test]
fn a_ready_file_is_never_written_through_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let precious = folder.path().join("precious");
    std::fs::write(&precious, "precious").unwrap();
    for trap in ["ready", "ready.new"] {
        std::os::unix::fs::symlink(&precious, folder.path().join(trap)).unwrap();
    }
    let ready = folder.path().join("ready");
    let file = ready.to_str().unwrap();
    let script = "test ! -L \"$0\" && cat \"$0\"";
    let ran = bare(&["serve", "--port", "0", "--ready-file", file, "--", "sh", "-c", script, file]);
    assert!(ran.exits(0).out().contains("127.0.0.1:"));
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious");
    assert!(!ready.exists());
}

#[cfg(unix)]
#[test]
fn a_command_gets_the_server_and_gives_its_code() {
    let script =
        "\"$0\" put x > /dev/null && \"$0\" pop -o raw && echo \" $BSCTL_ADDR $BEANSTALKD_ADDR\"";
    let ran = bare(&["serve", "--", "sh", "-c", script, PROGRAM]).exits(0);
    let words: Vec<&str> = ran.out().split_whitespace().collect();
    assert_eq!((words[0], words[1] == words[2]), ("x", true), "{words:?}");
    assert!(TcpStream::connect(words[1]).is_err(), "the server is gone");
    bare(&["mock", "--", "sh", "-c", "exit 7"]).exits(7);
    bare(&["serve", "--", "sh", "-c", "kill -TERM $$"]).exits(143);
    bare(&["serve", "--", "/no/such/program"]).exits(127);
}

#[cfg(unix)]
#[test]
fn no_process_is_left_behind() {
    use rustix::process::{Pid, Signal, test_kill_process};
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pid");
    let file = file.to_str().unwrap();
    let alive = |pid: &str| {
        let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
        // A process that has ended but was not yet waited for by init counts as gone.
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
        test_kill_process(pid).is_ok() && !stat.is_ok_and(|stat| stat.contains(") Z "))
    };
    // The command ends and leaves a process in the background.
    let script = "sleep 600 >/dev/null 2>&1 & echo $! > \"$0\"";
    bare(&["serve", "--", "sh", "-c", script, file]).exits(0);
    let pid = std::fs::read_to_string(file).unwrap();
    while alive(&pid) {
        std::thread::yield_now();
    }
    // A signal ends the command, too.
    let script = "echo $$ > \"$0.new\"; mv \"$0.new\" \"$0\"; sleep 600";
    std::fs::remove_file(file).unwrap();
    let child = command(&["serve", "--", "sh", "-c", script, file]).spawn().unwrap();
    while !std::path::Path::new(file).exists() {
        std::thread::yield_now();
    }
    let pid = std::fs::read_to_string(file).unwrap();
    signal(&child, Signal::TERM);
    ended(child).exits(143);
    while alive(&pid) {
        std::thread::yield_now();
    }
}

#[cfg(unix)]
#[test]
fn the_address_is_printed_and_the_ready_file_written() {
    let directory = tempfile::tempdir().unwrap();
    let ready = directory.path().join("ready");
    let file = ready.to_str().unwrap();
    let line = ["serve", "--port", "0", "--print-addr", "--ready-file", file];
    let mut child = command(&line).spawn().unwrap();
    let mut address = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).unwrap();
    while !ready.exists() {
        std::thread::yield_now();
    }
    assert_eq!(std::fs::read_to_string(&ready).unwrap(), address);
    bsctl(address.trim(), &["ping"]).exits(0);
    signal(&child, rustix::process::Signal::TERM);
    ended(child).exits(143);
    assert!(!ready.exists());
}

#[cfg(unix)]
#[test]
fn it_ends_with_its_parent() {
    let directory = tempfile::tempdir().unwrap();
    let ready = directory.path().join("ready");
    let file = ready.to_str().unwrap();
    let script = "\"$0\" serve --port 0 --ready-file \"$1\" --exit-with-parent 2>/dev/null >/dev/null & \
                  while ! test -e \"$1\"; do :; done; cat \"$1\"";
    let output =
        std::process::Command::new("sh").args(["-c", script, PROGRAM, file]).output().unwrap();
    let address = String::from_utf8(output.stdout).unwrap();
    // The shell has ended, and so does the server.
    while TcpStream::connect(address.trim()).is_ok() {
        std::thread::yield_now();
    }
}

#[cfg(unix)]
#[test]
fn unix_sockets() {
    let directory = tempfile::tempdir().unwrap();
    let socket = format!("unix:{}", directory.path().join("s").display());
    let script = "\"$0\" -a \"$1\" ping >/dev/null";
    bare(&["serve", "--listen", &socket, "--", "sh", "-c", script, PROGRAM, &socket]).exits(0);
}

#[test]
fn other_machines_are_kept_out_unless_allowed() {
    let ran = bare(&["serve", "--listen", "0.0.0.0:0", "--", "true"]).exits(2);
    assert!(ran.err.contains("--allow-remote"), "{}", ran.err);
    #[cfg(unix)]
    bare(&["serve", "--listen", "0.0.0.0:0", "--allow-remote", "--", "true"]).exits(0);
    bare(&["serve", "--listen", "nonsense", "--", "true"]).exits(2);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    bare(&["serve", "--listen", &address, "--", "true"]).exits(69);
}

#[test]
fn embedded_needs_no_server_and_leaves_none() {
    let ran = bare(&["--embedded", "ping"]).exits(0);
    let address = ran.out().split('\t').next().unwrap().to_owned();
    assert!(ran.err.contains(&address), "{}", ran.err);
    assert!(TcpStream::connect(address).is_err());
    let script = "put -t mail hello\nuse mail\npop -t mail -o raw\n";
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("script");
    std::fs::write(&file, script).unwrap();
    let ran = bare(&["--embedded", "-q", "repl", "-f", file.to_str().unwrap()]).exits(0);
    assert!(ran.out().contains("hello"), "{ran:?}");
}

#[test]
fn embedded_and_an_address_exclude_each_other() {
    bare(&["--embedded", "-a", "localhost", "ping"]).exits(2);
    bare(&["-a", "localhost", "ping", "--embedded"]).exits(2);
    // The environment is overruled.
    let mut command = command(&["--embedded", "ping"]);
    ended(command.env("BSCTL_ADDR", dead_address()).spawn().unwrap()).exits(0);
}
