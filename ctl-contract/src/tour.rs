//! The tour of a README does what it shows.

use std::path::Path;
use std::process::{Command, Stdio};

use ctl_core::context::Tool;

use crate::Case;
use crate::program::ended;

/// Runs every command of the `console` blocks below this heading of a README, in its own directory, against an
/// in-memory server that replaces the one at `shown`. Their output has to match the README except for times and ids.
pub fn readme_tour_matches_the_output<T: Tool>(
    case: &Case<T>,
    (readme, heading): (&str, &str),
    shown: &str,
) {
    let text = std::fs::read_to_string(readme).unwrap();
    let (_server, address) = Case::<T>::server();
    let folder = tempfile::tempdir().unwrap();
    let programs = Path::new(case.program.path).parent().unwrap().to_str().unwrap();
    let path = format!("{programs}:{}", std::env::var("PATH").unwrap_or_default());
    let steps = steps(&text, heading);
    assert!(steps.len() > 3, "{heading}: {steps:?}");
    for (line, expected) in steps {
        let mut command = Command::new("sh");
        // As on a terminal: one after the other, with tables.
        command.args(["-c", &format!("exec 2>&1\n{}", line.replace(shown, &address))]);
        command.current_dir(&folder).env("PATH", &path);
        command.env(format!("{}_SERVER", case.program.prefix), &address);
        command.env(format!("{}_OUTPUT", case.program.prefix), "table");
        command.env(format!("{}_TIMEOUT", case.program.prefix), "60s");
        command.env(format!("{}_PROGRESS", case.program.prefix), "never");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let ran = ended(command.spawn().unwrap());
        let said = unstamped(&ran.out().replace(&address, shown));
        assert_eq!(likened(&said), likened(&expected), "{line}: {said}");
    }
}

/// The commands below a heading, each with its output.
fn steps(readme: &str, heading: &str) -> Vec<(String, String)> {
    let below = readme.lines().skip_while(|line| *line != heading).skip(1);
    let mut is_console = false;
    let mut steps: Vec<(String, String)> = Vec::new();
    for line in below.take_while(|line| !line.starts_with("## ")) {
        if line.starts_with("```") {
            is_console = line == "```console";
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| is_console) {
            steps.push((command.to_owned(), String::new()));
        } else if let Some((_, shown)) = steps.last_mut().filter(|_| is_console) {
            *shown += line;
            *shown += "\n";
        }
    }
    steps
}

/// Removes the timestamps that lines have when stderr is not a terminal.
fn unstamped(text: &str) -> String {
    let bare = |line: &str| match line.split_once("Z ") {
        Some((time, rest)) if humantime::parse_rfc3339(&format!("{time}Z")).is_ok() => {
            rest.to_owned()
        }
        _ => line.to_owned(),
    };
    text.split_inclusive('\n').map(bare).collect()
}

/// Replaces times and ids, which differ in each run.
fn likened(text: &str) -> String {
    let mut likened = String::new();
    for word in text.split_inclusive(|c: char| !c.is_ascii_alphanumeric() && c != '.') {
        let end = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        let is_id = end.len() == 32 && end.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = end.trim_end_matches(['n', 'u', 'm', 's']);
        let is_time = number.len() < end.len()
            && end.ends_with('s')
            && number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
            && !number.is_empty();
        match (is_id, is_time) {
            (true, _) => likened += "ID",
            (_, true) => likened += "TIME",
            _ => likened += end,
        }
        likened += &word[end.len()..];
    }
    // A busy machine takes `1s 5ms`.
    likened.replace("TIME TIME", "TIME")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_commands_below_the_heading_only() {
        let readme = "## Other\n```console\n$ no\n```\n## Tour\nText $ no\n```console\n$ a | b\none\n\ntwo\n$ c\n```\n$ no\n```rust\n$ no\n```\n## Next\n```console\n$ no\n```\n";
        let expected = [("a | b", "one\n\ntwo\n"), ("c", "")];
        assert_eq!(
            steps(readme, "## Tour"),
            expected.map(|(line, shown)| (line.to_owned(), shown.to_owned()))
        );
    }

    #[test]
    fn masks_only_times_and_ids() {
        let id = "3cafb218cb7845a3ac8adacc5618245f";
        let said = format!("pushed 2 messages in 1s 15ms, 1.5s: /mail {id}: 7\n");
        assert_eq!(likened(&said), "pushed 2 messages in TIME, TIME: /mail ID: 7\n");
        assert_eq!(unstamped("2026-11-23T07:16:41.922Z taking\nA-Z x\n"), "taking\nA-Z x\n");
    }
}
