//! Settings from flags, the environment, contexts and the configuration file.

use std::fs;
use std::path::PathBuf;

use ctl_core::context::Tool;

use crate::Case;
use crate::program::{Ran, ended, fed};

/// An invalid address, duration or word has one code, and its source is named.
pub fn exits_2_on_a_bad_setting_from_any_source<T: Tool>(case: &Case<T>) {
    let (program, servers) = (&case.program, T::PROGRAM.servers);
    let (_server, address) = Case::<T>::server();
    for line in [
        &[servers.flag, "a:b:c", "ping"][..],
        &[servers.flag, &address, "ping", "--timeout", "soon"],
        &[servers.flag, &address, "ping", "-o", "jsn"],
    ] {
        let ran = program.bare(line).exits(2);
        assert!(ran.err.contains(line[0]) || ran.err.contains(line[3]), "{}", ran.err);
    }
    let own = |name: &str| format!("{}_{name}", T::PROGRAM.prefix);
    let addresses = servers.variables.iter().map(|name| ((*name).to_owned(), "a:b:c"));
    let others = [(own("TIMEOUT"), "soon"), (own("OUTPUT"), "jsn"), (own("LOG"), "x=loud")];
    for (name, value) in addresses.chain(others) {
        let said = value.rsplit('=').next().unwrap();
        let mut command = program.command(&["ping"]);
        let ran = ended(command.env(&name, value).spawn().unwrap()).exits(2);
        assert!(ran.err.contains(&name) && ran.err.contains(said), "{}", ran.err);
    }
}

/// A directory with a configuration file.
struct Folder {
    folder: tempfile::TempDir,
}

impl Folder {
    fn with(text: &str) -> Self {
        let folder = Self { folder: tempfile::tempdir().unwrap() };
        fs::write(folder.file(), text).unwrap();
        folder
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("config.toml")
    }

    fn text(&self) -> String {
        fs::read_to_string(self.file()).unwrap()
    }

    /// Runs the program with this file and these variables; `line` is its stdin.
    fn run<T: Tool>(&self, case: &Case<T>, variables: &[(&str, &str)], line: &[&str]) -> Ran {
        self.fed(case, variables, line, "")
    }

    fn fed<T: Tool>(
        &self,
        case: &Case<T>,
        variables: &[(&str, &str)],
        line: &[&str],
        stdin: &str,
    ) -> Ran {
        let mut command = case.program.command(line);
        command.env(format!("{}_CONFIG", T::PROGRAM.prefix), self.file());
        command.env_remove(format!("{}_TIMEOUT", T::PROGRAM.prefix));
        command.envs(variables.iter().copied());
        fed(command, stdin.as_bytes())
    }
}

/// Order of precedence: flag, named context, environment, selected context, defaults of the file, built-in default.
pub fn settings_precedence<T: Tool>(case: &Case<T>) {
    let program = T::PROGRAM;
    let (own, variable) = (format!("{}_CONTEXT", program.prefix), program.servers.variables[0]);
    let folder = Folder::with(
        "context = \"one\"\n[defaults]\nserver = \"file:1\"\ntimeout = 7\n\
         [contexts.one]\nserver = \"one:1\"\n[contexts.two]\nserver = [\"two:1\", \"two:2\"]\ntimeout = \"9s\"\n",
    );
    let show = |variables: &[(&str, &str)], flags: &[&str]| {
        let line = [flags, &["context", "show", "-o", "json"]].concat();
        let ran = folder.run(case, variables, &line).exits(0);
        let rows: Vec<serde_json::Value> = serde_json::from_slice(&ran.bytes).unwrap();
        let find = |name: &str| {
            let row = rows.iter().find(|row| row["setting"] == name).unwrap();
            let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
            (text("value"), text("source"), text("overrides"))
        };
        (find("server"), find("timeout").0, ran.err)
    };
    let is = |setting: &(String, String, String), value: &str, source: &str, over: &str| {
        assert!(setting.0.contains(value), "{setting:?}");
        assert_eq!((setting.1.as_str(), setting.2.as_str()), (source, over));
    };
    let flag = format!("flag {}", program.servers.flag);
    let (address, timeout, _) = show(&[], &[]);
    is(&address, "one:1", "context one", "");
    assert_eq!(timeout, "7");
    is(&show(&[], &["--context="]).0, "file:1", "configuration file", "");
    is(&show(&[], &[program.servers.flag, "flag:1"]).0, "flag:1", &flag, "context one");
    let (address, timeout, _) = show(&[(&own, "two")], &[]);
    is(&address, "two:1,two:2", "context two", "");
    assert_eq!(timeout, "9s");
    let environment = format!("environment {variable}");
    let (address, _, said) = show(&[(variable, "env:1")], &[]);
    is(&address, "env:1", &environment, "context one");
    assert!(said.contains(&environment) && said.contains("overrides context one"), "{said}");
    // A context named on this line is not overridden by an exported variable.
    is(
        &show(&[(variable, "env:1")], &["--context", "two"]).0,
        "two:1,two:2",
        "context two",
        &environment,
    );
    // Where it matters, the override is reported unasked.
    let (_server, address) = Case::<T>::server();
    let ran = folder.run(case, &[(variable, &address)], &["ping"]).exits(0);
    assert!(ran.err.contains("which overrides context one"), "{}", ran.err);
    let ran = folder.run(case, &[(variable, "127.0.0.1:1")], &["ping"]).exits(69);
    assert!(ran.err.contains(&format!("from {environment}, which overrides context one")));
    let ran = folder.run(case, &[], &["--embedded", "ping"]).exits(0);
    assert!(!ran.err.contains("context"), "{}", ran.err);
    let both = folder.run(case, &[], &["--embedded", "--context", "one", "ping"]).exits(2);
    assert!(both.err.contains("--context"), "{}", both.err);
}

/// Every change replaces the file atomically, and only if the result is valid.
pub fn editing_contexts_keeps_comments<T: Tool>(case: &Case<T>) {
    let (_server, address) = Case::<T>::server();
    let program = T::PROGRAM;
    let folder = Folder::with("# mine\n[contexts.a] # the first\nserver = \"h:1\" # there\n");
    let run = |line: &[&str]| folder.run(case, &[], &[&["context"], line].concat());
    let flagged = ["add", "b", program.servers.flag, &address, "--timeout", "3s", "--tls=ca=x.pem"];
    run(&[&flagged[..], &["protected=true"]].concat()).exits(0);
    run(&["edit", "a", "server=k:1,k:2", "wait-for-server=2"]).exits(0);
    run(&["select", "a"]).exits(0);
    run(&["select", "b"]).exits(0);
    let text = folder.text();
    for part in
        ["# mine", "# the first", "# there", "wait-for-server = 2", "[\"k:1\", \"k:2\"]", "\"3s\""]
    {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    // A relative file name is relative to the working directory.
    let typed = std::env::current_dir().unwrap().join("x.pem");
    assert!(text.contains(&*typed.to_string_lossy()), "{text}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::metadata(folder.file()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    assert!(run(&["select", "-"]).exits(0).says_out("a"));
    assert!(run(&["select", "-"]).exits(0).says_out("b"));
    // None of these is written.
    for (line, code) in [
        (&["add", "a"][..], 2),
        (&["add", "c", "nonsense=1"], 2),
        (&["add", "c", "timeout=soon"], 2),
        (&["add", "../c"], 2),
        (&["select", "c"], 2),
        (&["edit", "c", "timeout=1"], 2),
        (&["rm", "a", "c"], 2),
        (&["add", "c", "-n"], 0),
    ] {
        let before = folder.text();
        let ran = run(line).exits(code);
        assert_eq!(folder.text(), before, "{line:?} {}", ran.err);
    }
    run(&["add", "c"]).exits(0);
    run(&["rm", "a", "b"]).exits(0);
    let listed = run(&["ls"]).exits(0);
    assert!(listed.says_out("c\tfalse") && listed.bytes.len() < 100, "{:?}", listed.bytes);
}

/// Each as one document; stderr has no JSON.
pub fn reports_setting_changes_as_json<T: Tool>(case: &Case<T>) {
    for line in [
        &["context", "add", "c", "timeout=1"][..],
        &["context", "edit", "a", "timeout=1"],
        &["context", "select", "-"],
        &["context", "rm", "a", "b"],
        &["context", "select", "a"],
        &["context", "unselect"],
        &["context", "edit"],
    ] {
        let folder = Folder::with(
            "context = \"b\"\nprevious-context = \"a\"\n[defaults]\ntimeout = 2\n[contexts.a]\n[contexts.b]\n",
        );
        let before = folder.text();
        let editor = ("EDITOR", "sed -i s/2/1/");
        let ran = folder.run(case, &[editor], &[line, &["-o", "json"]].concat()).exits(0);
        assert!(!ran.json().is_null(), "{line:?}");
        let is_json = |line: &str| serde_json::from_str::<serde_json::Value>(line).is_ok();
        assert!(!ran.err.lines().any(is_json), "{line:?}: {}", ran.err);
        assert_ne!(folder.text(), before, "{line:?}");
    }
}

/// With the line number, but without its content.
pub fn a_bad_configuration_file_exits_2_and_names_the_line<T: Tool>(case: &Case<T>) {
    for (text, line, said) in [
        ("x = \n", 1, "config.toml"),
        ("[defaults]\npassword = \"hunter2\"\n", 2, "`defaults.password`"),
        ("[contexts.a]\n\n# c\nserver = 7 # hunter2\n", 4, "contexts.a.server"),
        ("[contexts.a]\nserver = \"a:b:c\"\n", 2, "a:b:c"),
        ("[contexts.a]\nprotected = \"hunter2\"\n", 2, "true or false"),
        ("[contexts.a]\ntimeout = \"soon\"\n", 2, "soon"),
        ("[contexts.a]\nprompt-color = \"mauve\"\n", 2, "magenta"),
        ("[contexts.\"a b\"]\n", 1, "a b"),
        ("hunter2 hunter2\n", 1, "config.toml"),
        ("[envelopes.a]\nclass = \"hunter2\"\n", 2, "envelopes.a.class: must be a pointer"),
        ("[envelopes.a]\nid = \"/hunter2\"\n", 1, "envelopes.a: class is missing"),
        ("[envelopes.auto]\nclass = \"/a\"\n", 1, "envelopes.auto"),
        ("[envelopes.\"a b\"]\nclass = \"/a\"\n", 1, "letters, digits"),
        ("[envelopes]\na = \"/a\"\n", 2, "envelopes.a must be a table"),
    ] {
        let folder = Folder::with(text);
        let ran = folder.run(case, &[], &["ping"]).exits(2);
        let place = format!("config.toml:{line}: ");
        assert!(ran.err.contains(&place) && ran.err.contains(said), "{text}: {}", ran.err);
        assert!(!ran.err.contains("hunter2"), "{}", ran.err);
    }
    for text in ["x = \n", "[contexts.a]\nserver = \"a:b:c\"\n"] {
        let folder = Folder::with(text);
        // Commands that do not need the file work.
        folder.run(case, &[], &["man"]).exits(0);
        folder.run(case, &[], &["context", "add", "b"]).exits(2);
        assert_eq!(folder.text(), text);
    }
    let folder = Folder::with("context = \"gone\"\n[contexts.here]\n");
    let ran = folder.run(case, &[], &["ping"]).exits(2);
    assert!(ran.err.contains("gone") && ran.err.contains("here"), "{}", ran.err);
    folder.run(case, &[], &["context", "unselect"]).exits(0);
    assert!(!folder.text().starts_with("context"), "{}", folder.text());
    let check = folder.run(case, &[], &["--context", "gone", "check", "server"]).exits(3);
    assert!(check.err.contains("gone"), "{}", check.err);
    folder.run(case, &[], &["--config", "/nonexistent/file", "ping"]).exits(2);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(folder.file(), fs::Permissions::from_mode(0o622)).unwrap();
        let ran = folder.run(case, &[], &["ping"]).exits(2);
        assert!(ran.err.contains("chmod go-w"), "{}", ran.err);
    }
}

/// Including otherwise harmless commands, and in a session; `--yes` is not enough.
pub fn protected_contexts_require_their_name<T: Tool>(case: &Case<T>) {
    let (server, address) = Case::<T>::server();
    let text =
        format!("context = \"prod\"\n[contexts.prod]\nserver = \"{address}\"\nprotected = true\n");
    let folder = Folder::with(&text);
    let run = |line: &[&str]| folder.run(case, &[], line);
    let add: Vec<&str> = case.add.split(' ').chain(["body"]).collect();
    run(&add).exits(0);
    assert_eq!((case.jobs)(&server), 1);
    let list: Vec<&str> = case.list.split(' ').collect();
    run(&list).exits(0);
    for line in [&["clear", "mail"][..], &["clear", "mail", "--yes"], &["raw", "x", "--yes"]] {
        let ran = run(line).exits(2);
        assert!(
            ran.err.contains("--confirm=prod") && ran.err.contains("prod (protected)"),
            "{}",
            ran.err
        );
    }
    run(&["clear", "mail", "--yes", "--confirm", &address]).exits(2);
    let script = "clear mail --yes\n";
    folder.fed(case, &[], &["repl"], script).exits(2);
    assert_eq!((case.jobs)(&server), 1);
    run(&["clear", "mail", "--dry-run"]).exits(0);
    // A server without a context is protected under its address.
    let all = Folder::with("[defaults]\nprotected = true\n");
    let line = [T::PROGRAM.servers.flag, &address, "clear", "mail", "--yes"];
    let ran = all.run(case, &[], &line).exits(2);
    assert!(ran.err.contains(&format!("--confirm={address}")), "{}", ran.err);
    assert_eq!((case.jobs)(&server), 1);
    folder.fed(case, &[], &["repl", "--confirm=prod"], script).exits(0);
    assert_eq!((case.jobs)(&server), 0);
    run(&add).exits(0);
    run(&["clear", "mail", "--confirm=prod"]).exits(0);
    assert_eq!((case.jobs)(&server), 0);
}

/// However the server is named; the name of the source server does not count.
pub fn protected_servers_require_the_context_name<T: Tool>(case: &Case<T>) {
    let ((from, address), (to, target)) = (Case::<T>::server(), Case::<T>::server());
    let context = |name: &str, address: &str| {
        format!("[contexts.{name}]\nserver = \"{address}\"\nprotected = true\n")
    };
    let contexts = [context("own", &address), context("prod", &target)].concat();
    let folder = Folder::with(&format!("context = \"own\"\n{contexts}"));
    let run = |line: &[&str]| folder.run(case, &[], line);
    let add: Vec<&str> = case.add.split(' ').chain(["body"]).collect();
    run(&add).exits(0);
    let alias = format!("localhost:{}", target.rsplit(':').next().unwrap());
    for target in [&target, &alias] {
        let line: Vec<&str> = case.move_to.split(' ').chain([&**target, "--yes"]).collect();
        let with = |more: &[&str]| run(&[&line[..], more].concat());
        let ran = with(&["--confirm=own"]).exits(2);
        assert!(ran.err.contains("prod (protected)"), "{}", ran.err);
        assert!(ran.err.contains("--confirm=own,prod"), "{}", ran.err);
        with(&["--confirm=prod"]).exits(2);
        with(&["--dry-run"]).exits(0);
        assert_eq!(((case.jobs)(&from), (case.jobs)(&to)), (1, 0));
    }
    let line = case.move_to.split(' ').chain([&*target, "--confirm=own,prod"]);
    run(&line.collect::<Vec<_>>()).exits(0);
    assert_eq!(((case.jobs)(&from), (case.jobs)(&to)), (0, 1));
}

/// Its rules apply; a server given by address has no context.
pub fn session_switches_contexts<T: Tool>(case: &Case<T>) {
    let ((one, first), (two, second)) = (Case::<T>::server(), Case::<T>::server());
    let folder = Folder::with(&format!(
        "[contexts.prod]\nserver = \"{second}\"\nprotected = true\n[contexts.dead]\nserver = \"127.0.0.1:1\"\n"
    ));
    let (add, clear) = (case.add, "clear mail --yes");
    let script = format!(
        "{add} a\nconnect --context prod\n{add} b\n{clear}\nconnect --context dead\nconnect --context none\n\
         connect\n{add} c\nconnect {first}\n{clear}\n"
    );
    let line = [T::PROGRAM.servers.flag, &first, "repl", "--keep-going"];
    let ran = folder.fed(case, &[], &line, &script).exits(3);
    assert_eq!(((case.jobs)(&one), (case.jobs)(&two)), (0, 2), "{}", ran.err);
    for said in ["--confirm=prod", "still connected to", "no context `none`"] {
        assert!(ran.err.contains(said), "{said} is not in {}", ran.err);
    }
}

/// The source of each setting, the server's kind, problems and remedies; the exit code is that of the worst problem.
pub fn doctor_finds_problems<T: Tool>(case: &Case<T>) {
    let (_server, address) = Case::<T>::server();
    let program = T::PROGRAM;
    let folder = Folder::with(&format!(
        "context = \"a\"\n[contexts.a]\nserver = [\"{address}\", \"127.0.0.1:1\"]\n[contexts.b]\nserver = \"{address}\"\n\
         tls-ca = \"none.pem\"\n"
    ));
    let ask = |variables: &[(&str, &str)], flags: &[&str], code: i32| {
        let ran = folder.run(case, variables, &[flags, &["doctor", "-o", "json"]].concat());
        ran.exits(code).json().as_array().unwrap().clone()
    };
    let find = |rows: &[serde_json::Value], subject: &str| -> Vec<serde_json::Value> {
        rows.iter().filter(|row| row["subject"] == subject).cloned().collect()
    };
    // A dead server hides nothing about the other one.
    let rows = ask(&[], &[], 69);
    let alive = &find(&rows, &address)[0];
    assert_eq!(alive["status"], "ok", "{alive}");
    assert!(alive["facts"]["version"].is_string(), "{alive}");
    let dead = &find(&rows, "127.0.0.1:1")[0];
    assert_eq!(dead["status"], "failed", "{dead}");
    assert!(dead["next"].as_str().unwrap().contains(program.servers.short), "{dead}");
    assert!(find(&rows, "server")[0]["finding"].as_str().unwrap().contains("context a"));
    // An override is a finding, and so is an unknown variable.
    let (known, typo) = (program.servers.variables[0], format!("{}_TIMOUT", program.prefix));
    let rows = ask(&[(known, &address), (&typo, "5")], &[], 0);
    for subject in ["server", &typo] {
        assert_eq!(find(&rows, subject)[0]["status"], "warning", "{rows:?}");
    }
    let missing = &find(&ask(&[], &["--context", "b"], 2), "tls-ca")[1];
    assert_eq!(missing["status"], "failed", "{missing}");
    // An unreadable file does not hide the rest.
    fs::write(folder.file(), "nonsense = 1\n").unwrap();
    let rows = ask(&[(known, &address)], &[], 2);
    assert!(find(&rows, "configuration")[0]["finding"].as_str().unwrap().contains(":1: "));
    assert_eq!(find(&rows, &address)[0]["status"], "ok");
}

/// For a key spelt like the flag, and a misspelt one.
pub fn suggests_the_correct_setting_name<T: Tool>(case: &Case<T>) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.toml");
    let run = |words: &[&str]| {
        case.program.bare(&[&["--config", file.to_str().unwrap()], words].concat())
    };
    let ran = run(&["context", "add", "prod", "adr=127.0.0.1:1"]).exits(2);
    assert!(ran.err.contains("there is no setting `adr`: did you mean addr?"), "{}", ran.err);
    run(&["context", "add", "prod", "address=127.0.0.1:1"]).exits(0);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("server = \"127.0.0.1:1\""), "{text}");
    assert!(!run(&["context", "edit", "prod", "zzzz=1"]).exits(2).err.contains("did you mean"));
    let ran = run(&["context", "edit", "--timeout", "2s"]).exits(2);
    assert!(ran.err.contains("--timeout is for a context: which one"), "{}", ran.err);
}
