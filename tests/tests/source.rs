//! What the sources of the clients promise: every method is in a scenario, no runtime is in a blocking build, and nothing
//! but the pumps reads a clock.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Command,
};

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

const CLIENTS: [&str; 3] = ["adf-queue-client", "beanstalk-client", "gearman-client"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// The source files of a folder of the repository, but for its tests, and their code without tests and comments.
fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let mut found = files(&root().join(folder));
    found.retain(|(path, _)| !is_test(path));
    for (_, text) in &mut found {
        let code = text.split("#[cfg(test)]\n").next().unwrap().lines();
        let code = code.filter(|line| !line.trim_start().starts_with("//"));
        *text = code.collect::<Vec<_>>().join("\n");
    }
    found
}

/// The source files of a folder.
fn files(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push((path.clone(), read(&path)));
            }
        }
    }
    found
}

/// All files of a folder as one text.
fn read_all(folder: &Path) -> String {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| if path.is_dir() { read_all(&path) } else { read(&path) }).collect()
}

fn is_test(path: &Path) -> bool {
    path.file_stem().is_some_and(|name| name.to_string_lossy().ends_with("tests"))
}

/// Every async method of a client, a producer and a worker is run by the scenarios, under its own name.
#[test]
fn every_async_method_is_run_by_the_scenarios() {
    for client in CLIENTS {
        let scenarios = read_all(&root().join(client).join("tests/scenarios"));
        let (mut found, mut missing) = (0, Vec::new());
        for (path, code) in sources(&format!("{client}/src/asynchronous")) {
            // The events and the handlers of workers are not called by name.
            for method in code.split("    pub async fn ").skip(1) {
                let name = method.split(['(', '<']).next().unwrap();
                found += 1;
                let calls = [format!(".{name}("), format!("::{name}("), format!("fn {name}(")];
                if !calls.iter().any(|call| scenarios.contains(call)) {
                    missing.push(format!("{}: {name}", path.display()));
                }
            }
        }
        assert!(missing.is_empty(), "in no scenario: {missing:#?}");
        assert!(found > 20, "only {found} methods of {client} were found");
    }
}

/// The packages that a build of the client alone pulls in.
fn tree(client: &str, features: &str) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--edges", "normal", "--prefix", "none", "--no-default-features"])
        .args(["--offline", "--locked", "--package", client, "--features", features])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter_map(|line| Some(line.split(' ').next()?.to_owned())).collect()
}

#[test]
fn a_blocking_build_has_no_runtime_in_its_tree() {
    for client in CLIENTS {
        for features in ["blocking", "blocking-tls"] {
            let mut tree = tree(client, features);
            tree.retain(|name| ["tokio", "mio", "futures"].iter().any(|part| name.contains(part)));
            assert!(tree.is_empty(), "{client} with {features}: {tree:?}");
        }
        assert!(tree(client, "tokio").contains("tokio"), "{client}");
    }
}

/// S21. That of Adf.QueueServer is made of WebSocket, HTTP and JSON, which are libraries.
#[test]
fn the_protocol_alone_needs_bytes_and_nothing_else() {
    for client in ["beanstalk-client", "gearman-client"] {
        let expected = [client, "bytes", "queue-toolkit-core"].map(String::from);
        assert_eq!(tree(client, ""), expected.into());
    }
}

/// The protocol does no input or output, reads no clock and knows no runtime.
#[test]
fn the_protocols_do_no_input_or_output() {
    // Moments come in as arguments; nothing reads a clock.
    let words = [
        "std::net",
        "std::io",
        "tokio::",
        "Instant::now",
        "SystemTime::now",
        "thread::",
        "std::fs",
    ];
    for client in CLIENTS {
        let sources = sources(&format!("{client}/src/protocol"));
        assert!(sources.len() > 10, "only {} files of {client} were found", sources.len());
        for (path, code) in sources {
            // The reason of a loss comes in as an error; the library for WebSocket reads from and writes to a buffer.
            let code = code.replace("std::io::Error", "").replace("std::io::Cursor", "");
            for word in words {
                assert!(!code.contains(word), "{} has {word}", path.display());
            }
        }
    }
}

/// C16: the async faces take time from the runtime and choose nothing at random by themselves, so that a simulation can
/// run them again and get the same.
#[test]
fn the_async_faces_are_deterministic() {
    let folders = CLIENTS.into_iter().chain(["queue-core"]).map(|package| format!("{package}/src"));
    let sources: Vec<_> = folders.flat_map(|folder| sources(&folder)).collect();
    assert!(sources.len() > 150, "only {} files were found", sources.len());
    for (path, code) in sources {
        if path.iter().any(|part| part == "blocking") {
            continue;
        }
        let name = path.display();
        assert!(!code.contains("SystemTime::now"), "{name} reads the wall clock");
        let own_clock = code.contains("Instant::now()") && !code.contains("use tokio");
        assert!(!own_clock || path.ends_with("clock.rs"), "{name} reads the clock");
        for choice in code.split("select! {").skip(1) {
            assert!(choice.trim_start().starts_with("biased;"), "{name} selects at random");
        }
    }
}

/// The libraries compile on the Rust version that they declare. What the standard library got later is found by clippy
/// (`incompatible_msrv`), and what the language got later is found here, both without that compiler.
#[test]
fn the_libraries_use_no_later_syntax_than_they_declare() {
    let manifest = read(&root().join("Cargo.toml"));
    assert!(
        manifest.contains("rust-version = \"1.88\""),
        "look at what came since, and correct this test"
    );
    let guard =
        "match x { Some(1..=3) if let Some(n) = y => n, S { a } if let 0 = a => a, _ => 0 }";
    assert_eq!(later_syntax(guard.parse().unwrap()).len(), 2);
    let older = "if let Some(n) = y { [n; 2] } else if let S { a } = x && let 1 = a { match a { 0 => {} } }";
    assert_eq!(later_syntax(older.parse().unwrap()), [""; 0]);
    let of_1_89 = "let n: [u8; _] = [0; 2]; cfg_select! { unix => {} }";
    assert_eq!(later_syntax(of_1_89.parse().unwrap()).len(), 2);

    let entries = std::fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().path());
    let declares = |package: &PathBuf| {
        let manifest = std::fs::read_to_string(package.join("Cargo.toml")).unwrap_or_default();
        manifest.contains("rust-version.workspace = true") && package.join("src").is_dir()
    };
    let packages: Vec<_> = entries.filter(declares).collect();
    assert!(packages.len() > 6, "{packages:?}");
    for package in packages {
        for (path, text) in files(&package.join("src")) {
            let found = later_syntax(text.parse().unwrap());
            assert!(found.is_empty(), "{}: {found:?}", path.display());
        }
    }
}

/// What came after Rust 1.88: `if let` as a guard, an inferred length of an array, and macros.
fn later_syntax(code: TokenStream) -> Vec<String> {
    let tokens: Vec<TokenTree> = code.into_iter().collect();
    let is = |token: Option<&TokenTree>, text: &str| {
        token.is_some_and(|token| token.to_string() == text)
    };
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let next = tokens.get(at + 1);
        match token {
            TokenTree::Ident(name) if name == "if" && is(next, "let") => {
                let equals = tokens[at..].iter().position(|token| is_single(token, '='));
                // A condition ends with its block, and a guard with an arrow.
                let rest = &tokens[at + equals.unwrap_or_default()..];
                let block = rest.iter().position(is_block);
                let arrow = rest.windows(2).position(|pair| {
                    matches!(pair, [TokenTree::Punct(one), TokenTree::Punct(two)]
                        if (one.as_char(), two.as_char(), one.spacing()) == ('=', '>', Spacing::Joint))
                });
                let is_guard = arrow.is_some_and(|arrow| block.is_none_or(|block| arrow < block));
                if is_guard {
                    let guard = tokens[at..].iter().take(6).map(ToString::to_string);
                    found.push(guard.collect::<Vec<_>>().join(" "));
                }
            }
            TokenTree::Ident(name) if is(next, "!") => {
                let name = name.to_string();
                if ["assert_matches", "cfg_select", "debug_assert_matches"].contains(&&*name) {
                    found.push(name);
                }
            }
            TokenTree::Group(group) => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                let is_array = group.delimiter() == Delimiter::Bracket;
                if let [.., semicolon, length] = inner.as_slice()
                    && is_array
                    && is(Some(semicolon), ";")
                    && is(Some(length), "_")
                {
                    found.push(group.to_string());
                }
                found.extend(later_syntax(group.stream()));
            }
            _ => {}
        }
    }
    found
}

fn is_single(token: &TokenTree, sign: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == sign && punct.spacing() == Spacing::Alone)
}

fn is_block(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
}
