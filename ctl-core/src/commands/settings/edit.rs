//! The configuration file in an editor.

use super::place;
use crate::config::keys;
use crate::context::{Context, Tool};
use crate::error::{CliError, Exit};
use crate::output::Record;
use crate::program::Program;
use crate::repl::outside;

/// Opens the whole file in the editor.
///
/// # Errors
/// The file is invalid or cannot be written; an invalid result is kept for another attempt.
pub(super) fn edit<T: Tool>(context: &mut Context<T>) -> Result<Exit, CliError> {
    let program = &T::PROGRAM;
    context.refuse_dry_run("editing the file", "context show")?;
    let place = place(context)?;
    let environment = context.settings().environment.clone();
    let edited = |text: &[u8]| outside::edit(text, &environment);
    let is_changed = place.edit(program, &template(program), edited)?;
    let file = place.shown();
    let done = Record::new().with("file", file.as_str()).with("changed", is_changed);
    let sentence =
        if is_changed { format!("wrote {file}") } else { format!("{file} is unchanged") };
    context.out.done_with(&done, &["file"], &sentence)
}

/// The comment at the top of a new file.
fn template(program: &Program) -> String {
    let Program { name, servers, .. } = program;
    let mut text = format!(
        "# Settings of {name}, in TOML. Flags come first, then the environment, the context, and the defaults.\n\
         #\n# context = \"prod\"        # used if none is given\n#\n\
         # [defaults]\n# timeout = \"5s\"\n#\n\
         # [contexts.prod]\n# server = \"{}\"\n# protected = true\n#\n\
         # [envelopes.orders]    # bodies for --decode and filters\n# class = \"/type\"\n# arguments = \"/order\"\n#\n# Settings of contexts and defaults:\n",
        servers.default
    );
    for key in keys::all(program) {
        text.push_str(&format!("#   {:<16} {}\n", key.shown(program), key.form(program)));
    }
    text
}
