//! A command of a tool as a row of its table: its name, arguments, effect, help and code in one place.

use clap::error::ErrorKind;
use clap::{ArgMatches, Command, FromArgMatches, Subcommand};

use super::{Context, Effect, Tool, grammar, repeat};
use crate::config::keys::{self, Key};
use crate::error::{CliError, Exit};
use crate::help;
use crate::program::Program;
use crate::rules::preset::{self, Preset};

/// The commands of a tool, in the groups and the order of its help: see [`commands!`](crate::commands!).
pub type Table<T> = &'static [(&'static str, &'static [Row<T>])];

/// A command of a tool.
pub struct Row<T: Tool> {
    /// Its name.
    pub name: &'static str,
    /// Its other names.
    pub aliases: &'static [&'static str],
    /// What it does, in a line, and the words of the protocol that it sends.
    pub about: &'static str,
    /// The end of its help.
    pub help: &'static str,
    /// Words that are short for it with some of its arguments.
    pub presets: &'static [Preset],
    /// What sets it apart.
    pub marks: &'static [Mark],
    /// Its arguments.
    pub arguments: fn(Command) -> Command,
    /// Reads the arguments of a line.
    pub read: fn(&ArgMatches) -> Result<Ready<T>, clap::Error>,
}

/// What sets a command apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// Sessions do not have it.
    Absent,
    /// A listing: where it only looks, sessions repeat it after a lost connection, and the command line at an interval.
    Repeats,
    /// The server's names may be others after it.
    Renames,
    /// It is kept out of the history file.
    Secret,
    /// It works with an invalid configuration file.
    Unconfigured,
    /// Only programs call it.
    Hidden,
}

impl<T: Tool> Row<T> {
    /// Reads the arguments of a line, how it is sorted, and whether it repeats.
    pub(crate) fn ready(&'static self, matches: &ArgMatches) -> Result<Ready<T>, clap::Error> {
        let mut ready = (self.read)(matches)?;
        ready.needs_settings = !self.has(Mark::Unconfigured);
        if !self.has(Mark::Repeats) {
            return Ok(ready);
        }
        if let Some(every) = matches.get_one(repeat::FLAG).copied() {
            let (reads_only, matches) = (ready.effect.reads_only(), matches.clone());
            ready.run = Box::new(move |context| {
                if !reads_only {
                    return Err(CliError::usage("--interval repeats only what changes nothing"));
                }
                repeat::run(context, self.name, every, |context| {
                    let again = (self.read)(&matches);
                    again.map_err(|error| CliError::internal(error.to_string()))?.run(context)
                })
            });
        }
        if let Some(column) = matches.get_one(repeat::SORT).cloned() {
            let run = ready.run;
            ready.run = Box::new(move |context| {
                context.out.style.sort_by = Some(column);
                run(context)
            });
        }
        Ok(ready)
    }

    /// Its grammar with all that help says; `text` has the last word on texts.
    fn described(&self, command: Command, text: impl Fn(&str) -> String) -> Command {
        let command =
            command.args(self.has(Mark::Repeats).then(repeat::flags).into_iter().flatten());
        let command = command.hide(self.has(Mark::Hidden)).about(text(self.about));
        let mut help = text(self.help);
        if !self.presets.is_empty() {
            let short = self.presets.iter().map(|(word, words)| format!("\n  {word} = {words}"));
            help = format!("{help}\n\nAliases:{}", short.collect::<String>());
        }
        let command = command.visible_aliases(self.aliases);
        if help.is_empty() { command } else { command.after_help(help) }
    }

    /// Whether this sets it apart.
    pub(crate) fn has(&self, mark: Mark) -> bool {
        self.marks.contains(&mark)
    }
}

type Run<T> = dyn FnOnce(&mut Context<T>) -> Result<Exit, CliError>;

/// A command with its arguments.
pub struct Ready<T: Tool> {
    effect: Effect,
    needs_settings: bool,
    run: Box<Run<T>>,
}

impl<T: Tool> Ready<T> {
    /// Reads the arguments of a command that has this effect and runs like this.
    ///
    /// # Errors
    /// The line does not have these arguments.
    pub fn new<A: FromArgMatches + 'static>(
        matches: &ArgMatches,
        effect: fn(&A) -> Effect,
        run: fn(&mut Context<T>, A) -> Result<Exit, CliError>,
    ) -> Result<Self, clap::Error> {
        let args = A::from_arg_matches(matches)?;
        let effect = effect(&args);
        let run = Box::new(move |context: &mut Context<T>| run(context, args));
        Ok(Self { effect, needs_settings: true, run })
    }

    /// Its effect.
    pub fn effect(&self) -> Effect {
        self.effect
    }

    /// Whether an invalid configuration file stops it.
    pub(crate) fn needs_settings(&self) -> bool {
        self.needs_settings
    }

    /// Runs it.
    ///
    /// # Errors
    /// Why the command failed.
    pub fn run(self, context: &mut Context<T>) -> Result<Exit, CliError> {
        (self.run)(context)
    }
}

/// Makes the [`Table`] of a tool, as a constant. A row has a command's names and arguments, what runs it, its effect,
/// the end of its help, what sets it apart, and what it does:
///
/// ```text
/// "Produce" {
///     "put" | "add" (put::PutArgs) = put::run, Creates, put::HELP, [Renames], "Put jobs into a tube (put)";
/// }
/// ```
///
/// An effect may depend on the arguments: `Creates if PullArgs::gives_back, else Destroys`. At the end of a row, words
/// that are short for the command with some of its arguments may follow: `+ "retry" = "--all --state buried"`, or
/// `+ "resume" = "... 0"` where the arguments of a line go before a preset one; `$1` stands for the first of them.
#[macro_export]
macro_rules! commands {
    ($($group:literal { $($name:literal $(| $alias:literal)* ($args:ty) = $run:expr,
        $effect:ident $(if $condition:path, else $otherwise:ident)?, $help:expr, [$($mark:ident),*], $about:literal
        $(+ $short:literal = $preset:literal)*;)* })*) => {
        &[$(($group, &[$($crate::context::command::Row {
            name: $name,
            aliases: &[$($alias),*],
            about: $about,
            help: $help,
            presets: &[$(($short, concat!($name, " ", $preset))),*],
            marks: &[$($crate::context::command::Mark::$mark),*],
            arguments: <$args as ::clap::Args>::augment_args,
            read: |matches| {
                let effect = |_args: &$args| {
                    $(if !$condition(_args) { return $crate::context::Effect::$otherwise; })?
                    $crate::context::Effect::$effect
                };
                $crate::context::command::Ready::new::<$args>(matches, effect, $run)
            },
        }),*])),*]
    };
}

impl<T: Tool> FromArgMatches for Ready<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let named = matches.subcommand().and_then(|(name, args)| Some((named::<T>(name)?, args)));
        let (row, args) = named.ok_or_else(|| clap::Error::new(ErrorKind::MissingSubcommand))?;
        row.ready(args)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<T: Tool> Subcommand for Ready<T> {
    fn augment_subcommands(tree: Command) -> Command {
        let presets = all::<T>().flat_map(|row| row.presets);
        tree.subcommands(grammars::<T>().chain(short(presets)))
    }

    fn augment_subcommands_for_update(tree: Command) -> Command {
        Self::augment_subcommands(tree)
    }

    fn has_subcommand(name: &str) -> bool {
        named::<T>(name).is_some()
    }
}

/// The tool's own commands, and those of every tool.
fn all<T: Tool>() -> impl Iterator<Item = &'static Row<T>> {
    T::COMMANDS.iter().chain(T::KIT).flat_map(|(_, rows)| *rows)
}

/// The command of this name.
pub(crate) fn named<T: Tool>(name: &str) -> Option<&'static Row<T>> {
    all::<T>().find(|row| row.name == name)
}

/// Whether a line has a command of the tool that changes nothing with these arguments.
pub(crate) fn only_reads<T: Tool>(line: &ArgMatches) -> bool {
    let read = |(name, matches)| (named::<T>(name)?.read)(matches).ok();
    line.subcommand().and_then(read).is_some_and(|ready| ready.effect().reads_only())
}

/// The names of the commands in groups; groups with the same title are one.
pub fn groups<T: Tool>() -> Vec<(&'static str, Vec<&'static str>)> {
    let mut groups: Vec<(_, Vec<_>)> = Vec::new();
    for (title, rows) in T::COMMANDS.iter().chain(T::KIT) {
        let names = rows.iter().filter(|row| !row.has(Mark::Hidden)).map(|row| row.name);
        match groups.iter_mut().find(|(known, _)| known == title) {
            Some((_, known)) => known.extend(names),
            None => groups.push((*title, names.collect())),
        }
    }
    groups
}

/// The grammars of those commands that the line may name.
fn grammars<T: Tool>() -> impl Iterator<Item = Command> {
    let is_named = |row: &&Row<T>| {
        let short = row.presets.iter().map(|(word, _)| *word);
        grammar::is_named(row.name, row.aliases.iter().copied().chain(short))
    };
    let rows = |table: Table<T>| table.iter().flat_map(|(_, rows)| *rows).filter(is_named);
    let own = rows(T::COMMANDS).map(|row| {
        let command = grammar::with_arguments(Command::new(row.name), row.arguments);
        row.described(command, str::to_owned)
    });
    own.chain(rows(T::KIT).map(|row| {
        let command = (row.arguments)(Command::new(row.name));
        row.described(command, |text| filled(text, &T::PROGRAM))
    }))
}

/// A text of a command of every tool, with the words and settings of this one.
fn filled(text: &str, program: &Program) -> String {
    let filled = help::filled(text, program);
    if !filled.contains("{keys}") {
        return filled;
    }
    let key = |key: Key| format!("  {:<16} {}", key.shown(program), key.form(program));
    filled.replace("{keys}", &keys::all(program).map(key).collect::<Vec<_>>().join("\n"))
}

/// The grammars of those short words that the line may name.
fn short<'p>(presets: impl IntoIterator<Item = &'p Preset>) -> impl Iterator<Item = Command> {
    let named = presets.into_iter().filter(|(word, _)| grammar::is_named(word, [].into_iter()));
    named.copied().map(preset::grammar)
}
