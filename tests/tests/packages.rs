//! The packages' metadata, for a registry and for cargo.
use std::{path::Path, process::Command};

use serde_json::Value;

fn metadata(arguments: &[&str]) -> Value {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--offline", "--locked", "--format-version", "1"]).args(arguments);
    let output = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn name(package: &Value) -> &str {
    package["name"].as_str().unwrap()
}

#[test]
fn every_published_package_says_what_a_registry_shows() {
    let metadata = metadata(&["--no-deps"]);
    let published: Vec<_> =
        list(&metadata["packages"]).iter().filter(|package| package["publish"].is_null()).collect();
    assert!(published.len() >= 12, "{}", published.len());
    for package in published {
        let name = name(package);
        let text = |key: &str| package[key].as_str().unwrap_or_default();
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
        let folder = Path::new(text("manifest_path")).parent().unwrap();
        for file in ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"] {
            assert!(folder.join(file).is_file(), "{name} has no {file}");
        }
    }
}

/// `(1, 88)` of `1.88.0`.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn version(text: &str) -> (u32, u32) {
    let mut numbers = text.split('.').map(|number| number.parse().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap_or(0))
}

/// On the system for which cargo has fetched them.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn no_dependency_of_a_package_needs_a_newer_compiler_than_the_package() {
    let metadata = metadata(&["--all-features", "--filter-platform", "x86_64-unknown-linux-gnu"]);
    let package = |id: &Value| list(&metadata["packages"]).iter().find(|p| p["id"] == *id).unwrap();
    let node = |id: &str| {
        list(&metadata["resolve"]["nodes"]).iter().find(|node| node["id"].as_str() == Some(id))
    };
    let mut states_one = 0;
    for id in list(&metadata["workspace_members"]) {
        let member = package(id);
        let stated = version(member["rust_version"].as_str().unwrap());
        let (mut seen, mut open) = (std::collections::BTreeSet::new(), vec![id.as_str().unwrap()]);
        while let Some(next) = open.pop().filter(|_| member["publish"].is_null()) {
            if !seen.insert(next) {
                continue;
            }
            let dependencies = list(&node(next).unwrap()["deps"]).iter();
            // Users of a package do not build what its tests need.
            let built = dependencies.filter(|dependency| {
                list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"] != "dev")
            });
            open.extend(built.map(|dependency| dependency["pkg"].as_str().unwrap()));
            let dependency = package(&Value::from(next));
            let Some(needs) = dependency["rust_version"].as_str() else { continue };
            states_one += 1;
            let names = (name(member), name(dependency));
            assert!(version(needs) <= stated, "{names:?}: {needs}, and not {stated:?}");
        }
    }
    assert!(states_one >= 300, "{states_one}");
}
