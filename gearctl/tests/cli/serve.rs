//! `serve` and `--embedded`. What they share with the other tools is tested there, too.

use std::net::TcpStream;

use crate::harness::*;

#[cfg(unix)]
#[test]
fn a_unix_socket_is_for_its_owner_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let script = "umask 0; exec \"$0\" serve --listen \"unix:$1\" -- stat -c %a \"$1\"";
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_gearctl"), path.to_str().unwrap()]);
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
    let program = env!("CARGO_BIN_EXE_gearctl");
    let script = "\"$0\" work -f up --builtin upper --once -q >/dev/null & \"$0\" run up x && wait && \
                  echo \" $GEARCTL_SERVER $GEARMAN_SERVER $GEARMAN_SERVERS\"";
    let ran = bare(&["serve", "--", "sh", "-c", script, program]).exits(0);
    let words: Vec<&str> = ran.out().split_whitespace().collect();
    assert_eq!((words[0], words[1] == words[2], words[2] == words[3]), ("X", true, true));
    assert!(TcpStream::connect(words[1]).is_err(), "the server is gone");
    bare(&["mock", "--", "sh", "-c", "exit 7"]).exits(7);
}

#[cfg(unix)]
#[test]
fn the_address_is_printed_and_the_ready_file_written() {
    use std::io::{BufRead, BufReader};
    let directory = tempfile::tempdir().unwrap();
    let ready = directory.path().join("ready");
    let file = ready.to_str().unwrap();
    let line = ["serve", "--listen", ":0", "--print-addr", "--ready-file", file];
    let mut child = command(&line).spawn().unwrap();
    let mut address = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).unwrap();
    eventually("the ready file", || ready.exists().then_some(()));
    assert_eq!(std::fs::read_to_string(&ready).unwrap(), address);
    gearctl(address.trim(), &["smoke"]).exits(0);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    ended(child).exits(143);
    assert!(!ready.exists());
}

#[cfg(unix)]
#[test]
fn unix_sockets() {
    let directory = tempfile::tempdir().unwrap();
    let socket = format!("unix:{}", directory.path().join("s").display());
    let script = "\"$0\" -s \"$1\" smoke >/dev/null";
    let program = env!("CARGO_BIN_EXE_gearctl");
    bare(&["serve", "--listen", &socket, "--", "sh", "-c", script, program, &socket]).exits(0);
}

#[test]
fn other_machines_are_kept_out() {
    let ran = bare(&["serve", "--listen", "0.0.0.0:0", "--", "true"]).exits(2);
    assert!(ran.err.contains("--allow-remote"), "{}", ran.err);
}

#[test]
fn embedded_needs_no_server_and_leaves_none() {
    let ran = bare(&["--embedded", "smoke", "-o", "json"]).exits(0);
    assert!(ran.json().as_array().unwrap().iter().all(|row| row["ok"] == true));
    let address = ran.err.trim().rsplit(' ').next().unwrap().to_owned();
    assert!(ran.err.contains("embedded server on 127.0.0.1:"), "{}", ran.err);
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn embedded_and_an_address_exclude_each_other() {
    bare(&["--embedded", "-s", "localhost", "ping"]).exits(2);
    bare(&["-s", "localhost", "ping", "--embedded"]).exits(2);
    // The environment is overruled.
    let mut command = command(&["--embedded", "ping"]);
    ended(command.env("GEARCTL_SERVER", dead_address()).spawn().unwrap()).exits(0);
}
