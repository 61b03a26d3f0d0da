//! Colours and escapes per stream.

use fixtures::beanstalkd::Server;

use crate::harness::*;

fn has_ansi(bytes: &[u8]) -> bool {
    bytes.contains(&0x1b)
}

#[test]
fn a_pipe_gets_colours_only_when_forced() {
    let server = Server::start().unwrap();
    for (arguments, environment, expected) in [
        (&[][..], &[][..], false),
        (&[], &[("CLICOLOR_FORCE", "1")], true),
        (&[], &[("CLICOLOR_FORCE", "1"), ("TERM", "dumb")], true),
        (&[], &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], false),
        (&[], &[("CLICOLOR_FORCE", "0")], false),
        (&["--color", "always"], &[("NO_COLOR", "1")], true),
        (&["--color", "never"], &[("CLICOLOR_FORCE", "1")], false),
    ] {
        let line = [&["-a", server.address(), "tubes", "-o", "table"], arguments].concat();
        let mut command = command(&line);
        command.envs(environment.iter().copied());
        let ran = ended(command.spawn().unwrap()).exits(0);
        assert_eq!(has_ansi(&ran.bytes), expected, "{arguments:?} {environment:?}");
        // The error stream is decided on its own, by the same rules.
        let mut failing = self::command(&["-a", server.address(), "job", "9"]);
        failing.args(arguments).envs(environment.iter().copied());
        let ran = ended(failing.spawn().unwrap()).exits(1);
        assert_eq!(has_ansi(ran.err.as_bytes()), expected, "{arguments:?} {environment:?}");
    }
}

#[cfg(unix)]
mod terminal {
    use super::*;

    /// What the program writes to a terminal.
    fn on_terminal(server: &Server, arguments: &[&str], environment: &[(&str, &str)]) -> String {
        let command = command(&[&["-a", server.address()], arguments].concat());
        // The pseudo-terminal takes the place of the pipes.
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
    fn a_terminal_gets_colours_unless_told_otherwise() {
        let server = Server::start().unwrap();
        let tubes = |environment: &[(&str, &str)]| on_terminal(&server, &["tubes"], environment);
        assert!(has_ansi(tubes(&[]).as_bytes()));
        assert!(!has_ansi(tubes(&[("NO_COLOR", "1")]).as_bytes()));
        assert!(!has_ansi(tubes(&[("TERM", "dumb")]).as_bytes()));
        assert!(!has_ansi(tubes(&[("CLICOLOR", "0")]).as_bytes()));
        let piped = on_terminal(&server, &["tubes", "--color", "never"], &[]);
        assert!(!has_ansi(piped.as_bytes()) && piped.starts_with("TUBE"), "{piped:?}");
    }

    #[test]
    fn bodies_never_act_on_a_terminal() {
        let server = Server::start().unwrap();
        let attack = "\x1b]52;c;aGk=\x07\x1b[2J\u{9b}31m\u{202e}";
        put(server.address(), "t", attack);
        for format in ["table", "wide", "plain", "json", "ndjson", "yaml"] {
            let line = ["peek", "1", "-o", format, "--color", "never"];
            let shown = on_terminal(&server, &line, &[]);
            let acts = |c: char| ctl_core::output::escape::acts(c) && !"\r\n\t".contains(c);
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
