//! No enum of a client is closed that may have to grow: `docs/stability.md` has a table of those that are.
use std::collections::{BTreeMap, BTreeSet};

/// Compares the listings, by library, with the table. Of the core, what the clients show counts.
pub(crate) fn complaints(
    listings: &BTreeMap<String, String>,
    stability: &str,
) -> Result<Vec<String>, String> {
    const CLIENTS: [&str; 3] = ["adf_queue_client", "beanstalk_client", "gearman_client"];
    let listing = |library| {
        let found: Option<&String> = listings.get(library);
        found.ok_or_else(|| format!("there is no listing of {library}"))
    };
    let mut shown = BTreeSet::new();
    let mut wrong = Vec::new();
    let mut compare = |package: &str, closed: BTreeSet<String>| -> Result<(), String> {
        let promised = promised(package, stability)?;
        if closed != promised {
            wrong.push(format!(
                "{package}: closed enums {closed:?}, in docs/stability.md {promised:?}"
            ));
        }
        Ok(())
    };
    for library in CLIENTS {
        let lines = listing(library)?;
        shown.extend(lines.lines().filter_map(|line| line.strip_prefix("pub use ")).map(last));
        compare(&library.replace('_', "-"), closed(lines))?;
    }
    if !shown.contains("Endpoint") {
        return Err(format!("the clients do not show the core's Endpoint, but {shown:?}"));
    }
    let of_core = closed(listing("queue_core")?);
    compare("queue-toolkit-core", of_core.intersection(&shown).cloned().collect())?;
    Ok(wrong)
}

/// The enums that may be matched without a wildcard, but for their modules.
fn closed(listing: &str) -> BTreeSet<String> {
    let enums = listing.lines().filter_map(|line| line.strip_prefix("pub enum "));
    enums.map(|path| last(path.split('<').next().unwrap_or_default())).collect()
}

/// Those of the table.
fn promised(package: &str, stability: &str) -> Result<BTreeSet<String>, String> {
    let start = format!("| `{package}`");
    let row = stability.lines().map(str::trim).find(|line| line.starts_with(&start));
    let cell = row.and_then(|row| row.split('|').nth(2));
    let cell = cell.ok_or_else(|| format!("docs/stability.md has no row for {package}"))?;
    Ok(cell.split('`').skip(1).step_by(2).map(last).collect())
}

fn last(path: &str) -> String {
    path.rsplit("::").next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::complaints;

    fn compared(of_client: &str, table: &str) -> Result<Vec<String>, String> {
        let clients = "pub use queue_core::Endpoint\npub use queue_core::Fate\n";
        let core = "pub enum queue_core::Fate\npub enum queue_core::Hidden\n";
        let listings = BTreeMap::from([
            ("adf_queue_client".to_owned(), of_client.to_owned()),
            ("beanstalk_client".to_owned(), clients.to_owned()),
            ("gearman_client".to_owned(), String::new()),
            ("queue_core".to_owned(), core.to_owned()),
        ]);
        let table = format!(
            "  | `adf-queue-client` | {table} |\n| `beanstalk-client` | |\n| `gearman-client` | |\n\
             | `queue-toolkit-core` | `Fate` | why |\n"
        );
        complaints(&listings, &table)
    }

    #[test]
    fn closed_enums_are_those_of_the_table() {
        let closed = "pub enum adf_queue_client::protocol::Action<T>\n";
        assert_eq!(compared(closed, "`protocol::Action`"), Ok(vec![]));
        assert_eq!(compared("", "").map(|wrong| wrong.len()), Ok(0));
        let open = "#[non_exhaustive] pub enum adf_queue_client::Event\n";
        assert_eq!(compared(open, ""), Ok(vec![]));
        assert_eq!(compared(closed, "").map(|wrong| wrong.len()), Ok(1));
        assert_eq!(compared("", "`Action`").map(|wrong| wrong.len()), Ok(1));
    }
}
