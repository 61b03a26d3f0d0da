//! Both faces of a client have the same types with the same methods, except those of one table.
use std::collections::{BTreeMap, BTreeSet};

/// What only one face has, or has differently: the crate, the type and the methods, where `*` is any, and why.
const DIFFERENCES: &[(&str, &str, &str, &str)] = &[
    ("*", "*", "next", "the blocking pipelines, and Gearman's blocking job, are iterators"),
    ("*", "*", "into_stream", "an iterator is to threads what a stream is to tasks"),
    ("*", "*", "jobs messages reserve_stream", "a blocking reserve, grab or pull in a loop is one"),
    ("*", "*", "register_blocking", "every blocking handler may block"),
    ("*", "*", "register_service", "a tower service gives a future"),
    ("*", "*", "run_until", "a thread cannot wait for a future: it is stopped by its handle"),
    ("*", "JobContext", "lost wait_lost", "a task waits for a future, a thread by a call"),
    ("*", "JobContext", "stopping wait_stopping", "a task waits for a future, a thread by a call"),
    ("*", "Client", "check_connection", "the async client looks all the time"),
    ("*", "Client", "set_total_timeout", "whoever waits for a future bounds it"),
    ("adf_queue_client", "Client", "metrics", "the blocking client's are its caller's alone"),
    ("beanstalk_client", "Client", "from_stream", "to give a blocking stream timeouts may fail"),
    ("*", "Receipt", "wait", "the async receipt is a future"),
    (
        "gearman_client",
        "Client",
        "set_reply_timeout",
        "the async one is shared: it would be for all",
    ),
    ("gearman_client", "GrabbedJob", "*", "the blocking worker moves its bytes: it acts on jobs"),
    (
        "gearman_client",
        "Worker",
        "complete data exception fail give_back is_lost status wait_lost warning",
        "the async `GrabbedJob` acts for itself",
    ),
    ("gearman_client", "Worker", "next_job", "a thread gives the time that bounds a future"),
    ("gearman_client", "Worker", "run", "the blocking one is fallible for what may come"),
];

/// A method of each kind of each client, which the comparison has to find in both faces.
const KNOWN: [(&str, [&str; 2]); 3] = [
    ("adf_queue_client", ["Client rpush_json", "Worker register"]),
    ("beanstalk_client", ["Client reserve_job", "JobContext touch"]),
    ("gearman_client", ["JobContext data", "Client run_json"]),
];

/// The methods of the types of one face, by type and name, as far as the faces have to agree.
type Methods = BTreeMap<String, BTreeMap<String, String>>;

#[derive(Default)]
pub(crate) struct Comparison {
    /// The rows of the table that cover a difference.
    used: BTreeSet<usize>,
    unexpected: Vec<String>,
}

impl Comparison {
    /// Compares the faces in a library's listing, and ignores a library without faces.
    pub(crate) fn add(&mut self, library: &str, listing: &str) {
        let Some((_, known)) = KNOWN.iter().find(|(client, _)| *client == library) else { return };
        let ([tokio, blocking], types) = faces(library, listing);
        for (of, name) in known.iter().filter_map(|method| method.split_once(' ')) {
            let has =
                |face: &Methods| face.get(of).is_some_and(|methods| methods.contains_key(name));
            if !has(&tokio) || !has(&blocking) {
                self.unexpected.push(format!("{library}: {of}::{name} is not found in both faces"));
            }
        }
        let none = BTreeMap::new();
        for of in types {
            let [tokio, blocking] = [&tokio, &blocking].map(|face| face.get(&of).unwrap_or(&none));
            for name in tokio.keys().chain(blocking.keys()).collect::<BTreeSet<_>>() {
                let (one, other) = (tokio.get(name), blocking.get(name));
                if one == other {
                    continue;
                }
                match row(library, &of, name) {
                    Some(row) => drop(self.used.insert(row)),
                    None => self.unexpected.push(format!(
                        "{library}: {of}::{name}: async {one:?}, blocking {other:?}"
                    )),
                }
            }
        }
    }

    /// What has to change before the faces agree, a line for each.
    pub(crate) fn complaints(self) -> Vec<String> {
        let idle = DIFFERENCES.iter().enumerate().filter(|(row, _)| !self.used.contains(row));
        let idle = idle.map(|(_, (library, of, names, _))| {
            format!("the faces do not differ as DIFFERENCES says: {library}: {of}: {names}")
        });
        self.unexpected.into_iter().chain(idle).collect()
    }
}

/// The row of the table that allows a difference.
fn row(library: &str, of: &str, name: &str) -> Option<usize> {
    let is = |pattern: &str, what: &str| {
        pattern.split(' ').any(|pattern| pattern == "*" || pattern == what)
    };
    DIFFERENCES.iter().position(|row| is(row.0, library) && is(row.1, of) && is(row.2, name))
}

/// The methods of the async face, with those of both, and those of the blocking one; and the types of the latter.
fn faces(library: &str, listing: &str) -> ([Methods; 2], BTreeSet<String>) {
    let listing = listing.replace(&format!("{library}::"), "");
    let (mut faces, mut types) = ([Methods::new(), Methods::new()], BTreeSet::new());
    let mut is_of_trait = false;
    for line in listing.lines() {
        if line.starts_with("impl") {
            is_of_trait = line.contains(" for ");
        } else if let Some((_, name)) = line.split_once("struct blocking::") {
            let name = name.split(['<', '(', ':']).next().unwrap_or_default();
            types.insert(name.trim().to_owned());
        } else if let Some((_, path)) = line.split_once("fn ").filter(|_| !is_of_trait) {
            let (is_blocking, path) = match path.strip_prefix("blocking::") {
                Some(path) => (true, path),
                None => (false, path),
            };
            let (of, method) = path.split_at(path.find(['<', ':']).unwrap_or(path.len()));
            let behind_type = if method.starts_with('<') { ">::" } else { "::" };
            let Some((_, method)) = method.split_once(behind_type) else { continue };
            let name = method.split(['<', '(']).next().unwrap_or_default();
            let [tokio, blocking] = &mut faces;
            let face = if is_blocking { blocking } else { tokio };
            face.entry(of.to_owned()).or_default().insert(name.to_owned(), signature(method));
        }
    }
    (faces, types)
}

/// Parameters but for `self`, and what is given: without lifetimes and the paths before names. Type parameters and
/// bounds are left out, for a handler that gives a future has others.
fn signature(method: &str) -> String {
    let (_, text) = method.split_at(method.find('(').unwrap_or(method.len()));
    let text = text.split(" where ").next().unwrap_or_default();
    let is_part = |c: char| c.is_alphanumeric() || "_:'".contains(c);
    let words = text.split_inclusive(|c| !is_part(c)).map(|word| {
        let bare = word.trim_end_matches(|c| !is_part(c));
        let behind = word.strip_prefix(bare).unwrap_or_default();
        let name = bare.rsplit("::").next().unwrap_or_default();
        format!("{}{behind}", if bare.starts_with('\'') { "" } else { name })
    });
    let text = words.collect::<String>().replace("& ", "&").replace("<, ", "<").replace("<>", "");
    ["(&mut self", "(&self", "(mut self", "(self"]
        .into_iter()
        .find_map(|own| text.strip_prefix(own))
        .map_or(text.clone(), |rest| format!("({}", rest.trim_start_matches(", ")))
}

#[cfg(test)]
mod tests {
    use super::{Comparison, KNOWN, signature};

    #[test]
    fn compares_signatures_of_both_faces() {
        for (method, shown) in [
            ("put(&mut self, a: &'a a::B<'a, T>) -> c::D", "(a: &B<T>) -> D"),
            ("run<F: X>(self) where F: Y", "()"),
        ] {
            assert_eq!(signature(method), shown);
        }
    }

    fn compared(async_face: &str, blocking_face: &str) -> Vec<String> {
        let (library, known) = KNOWN[0];
        let mut listing = String::from("pub struct adf_queue_client::blocking::Client\n");
        for method in known {
            let method = method.replace(' ', "::");
            listing += &format!("pub async fn {library}::{method}(&self)\n");
            listing += &format!("pub fn {library}::blocking::{method}(&self)\n");
        }
        listing += async_face;
        listing += blocking_face;
        let mut comparison = Comparison::default();
        comparison.add(library, &listing);
        comparison.unexpected
    }

    #[test]
    fn reports_a_method_of_one_face_only() {
        let [one, other] = ["", "blocking::"]
            .map(|face| format!("pub fn adf_queue_client::{face}Client::len(&self)\n"));
        assert_eq!(compared(&one, &other), [""; 0]);
        assert_eq!(compared(&one, "").len(), 1);
        assert_eq!(compared("", &other).len(), 1);
    }

    #[test]
    fn ignores_an_allowed_difference() {
        let metrics = "pub fn adf_queue_client::Client::metrics(&self)\n";
        assert_eq!(compared(metrics, ""), [""; 0]);
    }

    #[test]
    fn reports_a_stale_row_of_the_table() {
        let complaints = Comparison::default().complaints();
        assert_eq!(complaints.len(), super::DIFFERENCES.len());
    }
}
