//! Function names, ids and handles from arguments. An illegal one is exit 65, whatever its source.

use ctl_core::error::CliError;
use ctl_core::input::Input;
use ctl_core::input::named::{Named, Words};
use ctl_core::input::names::list;
use ctl_core::output::messages::Messages;
use ctl_core::text::escape;
use gearman_client::{FunctionName, JobHandle, UniqueId};

use crate::error::cli_error;

/// Functions, as commands name them.
#[derive(Debug, Clone)]
pub enum Function {}

impl Named for Function {
    type Name = FunctionName;
    const WORDS: Words =
        Words { one: "function", several: "functions", short: 'f', value: "FUNCTION" };

    fn read(text: &str) -> Result<FunctionName, CliError> {
        function(text)
    }
}

/// A function's name, as [`show_function`] shows it.
///
/// # Errors
/// It is empty, too long, or has a NUL: exit 65.
pub fn function(text: &str) -> Result<FunctionName, CliError> {
    FunctionName::try_from(&*escape::unname(text)).map_err(cli_error)
}

/// A unique id, as [`show_unique`] shows it.
///
/// # Errors
/// The id is illegal: exit 65.
pub fn unique(text: &str) -> Result<UniqueId, CliError> {
    UniqueId::try_from(&*escape::unname(text)).map_err(cli_error)
}

/// A job handle, as [`show_handle_of`] shows it, such as `H:host:1` or `server//H:host:1`.
///
/// # Errors
/// It cannot be one: exit 65.
pub fn handle(text: &str) -> Result<JobHandle, CliError> {
    JobHandle::read(text, escape::unname).map_err(cli_error)
}

/// A handle as people and scripts use it, without the server.
pub fn show_handle(handle: &JobHandle) -> String {
    escape::name(handle.name())
}

/// A handle that can be handed to another command: with its server, if there are several.
pub fn show_handle_of(handle: &JobHandle, is_several: bool) -> String {
    let server = handle.server().filter(|_| is_several).map(ToString::to_string);
    show_handle_at(handle, server.as_deref())
}

/// As [`show_handle_of`]; the server is given if there are several.
pub fn show_handle_at(handle: &JobHandle, server: Option<&str>) -> String {
    let name = show_handle(handle);
    match server {
        Some(server) => format!("{server}//{name}"),
        None => name,
    }
}

/// A function's name as text, escaped as [`escape::name`] does.
pub fn show_function(function: &FunctionName) -> String {
    escape::name(function.as_bytes())
}

/// A unique id as text, escaped likewise.
pub fn show_unique(unique: &UniqueId) -> String {
    escape::name(unique.as_bytes())
}

/// The longest line that can be a handle with its server, with room for blanks.
const HANDLE_LINE: u64 = 512;

/// Handles from arguments; `-` stands for the handles on stdin, one per line.
///
/// # Errors
/// One cannot be a handle: exit 65.
pub fn handles(
    texts: &[String],
    input: (&mut Input, &Messages),
) -> Result<Vec<JobHandle>, CliError> {
    list(texts, input, HANDLE_LINE, handle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_handles_from_arguments_and_stdin() {
        let mut input = Input::Bytes(b"H:x:2\n\n H:x:3 \n".to_vec());
        let messages = Messages::to(Box::new(std::io::sink()), "gearctl", false, false);
        let found = handles(&["H:x:1".into(), "-".into()], (&mut input, &messages)).unwrap();
        assert_eq!(found.iter().map(show_handle).collect::<Vec<_>>(), ["H:x:1", "H:x:2", "H:x:3"]);
    }

    #[test]
    fn reads_back_the_handles_that_listings_show() {
        let longest = [0xff; JobHandle::MAX_LEN];
        for name in [&b"H:vm:1"[..], b"H:v\xffm:1", br"H:\vm\:1", br"H:\xff:1", &longest] {
            let bare = JobHandle::try_from(name).unwrap();
            for server in [None, Some("h:4730"), Some("unix:/run/g.sock"), Some("gearmans://h:1")] {
                let shown = show_handle_at(&bare, server);
                let read = handle(&shown).unwrap();
                assert_eq!(read.name(), name, "{shown}");
                assert_eq!(read.server().map(ToString::to_string).as_deref(), server, "{shown}");
            }
        }
        for (bad, why) in [("", "it is empty"), (r"\x00", "NUL"), ("h:4730//", "it is empty")] {
            assert!(handle(bad).unwrap_err().message.contains(why), "{bad}");
        }
    }
}
