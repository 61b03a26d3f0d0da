//! Every dependency that a manifest names is used by the package's sources, and every one of the workspace's table by a
//! package.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The fuzzers, whose seeds the package beside them runs.
const SHARED: &str = "../fuzz/src";

/// What cargo reads from the manifests of the workspace; nothing is fetched.
fn packages() -> Vec<Value> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]);
    let output = cargo.current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

/// The name by which a package calls a dependency.
fn called(dependency: &Value) -> &str {
    dependency["rename"].as_str().unwrap_or_else(|| dependency["name"].as_str().unwrap())
}

/// All Rust sources below a folder, as one text without comments; examples in documents are code of tests.
pub(crate) fn sources(folder: &Path, with_documents: bool) -> String {
    let Ok(entries) = std::fs::read_dir(folder) else { return String::new() };
    let mut text = String::new();
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            text.push_str(&sources(&path, with_documents));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let code = std::fs::read_to_string(&path).unwrap();
            let is_code = |line: &&str| {
                let line = line.trim_start();
                let is_document = line.starts_with("///") || line.starts_with("//!");
                (is_document && with_documents) || !line.starts_with("//")
            };
            code.lines().filter(is_code).for_each(|line| {
                text.push_str(line);
                text.push('\n');
            });
        }
    }
    text
}

/// Whether code names a crate: as a path, in `use`, or as a macro's path.
fn names(code: &str, krate: &str) -> bool {
    let krate = krate.replace('-', "_");
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(&krate).any(|(at, found)| {
        let before = code[..at].chars().next_back();
        let after = code[at + found.len()..].trim_start();
        let is_whole = !before.is_some_and(is_word);
        is_whole && (after.starts_with("::") || after.starts_with(" as ") || after.starts_with(';'))
    })
}

#[test]
fn every_dependency_is_used() {
    let mut unused = Vec::new();
    for package in packages() {
        let folder = Path::new(package["manifest_path"].as_str().unwrap()).parent().unwrap();
        let own = sources(&folder.join("src"), false);
        let every: String = ["src", "tests", "examples", "benches", SHARED]
            .map(|part| sources(&folder.join(part), true))
            .concat();
        for dependency in package["dependencies"].as_array().unwrap() {
            let code = if dependency["kind"] == "dev" { &every } else { &own };
            if !names(code, called(dependency)) {
                unused.push(format!("{}: {}", package["name"], called(dependency)));
            }
        }
    }
    assert!(unused.is_empty(), "remove from the manifest: {unused:#?}");
}

#[test]
fn every_entry_of_the_workspace_is_used() {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let (_, table) = manifest.split_once("[workspace.dependencies]").unwrap();
    let table = table.split("\n[").next().unwrap();
    let entries = table.lines().filter_map(|line| line.split_once(" = ")).map(|(name, _)| name);
    let all = packages();
    let used: BTreeSet<&str> = all
        .iter()
        .flat_map(|package| package["dependencies"].as_array().unwrap())
        .map(called)
        .collect();
    let unused: Vec<&str> =
        entries.filter(|name| !name.starts_with('#') && !used.contains(name)).collect();
    assert!(unused.is_empty(), "remove from the table: {unused:?}");
}

#[test]
fn a_name_alone_is_no_use() {
    assert!(names("use bytes::Bytes;", "bytes") && names("a(serde_json::json!(1))", "serde-json"));
    for code in ["let bytes = 1;", "as_bytes::<u8>()", "mybytes::x"] {
        assert!(!names(code, "bytes"), "{code}");
    }
}
