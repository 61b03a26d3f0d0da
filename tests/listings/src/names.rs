//! rustdoc names items of other crates by the private module that defines them, so a listing would change with modules
//! that nobody can name. Here they get the names under which they are public.
use std::collections::HashMap;

use public_api::PublicApi;
use serde_json::Value;

#[derive(Default)]
pub(crate) struct Names {
    /// The public name of each name that is not public.
    public: HashMap<String, String>,
}

impl Names {
    /// Learns the names of a library's items, and where it defines them.
    pub(crate) fn learn(
        &mut self,
        library: &str,
        json: &str,
        items: &PublicApi,
    ) -> serde_json::Result<()> {
        let documented: Value = serde_json::from_str(json)?;
        for item in items.items() {
            let path = documented.pointer(&format!("/paths/{}/path", item.id().0));
            let Some(path) = path.and_then(Value::as_array) else { continue };
            let path: Vec<&str> = path.iter().filter_map(Value::as_str).collect();
            if let Some(public) = name_of(library, &item.to_string()) {
                self.teach(path.join("::"), public);
            }
        }
        Ok(())
    }

    /// Of two public names, the shorter one is used.
    fn teach(&mut self, defined: String, public: &str) {
        let known = self.public.entry(defined).or_insert_with(|| public.to_owned());
        if (public.len(), public) < (known.len(), known.as_str()) {
            *known = public.to_owned();
        }
    }

    /// A line of a listing with public names.
    pub(crate) fn as_public(&self, item: &str) -> String {
        let mut line = String::with_capacity(item.len());
        let mut rest = item;
        while !rest.is_empty() {
            let end = rest.find(|c| !is_of_path(c)).unwrap_or(rest.len());
            let (path, behind) = rest.split_at(end);
            line.push_str(&self.path(path));
            let end = behind.find(is_of_path).unwrap_or(behind.len());
            let (between, next) = behind.split_at(end);
            line.push_str(between);
            rest = next;
        }
        line
    }

    /// The longest prefix that names an item decides.
    fn path(&self, path: &str) -> String {
        let mut end = path.len();
        loop {
            let (head, tail) = path.split_at(end);
            if let Some(public) = self.public.get(head) {
                return format!("{public}{tail}");
            }
            let Some(shorter) = head.rfind("::") else { return path.to_owned() };
            end = shorter;
        }
    }
}

fn is_of_path(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == ':'
}

/// The name of an item in its line of the listing.
fn name_of<'a>(library: &str, item: &'a str) -> Option<&'a str> {
    let item = &item[item.find(&format!("{library}::"))?..];
    let end = item.find(|c| !is_of_path(c)).unwrap_or(item.len());
    Some(item[..end].trim_end_matches(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_items_by_their_public_path() {
        let mut names = Names::default();
        names.teach("queue::net::duplex::Duplex".into(), "queue::blocking::Duplex");
        names.teach("queue::role::Epoch".into(), "queue::Epoch");
        names.teach("queue::role::Epoch".into(), "queue::prelude::Epoch");
        assert_eq!(
            names.as_public("pub fn client::Client::epoch(&self) -> Option<queue::role::Epoch>"),
            "pub fn client::Client::epoch(&self) -> Option<queue::Epoch>"
        );
        assert_eq!(
            names.as_public(
                "impl queue::net::duplex::Duplex for S where S: queue::role::Epoch::Next"
            ),
            "impl queue::blocking::Duplex for S where S: queue::Epoch::Next"
        );
        assert_eq!(
            names.as_public("pub struct queue::role::Epochs"),
            "pub struct queue::role::Epochs"
        );
    }

    #[test]
    fn the_name_of_an_item_stands_in_its_line() {
        let name = |item| name_of("queue", item);
        assert_eq!(name("#[non_exhaustive] pub enum queue::Fate"), Some("queue::Fate"));
        assert_eq!(
            name("pub trait queue::role::Role: core::marker::Send"),
            Some("queue::role::Role")
        );
        assert_eq!(name("pub struct queue::Jobs<'a, T>"), Some("queue::Jobs"));
        assert_eq!(name("pub use client::Fate"), None);
    }
}
