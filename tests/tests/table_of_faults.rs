//! `tests/faults.md` compared with the sources: no fault is left out, and every test that it names exists; and the page
//! for people, `docs/faults.md`, compared with it.

use std::{collections::HashSet, fs};

use crate::source::root;

/// The rows that each table must have, in order; a word stands for the row that starts with it.
const TABLES: [(&str, &[Rows]); 27] = [
    ("beanstalkd / Transport", &[Rows::Numbered('C', 22)]),
    ("beanstalkd / Clients, producers and workers", &[Rows::Numbered('B', 29)]),
    (
        "beanstalkd / Cancellation",
        &[Rows::Named(&CANCELLED_CALLS), Rows::Named(&["reserve", "put", "delete"])],
    ),
    ("Gearman / Transport", &[Rows::Numbered('C', 22)]),
    ("Gearman / Clients and workers", &[Rows::Numbered('G', 26)]),
    (
        "Gearman / Cancellation",
        &[Rows::Named(&CANCELLED_CALLS), Rows::Named(&["submit", "next job", "complete"])],
    ),
    ("Adf.QueueServer / What its users trip over", &[Rows::Numbered('A', 27)]),
    ("Adf.QueueServer / Workers and producers", &[Rows::Numbered('W', 23)]),
    ("Security / ", &[Rows::Numbered('S', 21)]),
    ("Reported bugs / A reply belongs to somebody else", &[]),
    ("Reported bugs / A job is lost between server and caller", &[]),
    ("Reported bugs / A call hangs forever", &[]),
    ("Reported bugs / A reconnect is incomplete", &[]),
    ("Reported bugs / Reservations and heartbeats", &[]),
    ("Reported bugs / Framing and races", &[]),
    ("Reported bugs / Life of a worker", &[]),
    ("Found by attack and daily use / beanstalkd: clients, pipelines and producers", &[]),
    ("Found by attack and daily use / beanstalkd: workers", &[]),
    ("Found by attack and daily use / Gearman: clients", &[]),
    ("Found by attack and daily use / Gearman: workers", &[]),
    ("Found by attack and daily use / Other servers of the field", &[]),
    ("Found by attack and daily use / Adf.QueueServer: producers and workers", &[]),
    ("Found by attack and daily use / Tools: shell lines, files and terminals", &[]),
    ("Found by attack and daily use / Tools: jobs that leave a queue", &[]),
    ("Found by attack and daily use / Tools: bounds and other servers", &[]),
    ("Found by attack and daily use / Tools: the first hour", &[]),
    ("Found by attack and daily use / In-memory servers", &[]),
];

const CANCELLED_CALLS: [&str; 5] =
    ["connect", "a job that nobody decided on", "streams of", "stop and close", "blocking"];

enum Rows {
    Numbered(char, u32),
    Named(&'static [&'static str]),
}

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
const MACROS: [&str; 12] = [
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
fn every_fault_has_a_row() {
    let rows = rows();
    for (table, expected) in TABLES {
        let firsts: Vec<&str> =
            rows.iter().filter(|row| row.table == table).map(|row| row.first.as_str()).collect();
        assert!(!firsts.is_empty(), "there is no table {table:?}");
        for expected in expected {
            if let Rows::Numbered(letter, last) = expected {
                let next = format!("{letter}{} ", last + 1);
                let is_listed = firsts.iter().all(|first| !first.starts_with(&next));
                assert!(is_listed, "{table:?} has a row {next}that TABLES does not know");
            }
            let wanted: Vec<String> = match expected {
                Rows::Numbered(letter, last) => {
                    (1..=*last).map(|n| format!("{letter}{n}")).collect()
                }
                Rows::Named(names) => names.iter().map(|name| (*name).to_owned()).collect(),
            };
            for id in wanted {
                let has_it = |first: &&str| {
                    let ids = first.split([' ', ',']).any(|word| word == id);
                    ids || (id.len() > 3 && first.starts_with(&id)) || **first == *id
                };
                assert!(firsts.iter().any(has_it), "{table:?} has no row {id}");
            }
        }
    }
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

/// The rows that a line of the page refers to, such as `C1`.
fn ids(line: &str) -> HashSet<&str> {
    let is_id = |word: &&str| {
        let number = word.strip_prefix(|c| "ABCGSW".contains(c));
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    };
    line.split(|c: char| !c.is_alphanumeric()).filter(is_id).collect()
}

#[test]
fn the_page_has_each_table_and_numbered_row() {
    let page = fs::read_to_string(root().join("docs/faults.md")).unwrap();
    let (mut part, mut table) = (String::new(), String::new());
    let mut sections: Vec<(String, HashSet<&str>)> = Vec::new();
    for line in page.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            (part, table) = (title.to_owned(), format!("{title} / "));
        } else if let Some(title) = line.strip_prefix("### ") {
            table = format!("{part} / {title}");
            sections.push((table.clone(), HashSet::new()));
        } else if ids(line).is_empty() {
            sections.extend(
                line.strip_prefix("* ").map(|title| (format!("{part} / {title}"), HashSet::new())),
            );
        } else {
            sections.push((table.clone(), ids(line)));
        }
    }
    let rows = rows();
    for (table, expected) in TABLES {
        let mine: Vec<_> = sections.iter().filter(|(section, _)| section == table).collect();
        assert!(!mine.is_empty(), "docs/faults.md has nothing about {table:?}");
        if !expected.iter().any(|rows| matches!(rows, Rows::Numbered(..))) {
            continue;
        }
        let named: HashSet<&str> = mine.iter().flat_map(|(_, ids)| ids.iter().copied()).collect();
        // A row starts with its numbers.
        let firsts = rows.iter().filter(|row| row.table == table).map(|row| row.first.as_str());
        let listed: HashSet<&str> = firsts.flat_map(ids).collect();
        assert_eq!(named, listed, "{table:?}: rows in docs/faults.md and in tests/faults.md");
    }
    for (section, _) in sections {
        assert!(TABLES.iter().any(|(table, _)| *table == section), "no table {section:?}");
    }
}
