//! The commands that the guide shows are commands of the tool.

use crate::tool::Tool;
use crate::tool::cli;

/// Parses every command of the guide that begins with the tool's name, in a `console` block or in a table. Nothing is run.
pub fn every_command_of_the_guide_can_be_typed<T: Tool>() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/guide/src");
    let Ok(pages) = std::fs::read_dir(folder) else {
        // The crate was taken out of the workspace.
        return;
    };
    let (mut typed, mut wrong) = (0, String::new());
    for page in pages {
        let page = page.unwrap().path();
        for line in commands(&std::fs::read_to_string(&page).unwrap()) {
            let mut words = words(line);
            if words.first().is_none_or(|first| first != T::PROGRAM.name) {
                continue;
            }
            typed += 1;
            // In prose, the name of a command without what it needs.
            words.extend((words.len() == 2).then(|| "--help".to_owned()));
            if let Err(error) = cli::parse::<T>(&words)
                && error.kind() != clap::error::ErrorKind::DisplayHelp
            {
                wrong += &format!("{}: {line}\n{error}\n", page.display());
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(typed >= 3, "{typed}");
}

/// The lines behind a prompt, and what stands between backticks with a space in it.
fn commands(page: &str) -> impl Iterator<Item = &str> {
    page.lines().flat_map(|line| {
        let quoted = line.split('`').skip(1).step_by(2).filter(|code| code.contains(' '));
        let prompted = line.trim_start().strip_prefix("$ ");
        quoted.filter(move |_| prompted.is_none()).chain(prompted)
    })
}

/// The words of the first command of a shell line, without redirections and what follows them.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut quote) = (vec![String::new()], None);
    for c in line.chars() {
        let word = words.last_mut().unwrap();
        match (c, quote) {
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            ('|' | '<' | '>' | '&' | ';' | '#', None) => break,
            (' ', None) => words.push(String::new()),
            _ => word.push(c),
        }
    }
    let is_empty_argument = line.ends_with("''");
    words.retain(|word| !word.is_empty());
    words.extend(is_empty_argument.then(String::new));
    words
}
