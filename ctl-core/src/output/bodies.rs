//! Bodies alone: on stdout for `xargs -0`, or each in a file.

use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::path::PathBuf;

use clap::Args;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::record::{BODY, Column, Field, Record, Shape};
use super::{Format, Output, table};
use crate::error::CliError;
use crate::system::files;

/// Flags of commands that show bodies.
#[derive(Debug, Clone, Default, Args)]
pub struct BodiesArgs {
    /// Print only bodies, each followed by NUL, for xargs -0
    #[arg(short = '0', long = "null")]
    null: bool,

    /// Write each body to a new file in this directory, and show the file name instead
    #[arg(long, value_name = "DIR", conflicts_with = "null")]
    dump: Option<PathBuf>,
}

impl BodiesArgs {
    /// Configures the output for results of this shape; creates the directory if necessary.
    ///
    /// # Errors
    /// `-o raw` with files, or an unknown column (2); the directory cannot be created (74).
    pub fn prepare(&self, out: &mut Output, shape: &'static Shape) -> Result<(), CliError> {
        if self.null {
            out.style.format = Format::Raw;
            out.style.null = true;
        }
        out.expect(shape)?;
        let Some(folder) = &self.dump else { return Ok(()) };
        if out.style.format == Format::Raw {
            return Err(CliError::usage("--dump writes bodies to files, -o raw to stdout")
                .hint("only one of them"));
        }
        match private_folder().create(folder) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(CliError::writing(&folder.to_string_lossy(), &error));
            }
            _ => {}
        }
        out.style.dump = Some(folder.clone());
        Ok(())
    }
}

/// Creates directories that only their owner can access, where the system supports that.
fn private_folder() -> DirBuilder {
    #[cfg_attr(not(unix), allow(unused_mut))]
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

/// The column that replaces the body's.
pub(super) static FILE: Column = Column::new("file", "FILE");

/// Characters that stay unencoded in file names.
const PLAIN_EVERYWHERE: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');
/// Handles should stay readable, but a colon has a special meaning on Windows.
#[cfg(not(windows))]
const PLAIN: &AsciiSet = &PLAIN_EVERYWHERE.remove(b':');
#[cfg(windows)]
const PLAIN: &AsciiSet = PLAIN_EVERYWHERE;

/// Writes the body of a record to a file named after the record, and replaces the body by the file's name. The file is
/// synced to disk when this returns.
///
/// # Errors
/// The file exists or cannot be written: exit 74.
pub(super) fn dump(
    record: &mut Record,
    name: &str,
    folder: &std::path::Path,
) -> Result<(), CliError> {
    let Some(body) = record.body() else { return Ok(()) };
    let name = match record.get(name) {
        Some(Field::Value(value)) => table::value_text(value),
        _ => return Err(CliError::internal("a body without a name")),
    };
    let mut file = utf8_percent_encode(&name, PLAIN).to_string();
    if file.starts_with('.') {
        file.replace_range(..1, "%2E");
    }
    let path = folder.join(file);
    files::write_new(&path, body)?;
    let path = Value::from(path.to_string_lossy().into_owned());
    record.replace(BODY, FILE.key, path);
    Ok(())
}
