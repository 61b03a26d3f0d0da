//! What the listings of public items in `docs/api`, which `.ci/public-api` keeps up to date, have to say: both faces of
//! a client have the same types with the same methods, and no enum is closed that may have to grow.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use crate::source::{CLIENTS, files, root};

/// What only one face has, or has differently: the crate, the type and the methods, where `*` is any, and why.
const DIFFERENCES: &[(&str, &str, &str, &str)] = &[
    ("*", "*", "next", "the blocking pipelines, and Gearman's blocking job, are iterators"),
    ("*", "*", "into_stream", "an iterator is to threads what a stream is to tasks"),
    ("*", "*", "jobs messages", "a blocking reserve, grab or pull in a loop is one"),
    ("*", "*", "register_blocking run_blocking", "every blocking handler may block"),
    ("*", "*", "register_service run_service run_service_until", "a tower service gives a future"),
    ("*", "*", "run_until", "a thread cannot wait for a future: it is stopped by its handle"),
    ("*", "JobContext", "lost wait_lost", "a task waits for a future, a thread by a call"),
    ("*", "JobContext", "stopping wait_stopping", "a task waits for a future, a thread by a call"),
    ("*", "Client", "check_connection", "the async client looks all the time"),
    ("*", "Client", "set_total_timeout", "whoever waits for a future bounds it"),
    ("adf-queue-client", "Client", "metrics", "the blocking client's are its caller's alone"),
    ("beanstalk-client", "Client", "from_stream", "to give a blocking stream timeouts may fail"),
    ("beanstalk-client", "Receipt", "wait", "the async receipt is a future"),
    (
        "gearman-client",
        "Client",
        "set_reply_timeout",
        "the async one is shared: it would be for all",
    ),
    ("gearman-client", "GrabbedJob", "*", "the blocking worker moves its bytes: it acts on jobs"),
    (
        "gearman-client",
        "Worker",
        "complete data exception fail is_lost status wait_lost warning",
        "the async `GrabbedJob` acts for itself",
    ),
    ("gearman-client", "Worker", "next_job", "a thread gives the time that bounds a future"),
    ("gearman-client", "Worker", "run", "the blocking one is fallible for what may come"),
];

/// The lines of a package's listing, without the name of its library.
fn listing(package: &str) -> Vec<String> {
    let library = package.trim_start_matches("queue-toolkit-").replace('-', "_");
    let library = if library == "core" { "queue_core".to_owned() } else { library };
    let text = fs::read_to_string(root().join(format!("docs/api/{library}.txt"))).unwrap();
    text.lines().map(|line| line.replace(&format!("{library}::"), "")).collect()
}

/// The methods of the types of one face, by type and name, as far as the faces have to agree.
type Methods = BTreeMap<String, BTreeMap<String, String>>;

/// The methods of the async face, with those of both, and those of the blocking one; and the types of the latter.
fn faces(package: &str) -> ([Methods; 2], BTreeSet<String>) {
    let (mut faces, mut types) = ([Methods::new(), Methods::new()], BTreeSet::new());
    let mut is_of_trait = false;
    for line in listing(package) {
        if line.starts_with("impl") {
            is_of_trait = line.contains(" for ");
        } else if let Some((_, name)) = line.split_once("struct blocking::") {
            types.insert(name.split(['<', '(', ':']).next().unwrap().trim().to_owned());
        } else if let Some((_, path)) = line.split_once("fn ").filter(|_| !is_of_trait) {
            let (is_blocking, path) = match path.strip_prefix("blocking::") {
                Some(path) => (true, path),
                None => (false, path),
            };
            let (of, method) = path.split_at(path.find(['<', ':']).unwrap_or(path.len()));
            let Some((_, method)) =
                method.split_once(if method.starts_with('<') { ">::" } else { "::" })
            else {
                continue;
            };
            let name = method.split(['<', '(']).next().unwrap();
            let methods = faces[usize::from(is_blocking)].entry(of.to_owned()).or_default();
            methods.insert(name.to_owned(), signature(method));
        }
    }
    (faces, types)
}

/// Parameters but for `self`, and what is given: without lifetimes and the paths before names. Type parameters and
/// bounds are left out, for a handler that gives a future has others.
fn signature(method: &str) -> String {
    let text = &method[method.find('(').unwrap()..];
    let text = text.split(" where ").next().unwrap();
    let is_part = |c: char| c.is_alphanumeric() || "_:'".contains(c);
    let words = text.split_inclusive(|c| !is_part(c)).map(|word| {
        let bare = word.trim_end_matches(|c| !is_part(c));
        let kept = if bare.starts_with('\'') { "" } else { bare.rsplit("::").next().unwrap() };
        format!("{kept}{}", &word[bare.len()..])
    });
    let text = words.collect::<String>().replace("& ", "&").replace("<, ", "<").replace("<>", "");
    ["(&mut self", "(&self", "(mut self", "(self"]
        .into_iter()
        .find_map(|own| text.strip_prefix(own))
        .map_or(text.clone(), |rest| format!("({}", rest.trim_start_matches(", ")))
}

#[test]
fn both_faces_of_every_client_have_the_same_methods() {
    let mut idle: BTreeSet<usize> = (0..DIFFERENCES.len()).collect();
    let mut unexpected = Vec::new();
    for package in CLIENTS {
        let ([tokio, blocking], types) = faces(package);
        assert!(types.len() >= 4, "{package}: {types:?}");
        for of in types {
            let none = BTreeMap::new();
            let [tokio, blocking] = [&tokio, &blocking].map(|face| face.get(&of).unwrap_or(&none));
            let methods: BTreeSet<&String> = tokio.keys().chain(blocking.keys()).collect();
            for name in methods {
                let (one, other) = (tokio.get(name), blocking.get(name));
                if one == other {
                    continue;
                }
                let covers = |row: &(&str, &str, &str, &str)| {
                    let is = |pattern: &str, what: &str| {
                        pattern.split(' ').any(|pattern| pattern == "*" || pattern == what)
                    };
                    is(row.0, package) && is(row.1, &of) && is(row.2, name)
                };
                match DIFFERENCES.iter().position(covers) {
                    Some(row) => drop(idle.remove(&row)),
                    None => unexpected.push(format!(
                        "{package}: {of}::{name}: async {one:?}, blocking {other:?}"
                    )),
                }
            }
        }
    }
    assert!(unexpected.is_empty(), "only one face has, or has so:\n{}", unexpected.join("\n"));
    assert!(idle.is_empty(), "the faces do not differ as these rows say: {idle:?}");
}

/// The methods that the table above is compared with are found at all, those of every kind.
#[test]
fn the_methods_of_both_faces_are_found() {
    for (package, methods) in [
        ("adf-queue-client", ["Client rpush_json", "Worker register"]),
        ("beanstalk-client", ["Client reserve_job", "JobContext touch"]),
        ("gearman-client", ["JobContext data", "Client run_json"]),
    ] {
        for face in faces(package).0 {
            for method in methods {
                let (of, name) = method.split_once(' ').unwrap();
                assert!(face[of].contains_key(name), "{package}: {of}::{name}");
            }
        }
    }
    for (method, shown) in [
        ("put(&mut self, a: &'a a::B<'a, T>) -> c::D", "(a: &B<T>) -> D"),
        ("run<F: X>(self) where F: Y", "()"),
    ] {
        assert_eq!(signature(method), shown);
    }
}

/// The enums that may be matched without a wildcard, but for their modules.
fn closed(package: &str) -> BTreeSet<String> {
    let lines = listing(package);
    let enums = lines.iter().filter_map(|line| line.strip_prefix("pub enum "));
    enums.map(|path| last(path.split('<').next().unwrap())).collect()
}

fn last(path: &str) -> String {
    path.rsplit("::").next().unwrap().to_owned()
}

/// Those of the table in `docs/stability.md`.
fn promised(package: &str) -> BTreeSet<String> {
    let document = fs::read_to_string(root().join("docs/stability.md")).unwrap();
    let start = format!("| `{package}`");
    let mut rows = document.lines().map(str::trim).filter(|line| line.starts_with(&start));
    let row = rows.next().unwrap_or_else(|| panic!("docs/stability.md has no row for {package}"));
    row.split('|').nth(2).unwrap().split('`').skip(1).step_by(2).map(last).collect()
}

#[test]
fn every_public_enum_may_grow_or_is_in_the_table_of_closed_ones() {
    for package in CLIENTS {
        assert_eq!(closed(package), promised(package), "{package}");
    }
    // Of the core, what the clients show.
    let listings: Vec<String> = CLIENTS.into_iter().flat_map(listing).collect();
    let shown: BTreeSet<String> =
        listings.iter().filter_map(|line| line.strip_prefix("pub use ")).map(last).collect();
    assert!(shown.contains("Endpoint"), "{shown:?}");
    let closed: BTreeSet<_> = closed("queue-toolkit-core").intersection(&shown).cloned().collect();
    assert_eq!(closed, promised("queue-toolkit-core"));
}

/// A dropped future is an everyday matter, so each says what that does.
#[test]
fn every_async_function_of_every_client_states_its_cancel_safety() {
    let (mut functions, mut missing) = (0, Vec::new());
    for (path, text) in CLIENTS.iter().flat_map(|client| files(&root().join(client).join("src"))) {
        let mut documentation = String::new();
        for line in text.lines().map(str::trim) {
            if line.starts_with("///") {
                documentation.push_str(line);
            } else if let Some(function) = line.strip_prefix("pub async fn ") {
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
