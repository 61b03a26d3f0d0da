//! `tests/faults.md` compared with the sources: every test that it names exists; and with the page for people,
//! `docs/faults.md`: no fault is left out of either.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fs,
};

use crate::source::root;

struct Row {
    table: String,
    first: String,
    /// What the last cell names between backticks.
    tests: Vec<String>,
    /// The reason why there is no test.
    reason: Option<String>,
}

struct Source {
    /// The folders and the file, as modules are named, without `src` and `tests`.
    modules: Vec<String>,
    tests: HashSet<String>,
}

/// The macros that make a test of each of their functions, for each face or server.
const MACROS: [&str; 13] = [
    "each_server!",
    "each_server_async!",
    "both_faces!",
    "both_producers!",
    "producer_scenarios!",
    "scenarios!",
    "in_both!",
    "all_servers!",
    "over_websocket!",
    "over_http!",
    "over_each_transport!",
    "on_each_server!",
    "on_servers!",
];

fn rows() -> Vec<Row> {
    let document = fs::read_to_string(root().join("tests/faults.md")).unwrap();
    let (mut part, mut table, mut found) = (String::new(), String::new(), Vec::new());
    for line in document.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            (part, table) = (title.to_owned(), format!("{title} / "));
        } else if let Some(title) = line.strip_prefix("### ") {
            table = format!("{part} / {title}");
        }
        let Some(cells) = line.strip_prefix("| ").and_then(|line| line.strip_suffix(" |")) else {
            continue;
        };
        let cells: Vec<&str> = cells.split(" | ").collect();
        assert_eq!(cells.len(), 3, "a row has three cells: {line}");
        if cells[2] == "test" {
            continue;
        }
        found.push(Row {
            table: table.clone(),
            first: cells[0].to_owned(),
            tests: cells[2].split('`').skip(1).step_by(2).map(str::to_owned).collect(),
            reason: cells[2].strip_prefix("– ").map(str::to_owned),
        });
    }
    found
}

fn sources() -> Vec<Source> {
    let mut found = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let place = path.strip_prefix(root()).unwrap().with_extension("");
                let modules = place.iter().map(|part| part.to_string_lossy().replace('-', "_"));
                let plain = ["src", "tests", "mod", "lib", "main"];
                let mut modules: Vec<String> =
                    modules.filter(|part| !plain.contains(&part.as_str())).collect();
                let text = fs::read_to_string(&path).unwrap();
                if modules.starts_with(&["ctl_contract".into()]) {
                    for (module, checks) in checks_in(&text) {
                        modules[0] = module.to_owned();
                        found.push(Source { modules: modules.clone(), tests: checks });
                    }
                    continue;
                }
                let tests = tests_in(&text);
                found.push(Source { modules, tests });
            }
        }
    }
    found
}

/// The functions that are tests by their attribute, or because a macro makes tests of them.
fn tests_in(text: &str) -> HashSet<String> {
    let listed = listed_in(text);
    let mut found = HashSet::new();
    let mut has_attribute = false;
    for line in text.lines().map(str::trim) {
        let line = line.strip_prefix("async ").unwrap_or(line);
        if line.starts_with("#[") {
            has_attribute |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        } else if let Some(function) = line.strip_prefix("fn ") {
            let name = &function[..function.find(['(', '<']).unwrap_or(function.len())];
            if has_attribute || listed.contains(name) {
                found.insert(name.to_owned());
            }
            has_attribute = false;
        } else if !line.starts_with("//") && !line.is_empty() {
            has_attribute = false;
        }
    }
    found
}

/// The checks of the contract, by the module that has them: `tool_contract!` makes a test of each that it names in
/// `contract`, for every tool, and `kit_contract!` in `kit`, for one.
fn checks_in(text: &str) -> [(&'static str, HashSet<String>); 2] {
    let contract = fs::read_to_string(root().join("ctl-contract/src/lib.rs")).unwrap();
    let (of_tools, of_kit) = contract.split_once("macro_rules! kit_contract").unwrap();
    let (_, of_tools) = of_tools.split_once("macro_rules! tool_contract").unwrap();
    [("contract", of_tools), ("kit", of_kit)].map(|(module, listed)| {
        let is_listed = |name: &&str| listed.lines().any(|line| line.trim() == format!("{name},"));
        let names = text.lines().filter_map(|line| line.strip_prefix("pub fn ")?.split('<').next());
        (module, names.filter(is_listed).map(str::to_owned).collect())
    })
}

/// The names between the parentheses of macros that make tests.
fn listed_in(text: &str) -> HashSet<&str> {
    let mut found = HashSet::new();
    for makes in MACROS {
        for rest in text.split(makes).skip(1) {
            let list = rest.split(");").next().unwrap_or_default();
            found.extend(list.split(|c: char| !c.is_alphanumeric() && c != '_'));
        }
    }
    found
}

#[test]
fn every_row_has_a_test_or_a_reason() {
    let rows = rows();
    assert!(rows.len() > 150, "{} rows", rows.len());
    for Row { table, first, tests, reason } in rows {
        let reason = reason.unwrap_or_default();
        assert!(!tests.is_empty() || reason.len() > 20, "{table}: {first} has neither");
    }
}

#[test]
fn every_named_test_exists() {
    let sources = sources();
    let mut missing = Vec::new();
    for Row { table, first, tests, .. } in rows() {
        for test in tests.iter().filter(|name| name.contains("::")) {
            let mut modules: Vec<&str> = test.split("::").collect();
            let function = modules.pop().unwrap();
            let ends_so = |source: &&Source| {
                let parts: Vec<&str> = source.modules.iter().map(String::as_str).collect();
                parts.ends_with(&modules)
            };
            let exists = sources.iter().filter(ends_so).any(|Source { tests, .. }| {
                (function == "*" && !tests.is_empty()) || tests.contains(function)
            });
            if !exists {
                missing.push(format!("{table}: {first}: {test}"));
            }
        }
        let unclear = tests.iter().filter(|name| !name.contains("::") && name.contains("_"));
        missing.extend(unclear.map(|name| format!("{table}: {first}: {name} has no module")));
    }
    assert!(missing.is_empty(), "no such tests:\n{}", missing.join("\n"));
}

#[test]
fn every_regression_test_is_in_the_table() {
    let named: Vec<String> = rows().into_iter().flat_map(|row| row.tests).collect();
    let mut found = 0;
    for source in sources() {
        for test in source.tests.iter().filter(|name| name.starts_with("regress_")) {
            found += 1;
            let end = format!("::{test}");
            assert!(named.iter().any(|name| name.ends_with(&end)), "{test} is in no row");
        }
    }
    assert!(found > 10, "{found} tests of reports");
}

/// The letters of rows that have a number.
const NUMBERED: &str = "ABCGSW";

/// The rows that a line refers to, such as `C1`.
fn ids(line: &str) -> Vec<(char, u32)> {
    let id = |word: &str| {
        let letter = word.chars().next().filter(|letter| NUMBERED.contains(*letter))?;
        Some((letter, word[1..].parse().ok()?))
    };
    line.split(|c: char| !c.is_alphanumeric()).filter_map(id).collect()
}

/// A row can only be taken out of both, and a number in the middle of none.
#[test]
fn the_page_has_each_table_and_numbered_row() {
    let page = fs::read_to_string(root().join("docs/faults.md")).unwrap();
    let (mut part, mut table) = (String::new(), String::new());
    let mut on_page: BTreeMap<String, BTreeSet<(char, u32)>> = BTreeMap::new();
    for line in page.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            (part, table) = (title.to_owned(), format!("{title} / "));
        } else if let Some(title) = line.strip_prefix("### ") {
            table = format!("{part} / {title}");
            on_page.entry(table.clone()).or_default();
        } else if !ids(line).is_empty() {
            on_page.entry(table.clone()).or_default().extend(ids(line));
        } else if let Some(title) = line.strip_prefix("* ") {
            on_page.entry(format!("{part} / {title}")).or_default();
        }
    }
    let mut listed: BTreeMap<String, BTreeSet<(char, u32)>> = BTreeMap::new();
    for Row { table, first, .. } in rows() {
        // A row starts with its numbers.
        let numbers =
            if first.starts_with(|c| NUMBERED.contains(c)) { ids(&first) } else { vec![] };
        listed.entry(table).or_default().extend(numbers);
    }
    assert_eq!(on_page, listed, "tables and rows in docs/faults.md and in tests/faults.md");
    for (table, numbers) in listed {
        let counted = (1..).zip(&numbers).all(|(n, (_, number))| n == *number);
        assert!(counted, "{table:?} skips a number: {numbers:?}");
    }
}
