//! The command `complete`: completes a shell line. The completions are the same as in a session.

use std::ffi::OsString;
use std::marker::PhantomData;

use clap::{ArgMatches, FromArgMatches as _};

use crate::commands::tap;
use crate::config::{Settings, SettingsArgs};
use crate::context::Context;
use crate::error::{CliError, Exit};
use crate::link::tls::TlsArgs;
use crate::link::{Link as _, ServerArgs};
use crate::repl::complete::{self, Found, What};
use crate::repl::contexts;
use crate::repl::guest::Interactive;
use crate::repl::known::KnownNames;
use crate::repl::values::AllValues;
use crate::text::escape;
use crate::text::lexer::Partial;
use crate::tool::cli;
use crate::tool::shells::CompleteArgs;

/// The exit code that leaves completion to the shell, which knows files best.
const FILES: Exit = Exit::Own(3);

/// The exit code if the word is incomplete, so that no blank may follow. A script for fish has no say in this: fish
/// leaves the blank out only after a candidate that ends in one of `/=@:.,-`.
const OPEN: Exit = Exit::Own(4);

/// Runs `complete`: a line per completion, with its description after a TAB. Exit 3 means that the word is a file name,
/// 4 that it continues after the completion.
///
/// # Errors
/// Write failures.
pub(super) fn run<T: Interactive>(
    context: &mut Context<T>,
    args: &CompleteArgs,
) -> Result<Exit, CliError> {
    let (words, divided) = args.typed();
    let mut tree = cli::tree::<T>();
    tree.build();
    let asks = points_to_servers(context, &words);
    let names = match asks {
        true => KnownNames::live(T::live_names(context.link.behind())),
        false => KnownNames::default(),
    };
    contexts::keep_names(context.settings(), &T::PROGRAM, &names);
    let filters = |verb: &str| if verb == tap::VERB { tap::FIELDS } else { T::FILTERS };
    let values = AllValues::<T> { names, filters, session: None, kind: PhantomData };
    let found = complete::find(&tree, &values, &Partial::of_words(&words));
    let Some(Found { before, what }) = found else { return Ok(Exit::Done) };
    let mut exit = Exit::Done;
    let rows: Vec<(String, String)> = match what {
        What::Files(_) => return Ok(FILES),
        What::Verbs(verbs) => verbs,
        What::Flags(flags) => flags.into_iter().map(|flag| (flag.name, flag.about)).collect(),
        What::Names(names) => names.into_iter().map(|name| (name, String::new())).collect(),
        What::Beginnings(words) => {
            exit = OPEN;
            words.into_iter().map(|word| (word, String::new())).collect()
        }
    };
    for (word, about) in rows {
        let word = format!("{before}{word}");
        // Skip names with control characters.
        if word.chars().any(escape::acts) {
            continue;
        }
        let word = word.strip_prefix(&divided).unwrap_or(&word);
        let about = about.lines().next().unwrap_or_default();
        let line = args.offer(word, about);
        context.out.text(&format!("{line}\n"))?;
    }
    Ok(exit)
}

/// Whether there are servers to ask for names: those of the line or of its context, or else the default ones.
fn points_to_servers<T: Interactive>(context: &mut Context<T>, words: &[OsString]) -> bool {
    let before = words.split_last().map_or(words, |(_, before)| before);
    let line = [OsString::from(T::PROGRAM.name)].into_iter().chain(before.iter().cloned());
    // A partial line does not parse.
    let tree = cli::tree::<T>().ignore_errors(true);
    let link = tree.try_get_matches_from(line).ok().map(|typed| typed_link(context, &typed));
    match link {
        Some(Ok(Some(link))) => context.link = link,
        Some(Ok(None)) => {}
        // They are invalid, or there is no server to ask.
        _ => return false,
    }
    !before.iter().any(|word| word == "--embedded")
}

/// The servers that these flags select; `None` if they name neither servers nor their source.
fn typed_link<T: Interactive>(
    context: &Context<T>,
    typed: &ArgMatches,
) -> Result<Option<T::Link>, CliError> {
    let unreadable = |_| CliError::usage("the line cannot be parsed yet");
    let connect = ServerArgs::from_arg_matches(typed).map_err(unreadable)?;
    let args = SettingsArgs::from_arg_matches(typed).map_err(unreadable)?;
    let is_of_settings = args.config.is_some() || args.context.is_some();
    if connect.addresses().is_none() && !is_of_settings {
        return Ok(None);
    }
    let tls = TlsArgs::from_arg_matches(typed).map_err(unreadable)?;
    let environment = context.settings().environment.clone();
    let settings = Settings::load(&T::PROGRAM, &args, false, environment)?;
    Context::<T>::new((&connect, false), &tls, &context.globals, settings)
        .map(|context| Some(context.link))
}
