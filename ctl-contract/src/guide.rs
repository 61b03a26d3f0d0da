//! Every command in the documents parses.

use std::path::Path;

use ctl_core::context::Tool;
use ctl_core::tool::cli;

use crate::lines::commands;

/// Parses every command of the guide, the other documents, the project's README and the tool's that begins with the
/// tool's name, in a `console` block or a table. Runs nothing.
pub fn guide_commands_parse<T: Tool>() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let Ok(pages) = project.join("docs/guide/src").read_dir() else {
        // The crate was removed from the workspace.
        return;
    };
    let (mut typed, mut wrong) = (0, String::new());
    let pages = pages.map(|page| page.unwrap().path());
    let own = format!("{}/README.md", T::PROGRAM.name);
    let others =
        ["README.md", &own, "docs/envelopes.md", "docs/monitoring/README.md", "docs/records.md"];
    for page in pages.chain(others.map(|page| project.join(page))) {
        let text = std::fs::read_to_string(&page).unwrap();
        let commands = shown(&text)
            .flat_map(|line| commands(line).into_iter().map(move |words| (line, words)));
        for (line, mut words) in commands {
            if words.first().is_none_or(|first| first != T::PROGRAM.name) {
                continue;
            }
            typed += 1;
            // Prose may name a command without its required arguments.
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

/// The lines behind a prompt, and backticked text with a space in it.
fn shown(page: &str) -> impl Iterator<Item = &str> {
    page.lines().flat_map(|line| {
        let quoted = line.split('`').skip(1).step_by(2).filter(|code| code.contains(' '));
        let prompted = line.trim_start().strip_prefix("$ ");
        quoted.filter(move |_| prompted.is_none()).chain(prompted)
    })
}
