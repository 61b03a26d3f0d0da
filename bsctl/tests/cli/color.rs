//! Colours and escapes per stream.

use fixtures::beanstalkd::Server;

use crate::harness::*;

#[cfg(unix)]
mod terminal {
    use super::*;

    /// The program's output on a terminal.
    fn on_terminal(server: &Server, arguments: &[&str], environment: &[(&str, &str)]) -> String {
        let command = command(&[&["-a", server.address()], arguments].concat());
        // The pseudo-terminal replaces the pipes.
        let program = command.get_program().to_owned();
        let mut fresh = std::process::Command::new(program);
        fresh.args(command.get_args());
        for (name, value) in command.get_envs() {
            if value.is_none() {
                fresh.env_remove(name);
            }
        }
        drop(command);
        fresh.env("TERM", "xterm-256color").envs(environment.iter().copied());
        let mut session = rexpect::session::spawn_command(fresh, Some(30_000)).unwrap();
        session.exp_eof().unwrap()
    }

    #[test]
    fn bodies_never_act_on_a_terminal() {
        let server = Server::start().unwrap();
        let attack = "\x1b]52;c;aGk=\x07\x1b[2J\u{9b}31m\u{202e}";
        put(server.address(), "t", attack);
        for format in ["table", "wide", "plain", "json", "ndjson", "yaml"] {
            let line = ["peek", "1", "-o", format, "--color", "never"];
            let shown = on_terminal(&server, &line, &[]);
            let acts = |c: char| ctl_core::text::escape::acts(c) && !"\r\n\t".contains(c);
            assert!(!shown.chars().any(acts), "{format}: {shown:?}");
        }
        let refused =
            on_terminal(&server, &["pop", "-t", "t", "-o", "raw", "--color", "never"], &[]);
        assert!(refused.contains("binary body not shown on a terminal"), "{refused:?}");
        assert!(!refused.contains('\x1b'));
        // Refused before it was deleted.
        assert_eq!(state(server.address(), 1.into()), "ready");
        let forced = on_terminal(&server, &["peek", "1", "-o", "raw", "--force-raw"], &[]);
        assert!(forced.contains("\x1b[2J"));
    }

    #[test]
    fn a_person_is_asked_and_can_decline() {
        let server = Server::start().unwrap();
        put(server.address(), "t", "");
        let ask = |answer: &str| {
            let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_bsctl"));
            command.args(["-a", server.address(), "clear", "t"]).env("NO_COLOR", "1");
            let mut session = rexpect::session::spawn_command(command, Some(30_000)).unwrap();
            let address = server.address();
            let question = format!("Delete 1 job (1 ready) from tube t on {address}? [y/N]");
            session.exp_string(&question).unwrap();
            session.send_line(answer).unwrap();
            session.exp_eof().unwrap()
        };
        assert!(ask("").contains("DECLINED"));
        assert_eq!(state(server.address(), 1.into()), "ready");
        assert!(ask("y").contains("deleted 1 job"));
        assert_eq!(state(server.address(), 1.into()), "gone");
    }

    #[test]
    fn no_arguments_show_short_help() {
        let server = Server::start().unwrap();
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_bsctl"));
        command.env_remove("BSCTL_ADDR");
        drop(server);
        let mut session = rexpect::session::spawn_command(command, Some(30_000)).unwrap();
        let help = session.exp_eof().unwrap();
        assert!(help.contains("Inspect:") && !help.contains("--connect-timeout"), "{help}");
    }
}
