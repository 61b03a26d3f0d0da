//! The grammar of the command line and of a session.

use clap::{Arg, Args as _, Command};
use ctl_core::context::command::Mark;
use ctl_core::help::visible;
use ctl_core::link::ServerArgs;
use ctl_core::repl::guest::Interactive;
use ctl_core::repl::help::Group;
use ctl_core::repl::tree;
use ctl_core::rules::preset;
use ctl_core::tool::cli;

/// The ids of a name as an argument and as a flag.
const PLACE: &str = "named";
const FLAG: &str = "named-by-flag";

/// How help calls an argument's value.
fn value_name(arg: &Arg) -> &str {
    let names = arg.get_value_names().and_then(|names| names.first());
    names.map_or_else(|| arg.get_id().as_str(), |name| name.as_str())
}

/// The main help lists every command exactly once.
pub fn every_command_is_in_exactly_one_group<T: Interactive>() {
    let groups = (T::PROGRAM.groups)();
    let mut grouped: Vec<&str> = groups.iter().flat_map(|(_, names)| names.clone()).collect();
    grouped.sort_unstable();
    let tree = cli::tree::<T>();
    let mut all: Vec<&str> = visible(&tree).map(Command::get_name).collect();
    all.sort_unstable();
    assert_eq!(grouped, all);
}

/// The flag that hints name exists.
pub fn hints_name_an_existing_server_flag<T: Interactive>() {
    let servers = T::PROGRAM.servers;
    let known = ServerArgs::augment_args(Command::new("connect"));
    let long = servers.flag.trim_start_matches('-');
    let flag = known.get_arguments().find(|flag| flag.get_long() == Some(long)).unwrap();
    let letters = flag.get_short_and_visible_aliases().unwrap_or_default();
    let mut letters = letters.into_iter().map(|letter| format!("-{letter}"));
    assert!(letters.any(|letter| letter == servers.short), "{}", servers.short);
}

/// A name is accepted both as an argument and as a flag.
pub fn accepts_a_queue_by_position_and_by_flag<T: Interactive>() {
    for tree in [cli::tree::<T>(), tree::grammar::<T>()] {
        let mut commands = Vec::new();
        all_below(&tree, &mut commands);
        let mut flags = commands.iter().flat_map(|command| command.get_arguments());
        let flag = flags.find(|arg| arg.get_id() == FLAG && value_name(arg) != "GLOB");
        let flag = flag.expect("some command takes a name");
        let (letter, name) = (flag.get_short().unwrap(), value_name(flag).to_owned());
        for command in commands {
            let has = |id: &str| command.get_arguments().any(|arg| arg.get_id() == id);
            let words: Vec<&str> = command.get_positionals().map(value_name).collect();
            let is_positional = words.contains(&name.as_str());
            // A hidden one only says what to type instead.
            let is_flag = command.get_arguments().any(|arg| {
                arg.get_short() == Some(letter)
                    && !arg.is_hide_set()
                    && [name.as_str(), "GLOB"].contains(&value_name(arg))
            });
            assert_eq!(
                is_positional,
                has(PLACE) && !words.contains(&"GLOB"),
                "{}",
                command.get_name()
            );
            assert!(!is_positional || is_flag, "{} takes no -{letter}", command.get_name());
            // Where the position is used by something else, only the flag works.
            let is_taken = ["BODY", "FILE", "ID", "MODE"]
                .iter()
                .any(|other| words.iter().any(|word| word.starts_with(other)));
            assert!(
                !is_flag || has(PLACE) || is_taken,
                "{} takes no {name} by place",
                command.get_name()
            );
        }
    }
}

fn all_below<'t>(tree: &'t Command, found: &mut Vec<&'t Command>) {
    for command in tree.get_subcommands() {
        found.push(command);
        all_below(command, found);
    }
}

/// `help` of a session lists every verb once, and no others.
pub fn every_session_command_is_in_exactly_one_group<T: Interactive>() {
    let grammar = tree::grammar::<T>();
    let groups = tree::groups::<T>(&grammar);
    let mut names: Vec<String> = groups.iter().map(Group::name).collect();
    let mut grouped: Vec<&str> = groups.into_iter().flat_map(|group| group.verbs).collect();
    grouped.sort_unstable();
    let is_short = |verb: &String| grammar.find_subcommand(verb).is_some_and(preset::is_short);
    let mut verbs = tree::visible(&grammar);
    verbs.retain(|verb| !is_short(verb));
    verbs.sort_unstable();
    assert_eq!(grouped, verbs);
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "two groups are called the same: {names:?}");
    // Verbs named elsewhere exist.
    let known = |name: &&str| grammar.find_subcommand(name).is_some();
    for names in [T::WORDS.reads, T::WORDS.renames] {
        let unknown: Vec<&&str> = names.iter().filter(|name| !known(name)).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }
}

/// A session has no nested session, and no `docs`.
pub fn session_omits_commands_that_make_no_sense_there<T: Interactive>() {
    let names = tree::visible(&tree::grammar::<T>());
    let left_out =
        ["repl", "serve", "bench", "exporter", "context", "completions", "complete", "docs"];
    let rows = T::COMMANDS.iter().flat_map(|(_, rows)| *rows);
    let absent = rows.filter(|row| row.marks.contains(&Mark::Absent));
    for name in left_out.iter().chain(absent.map(|row| &row.name)) {
        assert!(!names.iter().any(|other| other == name), "{name}");
    }
}

/// No verb appears twice.
pub fn session_commands_appear_once<T: Interactive>() {
    let mut names = tree::visible(&tree::grammar::<T>());
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}
