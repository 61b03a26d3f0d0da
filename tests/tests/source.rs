//! What the sources of the clients promise: every method is in a scenario and states its cancel safety, no runtime is
//! in a blocking build, and nothing is left to chance. What `protocol` modules may not call is in `clippy.toml`.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Command,
};

/// The client crates.
pub(crate) const CLIENTS: [&str; 3] = ["adf-queue-client", "beanstalk-client", "gearman-client"];

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The source files of a folder of the repository, but for its tests, and their code without tests and comments.
fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let mut found = files(&root().join(folder));
    found.retain(|(path, _)| !is_test(path));
    for (_, text) in &mut found {
        let code = text.split("#[cfg(test)]\n").next().unwrap().lines();
        let code = code.filter(|line| !line.trim_start().starts_with("//"));
        *text = code.collect::<Vec<_>>().join("\n");
    }
    found
}

/// The source files of a folder, by path; none if it does not exist.
pub(crate) fn files(folder: &Path) -> Vec<(PathBuf, String)> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = paths
        .flat_map(|path| {
            if path.is_dir() {
                return files(&path);
            }
            let is_source = path.extension().is_some_and(|extension| extension == "rs");
            let read = |path: PathBuf| (path.clone(), std::fs::read_to_string(path).unwrap());
            is_source.then(|| read(path)).into_iter().collect()
        })
        .collect();
    found.sort();
    found
}

/// All files of a folder as one text.
pub(crate) fn text(folder: &Path) -> String {
    files(folder).into_iter().map(|(_, text)| text).collect()
}

fn is_test(path: &Path) -> bool {
    path.file_stem().is_some_and(|name| name.to_string_lossy().ends_with("tests"))
}

/// Every async method of a client, a producer and a worker is run by the scenarios, under its own name.
#[test]
fn scenarios_call_every_async_method() {
    for client in CLIENTS {
        let scenarios = text(&root().join(client).join("tests/scenarios"));
        let (mut found, mut missing) = (0, Vec::new());
        let of_face = sources(&format!("{client}/src/asynchronous"));
        let mut of_both = sources(&format!("{client}/src"));
        // The methods for JSON values take several shapes of one name.
        of_both.retain(|(path, code)| code.contains("$($async)?") && !path.ends_with("json.rs"));
        for (path, code) in of_face.into_iter().chain(of_both) {
            // The events and the handlers of workers are not called by name. `$($async)?` is in the lists of both faces.
            let code = code.replace("pub $($async)? fn ", "pub async fn ");
            for method in code.split("    pub async fn ").skip(1) {
                let name = method.split(['(', '<']).next().unwrap();
                found += 1;
                let calls = [format!(".{name}("), format!("::{name}("), format!("fn {name}(")];
                if !calls.iter().any(|call| scenarios.contains(call)) {
                    missing.push(format!("{}: {name}", path.display()));
                }
            }
        }
        assert!(missing.is_empty(), "in no scenario: {missing:#?}");
        assert!(found > 20, "only {found} methods of {client} were found");
    }
}

/// A dropped future is an everyday matter, so each says what that does.
#[test]
fn async_functions_document_cancel_safety() {
    let (mut functions, mut missing) = (0, Vec::new());
    for (path, text) in CLIENTS.iter().flat_map(|client| files(&root().join(client).join("src"))) {
        let mut documentation = String::new();
        for line in text.lines().map(str::trim) {
            if line.starts_with("///") {
                documentation.push_str(line);
            } else if line.starts_with("$(#[doc = ") && line.contains("$cancel")
                || line == "$cancel,"
            {
                documentation.push_str("# Cancel safety");
            } else if let Some(function) = ["pub async fn ", "pub $($async)? fn "]
                .iter()
                .find_map(|start| line.strip_prefix(start))
            {
                functions += 1;
                if !documentation.contains("# Cancel safety") {
                    missing.push(format!("{}: {function}", path.display()));
                }
                documentation.clear();
            } else if line.ends_with([';', '{', '}']) {
                documentation.clear();
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(functions > 90, "only {functions} functions were found");
}

/// The packages that a build of the client alone pulls in.
fn tree(client: &str, features: &str) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--edges", "normal", "--prefix", "none", "--no-default-features"])
        .args(["--offline", "--locked", "--package", client, "--features", features])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter_map(|line| Some(line.split(' ').next()?.to_owned())).collect()
}

#[test]
fn blocking_builds_are_small_and_have_no_runtime() {
    for client in CLIENTS {
        for features in ["blocking", "blocking-tls"] {
            let mut tree = tree(client, features);
            assert!(tree.len() <= 20 || features != "blocking", "{client}: {tree:?}");
            tree.retain(|name| ["tokio", "mio", "futures"].iter().any(|part| name.contains(part)));
            assert!(tree.is_empty(), "{client} with {features}: {tree:?}");
        }
        assert!(tree(client, "tokio").contains("tokio"), "{client}");
    }
}

/// S21. That of Adf.QueueServer is made of WebSocket, HTTP and JSON, which are libraries.
#[test]
fn protocol_depends_only_on_bytes() {
    for client in ["beanstalk-client", "gearman-client"] {
        let expected = [client, "bytes", "queue-toolkit-core"].map(String::from);
        assert_eq!(tree(client, ""), expected.into());
    }
}

/// C16: the async faces take time from the runtime and choose nothing at random by themselves, so that a simulation can
/// run them again and get the same.
#[test]
fn async_code_uses_only_the_runtime_clock() {
    let folders = CLIENTS.into_iter().chain(["queue-core"]).map(|package| format!("{package}/src"));
    let sources: Vec<_> = folders.flat_map(|folder| sources(&folder)).collect();
    assert!(sources.len() > 150, "only {} files were found", sources.len());
    for (path, code) in sources {
        if path.iter().any(|part| part == "blocking") {
            continue;
        }
        let name = path.display();
        assert!(!code.contains("SystemTime::now"), "{name} reads the wall clock");
        let own_clock = code.contains("Instant::now()") && !code.contains("use tokio");
        assert!(!own_clock || path.ends_with("clock.rs"), "{name} reads the clock");
        for choice in code.split("select! {").skip(1) {
            assert!(choice.trim_start().starts_with("biased;"), "{name} selects at random");
        }
    }
}
