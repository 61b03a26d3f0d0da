//! The sources of a crate, parsed.

use std::{
    fs,
    path::{Path, PathBuf},
};

use quote::ToTokens;
use syn::{Attribute, File, Item, Visibility};

/// The client crates.
pub(super) const CLIENTS: [&str; 3] = ["adf-queue-client", "beanstalk-client", "gearman-client"];

/// A file of a crate.
pub(super) struct Source {
    /// Its path in the crate's `src`.
    pub(super) path: PathBuf,
    pub(super) file: File,
}

impl Source {
    /// Whether it belongs to the blocking face.
    pub(super) fn is_blocking(&self) -> bool {
        self.path.starts_with("blocking")
    }
}

pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Every file of a crate, without those that only tests have.
pub(super) fn sources(package: &str) -> Vec<Source> {
    let src = root().join(package).join("src");
    let mut found = Vec::new();
    let mut folders = vec![src.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let file = syn::parse_file(&text).unwrap();
                let path = path.strip_prefix(&src).unwrap().to_owned();
                found.push(Source { path, file });
            }
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    assert!(found.len() > 30, "{package} has only {} files", found.len());
    found
}

/// Every item of a file, those of its modules included, but for what only tests have.
pub(super) fn items(items: &[Item]) -> Vec<&Item> {
    let mut found = Vec::new();
    for item in items {
        match item {
            Item::Mod(module) if !is_for_tests(&module.attrs) => {
                if let Some((_, inner)) = &module.content {
                    found.extend(self::items(inner));
                }
            }
            Item::Mod(_) => {}
            item => found.push(item),
        }
    }
    found
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let text = text_of(attribute);
        text.contains("cfg(test)") || text.contains("cfg(all(test")
    })
}

pub(super) fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// Tokens as text without spaces where none are needed.
pub(super) fn text_of(tokens: impl ToTokens) -> String {
    let text = tokens.to_token_stream().to_string();
    let mut compact = String::with_capacity(text.len());
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        let before = compact.chars().last().is_some_and(is_word);
        let after = characters.peek().is_some_and(|c| is_word(*c) || *c == '\'');
        if c != ' ' || (before && after) {
            compact.push(c);
        }
    }
    compact
}
