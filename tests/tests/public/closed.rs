//! Which enums may be matched without a wildcard: those of the table in `docs/stability.md`, and no other.

use std::{collections::BTreeSet, fs};

use syn::Item;

use super::source::{CLIENTS, is_public, items, root, sources, text_of};

/// The enums of a table row: `| `crate` | `One`, `Two` | .. |`.
fn promised(package: &str) -> BTreeSet<String> {
    let document = fs::read_to_string(root().join("docs/stability.md")).unwrap();
    let row = document
        .lines()
        .map(str::trim)
        .find(|line| line.starts_with(&format!("| `{package}`")))
        .unwrap_or_else(|| panic!("docs/stability.md has no row for {package}"));
    let names = row.split('|').nth(2).unwrap();
    names.split('`').skip(1).step_by(2).map(String::from).collect()
}

/// The public enums of a crate that are closed, those that a table makes included.
fn closed(package: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for source in sources(package) {
        let prefix = if source.path.starts_with("protocol") { "protocol::" } else { "" };
        for item in items(&source.file.items) {
            let names = match item {
                Item::Enum(item) => {
                    let mut attributes = item.attrs.iter().map(text_of);
                    let is_open = attributes.any(|attribute| attribute.contains("non_exhaustive"));
                    let is_closed = is_public(&item.vis) && !is_open;
                    is_closed.then(|| item.ident.to_string()).into_iter().collect()
                }
                Item::Macro(table) => closed_in_table(&text_of(&table.mac.tokens)),
                _ => Vec::new(),
            };
            found.extend(names.iter().map(|name| format!("{prefix}{name}")));
        }
    }
    found
}

fn closed_in_table(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, word) in text.match_indices("pub enum ") {
        let name = text[at + word.len()..].split(|c: char| !c.is_alphanumeric()).next().unwrap();
        if !text[..at].ends_with("#[non_exhaustive]") {
            found.push(name.to_owned());
        }
    }
    found
}

#[test]
fn every_public_enum_may_grow_or_is_in_the_table_of_closed_ones() {
    for package in CLIENTS {
        assert_eq!(closed(package), promised(package), "{package}");
    }
}

#[test]
fn what_the_clients_show_of_the_core_may_grow_or_is_in_the_table() {
    // What is re-exported by name; `Error` and `ErrorKind` of the core are wrapped.
    let shown: BTreeSet<String> = CLIENTS
        .into_iter()
        .flat_map(sources)
        .flat_map(|source| source.file.items)
        .filter_map(|item| match item {
            Item::Use(item) if is_public(&item.vis) => Some(text_of(item)),
            _ => None,
        })
        .filter(|text| text.contains("queue_core::"))
        .flat_map(|text| {
            let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
            words.map(String::from).collect::<Vec<_>>()
        })
        .collect();
    assert!(shown.contains("Endpoint") && shown.contains("Fate"), "{shown:?}");
    let closed: BTreeSet<_> = closed("queue-core").intersection(&shown).cloned().collect();
    assert_eq!(closed, promised("queue-toolkit-core"));
}
