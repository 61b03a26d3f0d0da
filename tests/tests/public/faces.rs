//! Both faces of a client have the same types with the same methods, except for those in the table.

use std::collections::{BTreeMap, BTreeSet};

use syn::{Expr, FnArg, ImplItem, ImplItemFn, Item, Lit, Meta, ReturnType, Type};

use super::source::{CLIENTS, Source, is_public, items, sources, text_of};

/// What only one face has, or has differently: the crate, the type and the method, where `*` is any, and why.
const DIFFERENCES: &[(&str, &str, &str, &str)] = &[
    ("*", "*", "next", "the blocking pipelines, and Gearman's blocking job, are iterators"),
    ("*", "*", "into_stream", "an iterator is to threads what a stream is to tasks"),
    ("*", "*", "jobs", "a blocking reserve or grab in a loop is one"),
    ("*", "CallManyStream", "*", "an iterator is to threads what a stream is to tasks"),
    ("*", "JobEventStream", "*", "an iterator is to threads what a stream is to tasks"),
    ("*", "JobStream", "*", "an iterator is to threads what a stream is to tasks"),
    ("*", "MessageStream", "*", "an iterator is to threads what a stream is to tasks"),
    ("*", "PushManyStream", "*", "an iterator is to threads what a stream is to tasks"),
    ("*", "PutManyStream", "*", "an iterator is to threads what a stream is to tasks"),
    ("*", "SubmitManyStream", "*", "an iterator is to threads what a stream is to tasks"),
    ("*", "*", "register_blocking", "every handler of a blocking worker may block"),
    ("*", "*", "register_service", "what a tower service gives is a future"),
    ("*", "*", "run_blocking", "every handler of a blocking worker may block"),
    ("*", "*", "run_service", "what a tower service gives is a future"),
    ("*", "*", "run_service_until", "what a tower service gives is a future"),
    ("*", "*", "run_until", "a thread cannot wait for a future: it is stopped by its handle"),
    ("*", "JobContext", "lost", "a future, which a thread waits for by `wait_lost`"),
    ("*", "JobContext", "wait_lost", "a task waits for the future `lost`"),
    ("*", "JobContext", "stopping", "a future, which a thread waits for by `wait_stopping`"),
    ("*", "JobContext", "wait_stopping", "a task waits for the future `stopping`"),
    ("adf-queue-client", "Client", "check_connection", "the async client looks all the time"),
    ("adf-queue-client", "Client", "messages", "a blocking pull in a loop is one"),
    (
        "adf-queue-client",
        "Client",
        "metrics",
        "the blocking client is its caller's alone, and lends them",
    ),
    ("adf-queue-client", "Client", "set_total_timeout", "whoever waits for a future bounds it"),
    (
        "beanstalk-client",
        "Client",
        "from_stream",
        "a blocking stream has to be given timeouts, which may fail",
    ),
    ("beanstalk-client", "Receipt", "wait", "the async receipt is a future"),
    ("gearman-client", "Client", "check_connection", "the async client looks all the time"),
    (
        "gearman-client",
        "Client",
        "set_reply_timeout",
        "the async client is shared: each would change it for all",
    ),
    ("gearman-client", "Client", "set_total_timeout", "whoever waits for a future bounds it"),
    (
        "gearman-client",
        "GrabbedJob",
        "*",
        "the blocking worker moves its bytes itself, so it acts on jobs",
    ),
    ("gearman-client", "Worker", "complete", "the async `GrabbedJob` acts for itself"),
    ("gearman-client", "Worker", "data", "the async `GrabbedJob` acts for itself"),
    ("gearman-client", "Worker", "exception", "the async `GrabbedJob` acts for itself"),
    ("gearman-client", "Worker", "fail", "the async `GrabbedJob` acts for itself"),
    ("gearman-client", "Worker", "is_lost", "the async `GrabbedJob` acts for itself"),
    ("gearman-client", "Worker", "status", "the async `GrabbedJob` acts for itself"),
    ("gearman-client", "Worker", "wait_lost", "the async `GrabbedJob` acts for itself"),
    ("gearman-client", "Worker", "warning", "the async `GrabbedJob` acts for itself"),
    (
        "gearman-client",
        "Worker",
        "next_job",
        "whoever waits for a future bounds it; a thread gives a time",
    ),
    (
        "gearman-client",
        "Worker",
        "run",
        "the blocking one is fallible for the sake of what may come",
    ),
];

/// The methods of one type, by name, as far as the faces have to agree.
type Methods = BTreeMap<String, String>;

/// The types of both faces.
#[derive(Default)]
struct Faces {
    /// Those of the async face, and those of both.
    tokio: BTreeMap<String, Methods>,
    blocking: BTreeMap<String, Methods>,
    /// The types that the blocking face defines, and those of modules that only the async one has.
    only_blocking: BTreeSet<String>,
    only_tokio: BTreeSet<String>,
}

fn faces(package: &str) -> Faces {
    let sources = sources(package);
    let tokio_modules = tokio_modules(&sources);
    let mut faces = Faces::default();
    for source in &sources {
        let top = source.path.components().next().unwrap().as_os_str().to_string_lossy();
        let is_tokio = tokio_modules.contains(top.trim_end_matches(".rs"));
        for item in items(&source.file.items) {
            match item {
                Item::Struct(item) if is_public(&item.vis) => {
                    if source.is_blocking() {
                        faces.only_blocking.insert(item.ident.to_string());
                    } else if is_tokio {
                        faces.only_tokio.insert(item.ident.to_string());
                    }
                }
                Item::Impl(item) if item.trait_.is_none() => {
                    let (name, is_named_blocking) = named(&item.self_ty);
                    let face = match source.is_blocking() || is_named_blocking {
                        true => &mut faces.blocking,
                        false => &mut faces.tokio,
                    };
                    let methods = face.entry(name).or_default();
                    for item in &item.items {
                        let ImplItem::Fn(function) = item else { continue };
                        if is_public(&function.vis) && !is_hidden(function) {
                            methods.insert(function.sig.ident.to_string(), signature(function));
                        }
                    }
                }
                _ => {}
            }
        }
    }
    faces
}

/// The modules at the root that need the feature `tokio` alone.
fn tokio_modules(sources: &[Source]) -> BTreeSet<String> {
    let root = sources.iter().find(|source| source.path.as_os_str() == "lib.rs").unwrap();
    let modules = root.file.items.iter().filter_map(|item| match item {
        Item::Mod(module) => Some(module),
        _ => None,
    });
    let gates = ["#[cfg(feature=\"tokio\")]", "#[cfg(feature=\"stream\")]"];
    modules
        .filter(|module| {
            module.attrs.iter().any(|attribute| gates.contains(&text_of(attribute).as_str()))
        })
        .map(|module| module.ident.to_string())
        .collect()
}

/// The name of a type that methods are for, and whether its path says that it is the blocking one.
fn named(of: &Type) -> (String, bool) {
    let Type::Path(path) = of else { return (text_of(of), false) };
    let names: Vec<String> =
        path.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
    let is_blocking = names.iter().any(|name| name == "blocking");
    (names.last().cloned().unwrap_or_default(), is_blocking)
}

fn is_hidden(function: &ImplItemFn) -> bool {
    function.attrs.iter().any(|attribute| text_of(attribute).contains("doc(hidden)"))
}

/// Parameters but for `self`, and what is given: without lifetimes and the paths before names. Type parameters and
/// bounds are left out, for a handler that gives a future has others.
fn signature(function: &ImplItemFn) -> String {
    let parameters = function.sig.inputs.iter().filter_map(|parameter| match parameter {
        FnArg::Receiver(_) => None,
        FnArg::Typed(typed) => {
            let name = text_of(&typed.pat).replace("mut ", "");
            Some(format!("{name}: {}", bare(&text_of(&typed.ty))))
        }
    });
    let given = match &function.sig.output {
        ReturnType::Default => String::new(),
        ReturnType::Type(_, given) => format!(" -> {}", bare(&text_of(given))),
    };
    format!("({}){given}", parameters.collect::<Vec<_>>().join(", "))
}

/// A type without lifetimes and without the paths before names.
fn bare(text: &str) -> String {
    let mut words = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = rest
            .find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':' && c != '\'')
            .unwrap_or(rest.len());
        if length == 0 {
            words.push(c);
            rest = rest.get(c.len_utf8()..).unwrap_or_default();
            continue;
        }
        let (word, behind) = rest.split_at(length);
        match word.starts_with('\'') {
            true => {}
            false => words.push_str(word.rsplit("::").next().unwrap_or(word)),
        }
        rest = behind;
    }
    words.replace("<>", "").replace("<,", "<").replace("& ", "&").replace("+ use<>", "")
}

/// The differences between the faces, one line each.
fn differences(package: &str) -> BTreeSet<(String, String, String)> {
    let faces = faces(package);
    let twins: BTreeSet<&String> = faces.only_blocking.intersection(&faces.only_tokio).collect();
    assert!(twins.len() >= 4, "{package}: {twins:?}");
    let mut found = BTreeSet::new();
    for alone in faces.only_blocking.symmetric_difference(&faces.only_tokio) {
        found.insert((alone.clone(), "*".to_owned(), String::new()));
    }
    let none = Methods::new();
    for name in twins {
        let tokio = faces.tokio.get(name).unwrap_or(&none);
        let blocking = faces.blocking.get(name).unwrap_or(&none);
        for method in tokio.keys().chain(blocking.keys()) {
            let (one, other) = (tokio.get(method), blocking.get(method));
            if one != other {
                let shown = |signature: Option<&String>| {
                    signature.cloned().unwrap_or_else(|| "nothing".into())
                };
                let detail = format!("async {}, blocking {}", shown(one), shown(other));
                found.insert((name.clone(), method.clone(), detail));
            }
        }
    }
    found
}

/// Whether a row of the table covers this.
fn covers(row: &(&str, &str, &str, &str), package: &str, name: &str, method: &str) -> bool {
    let is = |pattern: &str, what: &str| pattern == "*" || pattern == what;
    is(row.0, package) && is(row.1, name) && is(row.2, method)
}

#[test]
fn both_faces_of_every_client_have_the_same_methods() {
    let mut used = BTreeSet::new();
    let mut unexpected = Vec::new();
    for package in CLIENTS {
        for (name, method, detail) in differences(package) {
            match DIFFERENCES.iter().position(|row| covers(row, package, &name, &method)) {
                Some(row) => {
                    used.insert(row);
                }
                None => unexpected.push(format!("{package}: {name}::{method}: {detail}")),
            }
        }
    }
    assert!(unexpected.is_empty(), "only one face has, or has so:\n{}", unexpected.join("\n"));
    let idle: Vec<_> = (0..DIFFERENCES.len()).filter(|row| !used.contains(row)).collect();
    assert!(idle.is_empty(), "the faces do not differ as these rows say: {idle:?}");
}

/// The methods that the table above is compared with are found at all, those of every kind.
#[test]
fn the_methods_of_both_faces_are_found() {
    for (package, methods) in [
        ("adf-queue-client", &[("Client", "rpush_json"), ("Worker", "register")][..]),
        (
            "beanstalk-client",
            &[("Client", "reserve_job"), ("JobContext", "touch"), ("Producer", "put_json")],
        ),
        ("gearman-client", &[("Admin", "status"), ("JobContext", "data"), ("Client", "run_json")]),
    ] {
        let Faces { tokio, blocking, .. } = faces(package);
        for face in [tokio, blocking] {
            for (name, method) in methods {
                assert!(face[*name].contains_key(*method), "{package}: {name}::{method}");
            }
        }
    }
}

fn documentation(function: &ImplItemFn) -> String {
    let lines = function.attrs.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(line) => match &line.lit {
                Lit::Str(line) => Some(line.value()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A dropped future is an everyday matter, so each says what that does.
#[test]
fn every_async_function_of_every_client_states_its_cancel_safety() {
    let (mut functions, mut missing) = (0, Vec::new());
    for package in CLIENTS {
        for source in sources(package) {
            for item in items(&source.file.items) {
                let Item::Impl(item) = item else { continue };
                for item in &item.items {
                    let ImplItem::Fn(function) = item else { continue };
                    if function.sig.asyncness.is_none() || !is_public(&function.vis) {
                        continue;
                    }
                    functions += 1;
                    let documented = documentation(function).contains("# Cancel safety");
                    let (path, name) = (source.path.display(), &function.sig.ident);
                    if !documented {
                        missing.push(format!("{package}: {path}: {name}"));
                    }
                }
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(functions > 90, "only {functions} functions were found");
}
