//! What the source itself promises: every method is in a scenario, and no runtime in a blocking build.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Command,
};

fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../beanstalk-client")
}

fn source(file: &str) -> String {
    std::fs::read_to_string(package().join("src").join(file)).unwrap()
}

/// The signatures of the public functions of a file, without `async`, white space and what a face may choose itself.
fn signatures(files: &[&str]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for file in files {
        let text = source(file);
        let text = text.split("#[cfg(test)]").next().unwrap();
        for part in text.split("    pub ").skip(1) {
            let part = part.strip_prefix("async ").unwrap_or(part);
            let Some(function) = part.strip_prefix("fn ") else { continue };
            let signature = function.split(" {\n").next().unwrap();
            let words: String = signature.split_whitespace().collect::<Vec<_>>().join("");
            found.insert(words.replace(",)", ")").replace(",>", ">"));
        }
    }
    found
}

/// Every method of a command is in the trait that the scenarios run over, under its own name.
#[test]
fn every_public_method_is_run_by_the_scenarios() {
    let face = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/face.rs"));
    let face = face.unwrap();
    for signature in signatures(&[
        "asynchronous/client.rs",
        "asynchronous/commands.rs",
        "asynchronous/pipeline.rs",
    ]) {
        let name = signature.split(['(', '<']).next().unwrap();
        let used = face.contains(&format!(".{name}("))
            || face.contains(&format!("::{name}("))
            || face.contains(&format!("fn {name}("));
        let sets = ["set_reply_timeout", "set_total_timeout"].contains(&name);
        assert!(used || sets, "{name} is in no scenario");
    }
}

/// The packages that a build of the client alone pulls in.
fn tree(features: &str) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--edges", "normal", "--prefix", "none", "--no-default-features"])
        .args(["--offline", "--locked", "--package", "beanstalk-client", "--features", features])
        .current_dir(package())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter_map(|line| Some(line.split(' ').next()?.to_owned())).collect()
}

#[test]
fn a_blocking_build_has_no_runtime_in_its_tree() {
    for features in ["blocking", "blocking-tls"] {
        let tree = tree(features);
        let runtime: Vec<&String> = tree
            .iter()
            .filter(|name| {
                name.contains("tokio") || name.contains("mio") || name.contains("futures")
            })
            .collect();
        assert!(runtime.is_empty(), "{features}: {runtime:?}");
    }
    assert!(tree("tokio").contains("tokio"));
}

/// S21.
#[test]
fn the_protocol_alone_needs_bytes_and_nothing_else() {
    let expected: BTreeSet<String> =
        ["beanstalk-client", "bytes", "queue-toolkit-core"].map(String::from).into();
    assert_eq!(tree(""), expected);
}

/// The protocol does no input or output, reads no clock and knows no runtime.
#[test]
fn the_protocol_does_no_input_or_output() {
    let mut folders = vec![package().join("src/protocol")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            if path.ends_with("tests.rs") {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let text = text.split("#[cfg(test)]").next().unwrap();
            // Moments come in as arguments; nothing reads a clock.
            for word in [
                "std::net",
                "std::io",
                "tokio::",
                "Instant::now",
                "SystemTime",
                "thread::",
                "std::fs",
            ] {
                assert!(!text.contains(word), "{} has {word}", path.display());
            }
        }
    }
}

/// C16: the async faces take time from the runtime and choose nothing at random by themselves, so that a simulation can
/// run them again and get the same.
#[test]
fn the_async_faces_are_deterministic() {
    let mut files = 0;
    let sources = ["beanstalk-client/src", "gearman-client/src", "queue-core/src"];
    let mut folders: Vec<PathBuf> = sources.map(|path| root().join(path)).into();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                if !path.ends_with("blocking") {
                    folders.push(path);
                }
                continue;
            }
            files += 1;
            let text = std::fs::read_to_string(&path).unwrap();
            let code: String = text
                .split("#[cfg(test)]")
                .next()
                .unwrap()
                .lines()
                .filter(|line| !line.trim_start().starts_with("//"))
                .collect();
            let name = path.display();
            assert!(!code.contains("SystemTime::now"), "{name} reads the wall clock");
            let own_clock = code.contains("Instant::now()") && !code.contains("use tokio");
            assert!(
                !own_clock || path.ends_with("clock.rs") || is_test(&path),
                "{name} reads the clock"
            );
            for choice in code.split("select! {").skip(1) {
                assert!(choice.trim_start().starts_with("biased;"), "{name} selects at random");
            }
        }
    }
    assert!(files > 50, "only {files} files were found");
}

fn is_test(path: &Path) -> bool {
    path.file_stem().is_some_and(|name| name.to_string_lossy().ends_with("tests"))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
