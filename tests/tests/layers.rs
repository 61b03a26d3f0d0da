//! The modules of every crate are layers: no circle of them use each other, at any level of folders, and those of the
//! kit have an order.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The modules of the kit, lowest first: each uses only those before it.
const KIT: &[&str] = &[
    "text", "error", "program", "rules", "help", "system", "envelope", "output", "config", "bulk",
    "input", "args", "link", "context", "repl", "commands", "tool", "live",
];

/// The arrows that still point up or close a circle: crate, user, used. This list only shrinks.
const ALLOWED: &[(&str, &str, &str)] = &[
    ("adf-queue-client", "address", "protocol"),
    ("adf-queue-client", "protocol", "trace"),
    ("adf-queue-client", "work", "trace"),
    ("beanstalk-client", "protocol", "trace"),
    ("beanstalk-client", "protocol", "work"),
    ("beanstalk-client", "protocol/producer/check", "protocol/producer/lane"),
    ("beanstalk-client", "work", "trace"),
    ("queue-core", "dial", "blocking"),
    ("queue-core", "dial", "pump"),
];

type Modules = BTreeMap<Vec<String>, String>;
type Arrows = BTreeSet<(String, String)>;

/// The modules of a folder with their code, without comments and tests.
fn read(folder: &Path, path: &[String], modules: &mut Modules) {
    for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let name = entry.file_stem().unwrap().to_string_lossy().into_owned();
        let is_root = ["lib", "main", "mod"].contains(&name.as_str());
        let own =
            if is_root { path.to_vec() } else { [path, std::slice::from_ref(&name)].concat() };
        if name.ends_with("tests") || name == "bin" {
            continue;
        } else if entry.is_dir() {
            read(&entry, &own, modules);
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&entry).unwrap();
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
            modules.entry(own).or_default().push_str(&lines.collect::<Vec<_>>().join("\n"));
        }
    }
}

/// The names at the end of a path in `code`, each with its whole path, which may branch in braces; and the code behind.
fn branches<'c>(code: &'c str, path: &[String], found: &mut Vec<Vec<String>>) -> &'c str {
    let code = code.trim_start();
    if let Some(mut inner) = code.strip_prefix('{') {
        loop {
            inner = branches(inner, path, found).trim_start_matches([',', ' ', '\n']);
            match inner.strip_prefix('}') {
                Some(rest) => return rest,
                None if inner.is_empty() => return inner,
                None => {}
            }
        }
    }
    let end = code.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(code.len());
    let (name, rest) = code.split_at(end);
    let path = [path, &[name.to_owned()]].concat();
    match rest.strip_prefix("::") {
        Some(rest) => branches(rest, &path, found),
        None => {
            found.push(path);
            rest.split_once([',', '}', ';']).map_or("", |(dropped, _)| &rest[dropped.len()..])
        }
    }
}

/// Which modules use which beside them: of two modules, those in their common folder that they are, or are in.
fn arrows(modules: &Modules) -> Arrows {
    let folders: BTreeSet<&[String]> =
        modules.keys().flat_map(|path| (0..=path.len()).map(|length| &path[..length])).collect();
    let mut arrows = Arrows::new();
    for (user, code) in modules {
        let mut used = Vec::new();
        for root in ["crate", "self", "super"] {
            for (at, _) in code.match_indices(&format!("{root}::")) {
                let is_start =
                    !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
                let mut rest = &code[at..];
                let mut path = if root == "crate" { &[][..] } else { &user[..] };
                while let Some(inner) = rest.strip_prefix("super::") {
                    (rest, path) = (inner, &path[..path.len().saturating_sub(1)]);
                }
                let rest = rest.trim_start_matches("crate::").trim_start_matches("self::");
                if is_start {
                    branches(rest, path, &mut used);
                }
            }
        }
        for path in used {
            let length = (0..=path.len()).rev().find(|length| folders.contains(&path[..*length]));
            let used = &path[..length.unwrap_or_default()];
            let shared = user.iter().zip(used).take_while(|(one, other)| one == other).count();
            if shared < user.len().min(used.len()) {
                arrows.insert((user[..=shared].join("/"), used[..=shared].join("/")));
            }
        }
    }
    arrows
}

/// The arrows that point up in an order, or close a circle.
fn wrong(arrows: &Arrows, order: &[&str]) -> Arrows {
    let floor = |name: &str| order.iter().position(|layer| *layer == name);
    let closes = |(user, used): &&(String, String)| match (floor(user), floor(used)) {
        (Some(user), Some(used)) => used > user,
        _ => {
            let mut reached = BTreeSet::from([used]);
            let mut count = 0;
            while reached.len() > count {
                count = reached.len();
                reached.extend(
                    arrows
                        .iter()
                        .filter(|(from, _)| reached.contains(from))
                        .map(|(_, to)| to)
                        .collect::<Vec<_>>(),
                );
            }
            reached.contains(user)
        }
    };
    arrows.iter().filter(closes).cloned().collect()
}

/// What is wrong in a crate: arrows that point up or close a circle, and entries of the list that are needed no more.
fn faults(name: &str, mut arrows: Arrows) -> Vec<String> {
    let order = if name == "ctl-core" { KIT } else { &[] };
    let line =
        |what: &str, (user, used): &(String, String)| format!("{what}: {name}: {user} -> {used}");
    let own = ALLOWED.iter().filter(|(owner, ..)| *owner == name);
    let own: Arrows = own.map(|(_, user, used)| ((*user).to_owned(), (*used).to_owned())).collect();
    let gone: Vec<_> = own.difference(&arrows).map(|arrow| line("not needed", arrow)).collect();
    arrows.retain(|arrow| !own.contains(arrow));
    let wrong_ones = wrong(&arrows, order);
    let mut faults: Vec<_> =
        wrong_ones.iter().map(|arrow| line("wrong", arrow)).chain(gone).collect();
    for arrow in own {
        arrows.insert(arrow.clone());
        if wrong(&arrows, order).len() == wrong_ones.len() {
            faults.push(line("not needed", &arrow));
        }
        arrows.remove(&arrow);
    }
    faults
}

#[test]
fn modules_depend_downwards_without_cycles() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let crates = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let crates: Vec<_> = crates.filter(|path| path.join("src").is_dir()).collect();
    assert!(crates.len() > 9, "{crates:?}");
    let faults = crates.iter().flat_map(|folder| {
        let mut modules = Modules::new();
        read(&folder.join("src"), &[], &mut modules);
        let name = folder.file_name().unwrap().to_string_lossy();
        if name == "ctl-core" {
            let tops: BTreeSet<&str> =
                modules.keys().filter_map(|path| path.first()).map(String::as_str).collect();
            assert_eq!(
                tops,
                KIT.iter().copied().collect(),
                "the modules of the kit, and its layers"
            );
        }
        faults(&name, arrows(&modules))
    });
    let faults: Vec<String> = faults.collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn finds_a_cycle_at_every_level() {
    let modules = [
        ("a", "use crate::{b::{self, c::D}, x as y};"),
        ("b", ""),
        ("b/c", "super::super::a::f()"),
    ];
    let modules =
        modules.map(|(path, code)| (path.split('/').map(str::to_owned).collect(), code.to_owned()));
    let arrows = arrows(&modules.into());
    let arrow = |one: &str, other: &str| (one.to_owned(), other.to_owned());
    assert_eq!(arrows, [arrow("a", "b"), arrow("b", "a")].into());
    assert_eq!(wrong(&arrows, &[]), arrows);
    assert_eq!(wrong(&arrows, &["b", "a"]), [arrow("b", "a")].into());
}
