//! No test is left out because its file belongs to no program.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use serde_json::Value;

/// A package whose test programs are listed in its manifest does not find new files by itself.
#[test]
fn every_file_of_tests_is_a_program_or_a_module_of_one() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]);
    let output = cargo.current_dir(root).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut folders = 0;
    for package in metadata["packages"].as_array().unwrap() {
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
