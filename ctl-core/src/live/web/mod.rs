//! `web`: a page that shows servers and queues live, and changes them if allowed.
//!
//! The page shows and does exactly what the tool's own commands show and do: a view is a read-only command line, an
//! action is one that changes something, with the same counts, confirmations and refusals. The page refers to them by
//! name, and never writes a command line.

mod act;
mod guard;
mod http;
mod live;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

use self::guard::{Guard, Token};
use self::live::Live;
use crate::commands::address;
use crate::commands::exporter::{Choice, Collector, Exports};
use crate::config::Settings;
use crate::context::{Context, repeat};
use crate::error::{CliError, Exit};
use crate::live::own::Own;
use crate::live::top::Board;
use crate::repl::guest::Interactive;
use crate::system::listen;
use crate::text::color::Role;

/// Arguments of `web`.
#[derive(Debug, Args)]
pub struct WebArgs {
    /// Address to listen on; port 0 picks a free port
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8030")]
    listen: String,

    /// Allow changes from the page; it is read-only otherwise
    #[arg(long)]
    write: bool,

    /// Allow addresses that other machines can reach
    #[arg(hide_short_help = true, long)]
    allow_remote: bool,

    /// Require the token on the first line of this file instead of a random one, which is in the printed link
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// Host name that browsers may use, besides the address and localhost; repeatable
    #[arg(hide_short_help = true, long, value_name = "NAME")]
    host: Vec<String>,

    /// Polling interval, at least 100ms
    #[arg(short, long, value_name = "DUR", default_value = "2s", value_parser = repeat::pause)]
    interval: Duration,

    #[command(flatten)]
    choice: Choice,
}

/// The views and actions of a tool's page.
#[derive(Debug, Serialize)]
pub struct Site {
    /// The views of one queue.
    pub views: &'static [View],
    /// The views of a server.
    pub server: &'static [View],
    /// The actions.
    pub actions: &'static [Action],
}

/// A table: the result of a read-only command.
#[derive(Debug, Serialize)]
pub struct View {
    /// Its name.
    pub name: &'static str,
    /// The command, with `{field}` for a field's value. A word with an empty field is omitted.
    #[serde(skip)]
    pub line: &'static [&'static str],
    /// The user's choices.
    pub fields: &'static [Field],
    /// The column by which the next page starts after the last row, and the field for its value.
    pub pages: Option<(&'static str, &'static str)>,
    /// Names of the actions on a row; the row's `id` is their field with this name.
    pub actions: &'static [&'static str],
}

impl View {
    /// A view without choices, pages and actions.
    #[must_use]
    pub const fn new(name: &'static str, line: &'static [&'static str]) -> Self {
        Self { name, line, fields: &[], pages: None, actions: &[] }
    }
}

/// A command that changes something.
#[derive(Debug, Serialize)]
pub struct Action {
    /// Its name.
    pub name: &'static str,
    /// The command, as in a [`View`]. The field `body` is its stdin.
    #[serde(skip)]
    pub line: &'static [&'static str],
    /// The user's input.
    pub fields: &'static [Field],
    /// It acts on the displayed queue, not on a row.
    #[serde(rename = "ofQueue")]
    pub is_of_queue: bool,
    /// Its effect is shown first, and has to be confirmed.
    pub asks: bool,
}

/// The fields of an action on a row.
const ROW: &[Field] = &[Field::new("id", Kind::Number)];

impl Action {
    /// An action on the displayed queue that has to be confirmed.
    #[must_use]
    pub const fn new(
        name: &'static str,
        line: &'static [&'static str],
        fields: &'static [Field],
    ) -> Self {
        Self { name, line, fields, is_of_queue: true, asks: true }
    }

    /// The same on a row, whose `id` it has as its only field.
    #[must_use]
    pub const fn of_row(name: &'static str, line: &'static [&'static str]) -> Self {
        Self { is_of_queue: false, ..Self::new(name, line, ROW) }
    }

    /// The same without a confirmation.
    #[must_use]
    pub const fn unasked(self) -> Self {
        Self { asks: false, ..self }
    }
}

/// A value in a command line that comes from the page.
#[derive(Debug, Serialize)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    #[serde(flatten)]
    pub kind: Kind,
    /// Its initial value.
    pub default: &'static str,
}

/// The type of a value.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(tag = "kind", content = "words", rename_all = "lowercase")]
pub enum Kind {
    /// The name of the displayed queue, or of another one.
    Name,
    /// Digits, or empty.
    Number,
    /// One of these words, or empty.
    Word(&'static [&'static str]),
    /// A line of text, validated by the command.
    Text,
    /// UTF-8 text, which is the command's stdin.
    Body,
}

impl Field {
    /// A field that is initially empty.
    #[must_use]
    pub const fn new(name: &'static str, kind: Kind) -> Self {
        Self { name, kind, default: "" }
    }

    /// Sets the initial value.
    #[must_use]
    pub const fn or(self, default: &'static str) -> Self {
        Self { default, ..self }
    }
}

/// The context as its prompt shows it: name, colour and protection.
fn shown_context(settings: &Settings) -> Value {
    let color = match settings.mark() {
        Some((_, Role::Tint(tint))) => format!("{tint:?}").to_ascii_lowercase().into(),
        _ => Value::Null,
    };
    let name = settings.chosen().map(|chosen| chosen.name.as_str());
    json!({ "name": name, "color": color, "isProtected": settings.lock(String::new).is_some() })
}

/// Runs `web` until a signal comes.
///
/// # Errors
/// Invalid flags (2); an address that cannot be bound (69); a token file that cannot be read (66, 74).
pub fn run<T: Interactive>(
    context: &mut Context<T>,
    args: &WebArgs,
    exports: &'static Exports<T>,
    board: &'static Board,
    site: &'static Site,
) -> Result<Exit, CliError> {
    context.refuse_dry_run("web", "without --write, it changes nothing")?;
    let token = Token::new(args.token_file.as_deref())?;
    if context.globals.quiet && !token.fragment().is_empty() {
        return Err(CliError::usage("-q would hide the link with the random token")
            .hint("--token-file FILE"));
    }
    let (listener, address) = listen::tcp(("--listen", &args.listen), args.allow_remote, "page")?;
    let interrupts = context.interrupts()?;
    context.stamp();
    let mut collector = Collector::new(context, exports, args.choice.clone())?;
    collector.silence();
    let own = Own::of(context)?;
    let collector = Arc::new(collector);
    let names = (T::PROGRAM.name, exports.noun);
    let live = Live::new(Arc::clone(&collector), board, names, args.interval)?;
    let link = format!("http://{address}/{}", token.fragment());
    context.messages.note(format!("a page on {link} (not encrypted)"));
    let guard = Guard::new(address, &args.host, token);
    address::print(&mut context.out, address)?;
    let title = json!({
        "tool": T::PROGRAM.name,
        "noun": exports.noun,
        "context": shown_context(context.settings()),
        "write": args.write,
        "interval": u64::try_from(args.interval.as_millis()).unwrap_or(u64::MAX),
        "figures": live::figures(board.figures),
        "serverFigures": live::figures(board.server),
        "site": Site { actions: if args.write { site.actions } else { &[] }, ..*site },
    });
    let (messages, write) = (context.messages.clone(), args.write);
    let acts = act::Acts { site, write, own, messages, collector };
    http::serve(listener, &interrupts, guard, title, live, Arc::new(acts))
}
