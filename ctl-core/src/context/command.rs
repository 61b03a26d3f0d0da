//! A command of a tool as a row of its table: its name, arguments, effect, help and code in one place.

use clap::{ArgMatches, Command, FromArgMatches};

use super::{Context, Effect, Tool, grammar, repeat};
use crate::error::{CliError, Exit};
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
    /// What sessions know of it.
    pub in_session: &'static [InSession],
    /// Its arguments.
    pub arguments: fn(Command) -> Command,
    /// Reads the arguments of a line.
    pub read: fn(&ArgMatches) -> Result<Ready<T>, clap::Error>,
}

/// What sessions know of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InSession {
    /// Sessions do not have it.
    Absent,
    /// Where it only looks, sessions repeat it after a lost connection, and the command line at an interval.
    Repeats,
    /// The server's names may be others after it.
    Renames,
    /// It is kept out of the history file.
    Secret,
}

impl<T: Tool> Row<T> {
    /// Reads the arguments of a line, and whether it repeats.
    pub(crate) fn ready(&'static self, matches: &ArgMatches) -> Result<Ready<T>, clap::Error> {
        let ready = (self.read)(matches)?;
        let Some(every) = self.repeats().then(|| repeat::interval(matches)).flatten() else {
            return Ok(ready);
        };
        if !ready.effect.reads_only() {
            let refuse = |_: &mut Context<T>| {
                Err(CliError::usage("--interval repeats only what changes nothing"))
            };
            return Ok(Ready { run: Box::new(refuse), ..ready });
        }
        let matches = matches.clone();
        let run = move |context: &mut Context<T>| {
            repeat::run(context, self.name, every, || (self.read)(&matches))
        };
        Ok(Ready { run: Box::new(run), ..ready })
    }

    fn repeats(&self) -> bool {
        self.in_session.contains(&InSession::Repeats)
    }
}

type Run<T> = dyn FnOnce(&mut Context<T>) -> Result<Exit, CliError>;

/// A command with its arguments.
pub struct Ready<T: Tool> {
    effect: Effect,
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
        Ok(Self { effect: effect(&args), run: Box::new(move |context| run(context, args)) })
    }

    /// Its effect.
    #[must_use]
    pub fn effect(&self) -> Effect {
        self.effect
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
/// the end of its help, what sessions know of it, and what it does:
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
        $effect:ident $(if $condition:path, else $otherwise:ident)?, $help:expr, [$($known:ident),*], $about:literal
        $(+ $short:literal = $preset:literal)*;)* })*) => {
        &[$(($group, &[$($crate::context::command::Row {
            name: $name,
            aliases: &[$($alias),*],
            about: $about,
            help: $help,
            presets: &[$(($short, concat!($name, " ", $preset))),*],
            in_session: &[$($crate::context::command::InSession::$known),*],
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

/// The tool's own commands.
fn own<T: Tool>() -> impl Iterator<Item = &'static Row<T>> {
    T::COMMANDS.iter().flat_map(|(_, rows)| *rows)
}

/// The tool's own command of this name.
pub(crate) fn named<T: Tool>(name: &str) -> Option<&'static Row<T>> {
    own::<T>().find(|row| row.name == name)
}

/// Whether a line has a command of the tool that changes nothing with these arguments.
pub(crate) fn only_reads<T: Tool>(line: &ArgMatches) -> bool {
    let read = |(name, matches)| (named::<T>(name)?.read)(matches).ok();
    line.subcommand().and_then(read).is_some_and(|ready| ready.effect().reads_only())
}

/// The names of the tool's own commands in groups.
#[must_use]
pub fn groups<T: Tool>() -> Vec<(&'static str, Vec<&'static str>)> {
    let names = |rows: &[Row<T>]| rows.iter().map(|row| row.name).collect();
    T::COMMANDS.iter().map(|(group, rows)| (*group, names(rows))).collect()
}

/// The grammars of those of the tool's own commands that the line may name.
pub(crate) fn grammars<T: Tool>() -> impl Iterator<Item = Command> {
    let is_named = |row: &&Row<T>| grammar::is_named(row.name, row.aliases.iter().copied());
    let commands = own::<T>().filter(is_named).map(|row| {
        let command = grammar::with_arguments(Command::new(row.name), row.arguments);
        let command = command.args(row.repeats().then(repeat::flag));
        let short = row.presets.iter().map(|(word, words)| format!("\n  {word} = {words}"));
        let help = match row.presets {
            [] => row.help.to_owned(),
            _ => format!("{}\n\nAliases:{}", row.help, short.collect::<String>()),
        };
        command.about(row.about).visible_aliases(row.aliases).after_help(help)
    });
    commands.chain(short(own::<T>().flat_map(|row| row.presets)))
}

/// The grammars of those short words that the line may name.
pub(crate) fn short<'p>(
    presets: impl IntoIterator<Item = &'p Preset>,
) -> impl Iterator<Item = Command> {
    let named = presets.into_iter().filter(|(word, _)| grammar::is_named(word, [].into_iter()));
    named.copied().map(preset::grammar)
}
