//! The documents, compared with the source.

use std::{fs, path::Path};

/// Every test that the table of faults names is there.
#[test]
fn the_table_of_faults_names_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let table = fs::read_to_string(root.join("../docs/faults.md")).unwrap();
    let (_, gearman) = table.split_once("\n## Gearman\n").unwrap();
    let mut found = 0;
    // Between backticks stands a module, two colons, and a function.
    for name in gearman.split('`').skip(1).step_by(2) {
        let Some((module, function)) = name.split_once("::") else { continue };
        if module == "gearman_client" {
            continue;
        }
        let file = match module {
            "worker_tests" => "src/protocol/worker_tests.rs".to_owned(),
            module => format!("tests/scenarios/{module}.rs"),
        };
        let source = fs::read_to_string(root.join(&file));
        let source = source.unwrap_or_else(|error| panic!("{name}: {file}: {error}"));
        let start = format!("fn {}", function.trim_end_matches('*'));
        assert!(source.contains(&start), "{name} is not in {file}");
        found += 1;
    }
    assert!(found > 100, "{found} names");
}
