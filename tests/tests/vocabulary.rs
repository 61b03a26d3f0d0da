//! The three tools speak one language: a flag, its letter and its value mean the same everywhere. The grammars
//! themselves are compared; what may differ is listed with the reason.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::collections::{BTreeMap, BTreeSet};

use clap::{Arg, Command};
use ctl_core::context::Tool;
use ctl_core::tool::cli;

/// Flags of a shared command that mean something else in one of the tools.
const OTHER_MEANINGS: &[(&str, &str, &str)] = &[
    ("", "server", "each protocol has its own addresses"),
    ("", "tls", "each protocol has its own scheme"),
];

/// Flags that have another letter or another kind of value in some command.
const OTHER_FORMS: &[(&str, &str)] = &[
    ("rate", "a benchmark counts operations per second, and other commands any rate"),
    ("to", "drain writes to a file, move to a queue, and tap to a server"),
    ("unique", "- derives the id from the workload where jobs are submitted"),
];

/// Letters that stand for several flags.
const OTHER_LETTERS: &[(char, &str)] = &[
    ('c', "check has -c for critical, as monitoring plugins have"),
    ('p', "beanstalkd's priorities are numbers, and gearmand's are words"),
];

/// A flag of a command.
struct Flag {
    tool: &'static str,
    /// The command's path; empty for the flags of all commands.
    command: String,
    long: String,
    letter: Option<char>,
    /// The name of its value; empty for a switch.
    value: String,
    about: String,
}

/// The words for a queue and for a job, as far as they are a tool's own.
fn neutral(text: &str) -> String {
    let mut text = text.to_owned();
    for (own, common) in [
        ("FUNCTION", "QUEUE"),
        ("TUBE", "QUEUE"),
        ("function", "queue"),
        ("tube", "queue"),
        ("message", "job"),
        ("submitted", "put"),
        ("pushed", "put"),
    ] {
        text = text.replace(own, common);
    }
    // Examples name the fields of the protocol.
    let end = [", e.g. ", " [default"].iter().filter_map(|example| text.find(example)).min();
    text.truncate(end.unwrap_or(text.len()));
    text
}

fn add(tool: &'static str, command: &Command, path: &str, flags: &mut Vec<Flag>) {
    for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
        let Some(long) = arg.get_long() else { continue };
        let text = |arg: &Arg| arg.get_help().map(ToString::to_string).unwrap_or_default();
        let names = arg.get_value_names().filter(|_| arg.get_action().takes_values());
        flags.push(Flag {
            tool,
            command: path.to_owned(),
            long: long.to_owned(),
            letter: arg.get_short(),
            value: neutral(&names.map(|names| names.join(" ")).unwrap_or_default()),
            about: neutral(&text(arg)),
        });
    }
    for inner in command.get_subcommands() {
        add(tool, inner, format!("{path} {}", inner.get_name()).trim_start(), flags);
    }
}

fn flags() -> Vec<Flag> {
    fn of<T: Tool>(flags: &mut Vec<Flag>) {
        add(T::PROGRAM.name, &cli::tree::<T>(), "", flags);
    }
    let mut flags = Vec::new();
    of::<bsctl::Bsctl>(&mut flags);
    of::<gearctl::Gearctl>(&mut flags);
    of::<adfctl::Adfctl>(&mut flags);
    flags
}

/// Groups flags by a key, and checks that those with several forms are exactly those that may have them.
fn differ<K, F>(allowed: impl IntoIterator<Item = K>, all: impl IntoIterator<Item = (K, F, String)>)
where
    K: Ord + Clone + std::fmt::Debug,
    F: Ord + std::fmt::Debug,
{
    let mut forms: BTreeMap<K, BTreeMap<F, BTreeSet<String>>> = BTreeMap::new();
    for (key, form, place) in all {
        forms.entry(key).or_default().entry(form).or_default().insert(place);
    }
    forms.retain(|_, forms| forms.len() > 1);
    let allowed: BTreeSet<K> = allowed.into_iter().collect();
    let found: BTreeSet<K> = forms.keys().cloned().collect();
    forms.retain(|key, _| !allowed.contains(key));
    assert!(forms.is_empty(), "differ: {forms:#?}");
    let settled: Vec<&K> = allowed.difference(&found).collect();
    assert!(settled.is_empty(), "no longer differ: {settled:?}");
}

#[test]
fn a_flag_of_a_shared_command_means_the_same_in_every_tool() {
    let allowed =
        OTHER_MEANINGS.iter().map(|(command, flag, _)| (command.to_string(), flag.to_string()));
    differ(
        allowed,
        flags().into_iter().map(|flag| {
            ((flag.command, flag.long), (flag.letter, flag.value, flag.about), flag.tool.to_owned())
        }),
    );
}

#[test]
fn a_flag_has_one_letter_and_one_kind_of_value() {
    let place = |flag: &Flag| format!("{} {}", flag.tool, flag.command);
    let all = flags().into_iter().map(|flag| {
        let place = place(&flag);
        // Patterns choose several queues.
        let value = flag.value.replace("GLOB", "QUEUE");
        (flag.long, (flag.letter, value), place)
    });
    differ(OTHER_FORMS.iter().map(|(flag, _)| flag.to_string()), all);
}

#[test]
fn count_is_one_flag_in_every_tool() {
    let says = |about: &str| {
        let about = format!("{} ", about.to_lowercase());
        ["at most n ", "up to n ", "after n "].iter().any(|how| about.contains(how))
    };
    let (mut counted, mut bulk) = (BTreeSet::new(), BTreeSet::new());
    for Flag { tool, command, long, about, .. } in flags() {
        assert!(!says(&about) || long == "count", "{tool} {command} --{long} says how many");
        match &*long {
            "count" => counted.insert((tool, command)),
            "on-error" => bulk.insert((tool, command)),
            _ => continue,
        };
    }
    let without: Vec<_> = bulk.difference(&counted).collect();
    assert!(without.is_empty(), "bulk commands without --count: {without:?}");
    assert!(counted.contains(&("gearctl", "cancel".to_owned())), "{counted:?}");
}

#[test]
fn a_short_flag_means_one_flag() {
    let all = flags().into_iter().filter_map(|flag| {
        Some((flag.letter?, flag.long, format!("{} {}", flag.tool, flag.command)))
    });
    differ(OTHER_LETTERS.iter().map(|(letter, _)| *letter), all);
}
