//! The packages' manifests: what a registry shows, which files are tests, and which dependencies are used.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use serde_json::Value;

use crate::source::{root, text};

/// What cargo reads from the manifests of the workspace; nothing is fetched.
fn packages() -> Vec<Value> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]);
    let output = cargo.current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[test]
fn published_packages_have_registry_metadata() {
    let mut published = packages();
    published.retain(|package| package["publish"].is_null());
    assert!(published.len() >= 12, "{}", published.len());
    for package in published {
        let text = |key: &str| package[key].as_str().unwrap_or_default();
        let name = text("name");
        assert_eq!(text("license"), "MIT OR Apache-2.0", "{name}");
        assert_eq!(text("readme"), "README.md", "{name}");
        assert!(text("repository").starts_with("https://"), "{name}");
        assert!((20..=200).contains(&text("description").len()), "{name}: its description");
        // A registry accepts no more and no other keywords.
        let keywords = list(&package["keywords"]);
        assert!((1..=5).contains(&keywords.len()), "{name}: {keywords:?}");
        for keyword in keywords.iter().map(|keyword| keyword.as_str().unwrap()) {
            let is_plain = keyword.chars().all(|c| c.is_ascii_alphanumeric() || "_-+".contains(c));
            assert!(is_plain && keyword.len() <= 20, "{name}: {keyword}");
        }
        assert!((1..=5).contains(&list(&package["categories"]).len()), "{name}: its categories");
        let docs = &package["metadata"]["docs"]["rs"];
        assert_eq!(docs["all-features"], true, "{name}");
        assert_eq!(docs["rustdoc-args"], serde_json::json!(["--cfg", "docsrs"]), "{name}");
    }
}

/// A package whose test programs are listed in its manifest does not find new files by itself.
#[test]
fn every_test_file_is_compiled() {
    let mut folders = 0;
    for package in packages() {
        let manifest = Path::new(package["manifest_path"].as_str().unwrap());
        let Ok(entries) = fs::read_dir(manifest.with_file_name("tests")) else { continue };
        let targets = package["targets"].as_array().unwrap();
        let programs: BTreeSet<&Path> =
            targets.iter().map(|target| Path::new(target["src_path"].as_str().unwrap())).collect();
        let roots: String =
            programs.iter().map(|path| fs::read_to_string(path).unwrap_or_default()).collect();
        for path in entries.map(|entry| entry.unwrap().path()) {
            let name = path.file_stem().unwrap().to_str().unwrap();
            let is_module = roots.lines().any(|line| line == format!("mod {name};"));
            let is_code = path.is_dir() || path.extension().is_some_and(|end| end == "rs");
            let main = path.join("main.rs");
            let is_program = programs.contains(path.as_path()) || programs.contains(main.as_path());
            let has_parent = path.is_dir() && path.with_extension("rs").exists();
            assert!(
                !is_code || is_module || is_program || has_parent,
                "{} is compiled into no test program: add `mod {name};` to main.rs beside it",
                path.display()
            );
        }
        folders += 1;
    }
    assert!(folders >= 8, "{folders}");
}

/// What `tests` names for its features.
const FOR_FEATURES: [&str; 2] = ["jsonschema", "rexpect"];

/// The fuzzers, whose seeds the package beside them runs.
const SHARED: &str = "../fuzz/src";

/// The name by which a package calls a dependency.
fn called(dependency: &Value) -> &str {
    dependency["rename"].as_str().unwrap_or_else(|| dependency["name"].as_str().unwrap())
}

/// All code of a folder without comments; examples in documents are code of tests.
fn code(folder: &Path, with_documents: bool) -> String {
    let is_code = |line: &&str| {
        let line = line.trim_start();
        let is_document = line.starts_with("///") || line.starts_with("//!");
        (is_document && with_documents) || !line.starts_with("//")
    };
    text(folder).lines().filter(is_code).fold(String::new(), |code, line| code + line + "\n")
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
        let own = code(&folder.join("src"), false);
        let every: String = ["src", "tests", "examples", "benches", SHARED]
            .map(|part| code(&folder.join(part), true))
            .concat();
        for dependency in package["dependencies"].as_array().unwrap() {
            let (name, is_of_tests) = (called(dependency), package["name"] == "tests");
            let is_for_tests = is_of_tests || dependency["kind"] == "dev";
            let is_used = names(if is_for_tests { &every } else { &own }, name);
            let is_for_features = is_of_tests && FOR_FEATURES.contains(&name);
            if !(is_used || is_for_features) {
                unused.push(format!("{}: {name}", package["name"]));
            }
        }
    }
    assert!(unused.is_empty(), "remove from the manifest: {unused:#?}");
}

#[test]
fn every_workspace_dependency_is_used() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
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
fn a_mention_is_not_a_use() {
    assert!(names("use bytes::Bytes;", "bytes") && names("a(serde_json::json!(1))", "serde-json"));
    for code in ["let bytes = 1;", "as_bytes::<u8>()", "mybytes::x"] {
        assert!(!names(code, "bytes"), "{code}");
    }
}
