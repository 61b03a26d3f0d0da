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
use crate::output::records;

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
    /// Whether there is nothing but bodies.
    #[must_use]
    pub fn are_alone(&self) -> bool {
        self.null
    }

    /// Sets the output for results of this shape; the folder is made if it is not there.
    ///
    /// # Errors
    /// `-o raw` and files, a column that there is not (2); a folder that cannot be made (74).
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

/// Makes folders that are for their owner alone, where the system knows owners.
fn private_folder() -> DirBuilder {
    #[cfg_attr(not(unix), allow(unused_mut))]
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

/// The column that stands for a body's.
pub(super) static FILE: Column = Column::new("file", "FILE");

/// What stands in names of files as it is.
const PLAIN_EVERYWHERE: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');
/// A handle is to be read; to Windows a colon is more than a letter.
#[cfg(not(windows))]
const PLAIN: &AsciiSet = &PLAIN_EVERYWHERE.remove(b':');
#[cfg(windows)]
const PLAIN: &AsciiSet = PLAIN_EVERYWHERE;

/// Writes the body of a record into a file of its own, which is named for what the record is about, and puts the file's
/// name in the body's place. The file is on the disk when this returns.
///
/// # Errors
/// The file is there already, or cannot be written: exit 74.
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
    records::write_body(&path, body)?;
    let path = Value::from(path.to_string_lossy().into_owned());
    record.replace(BODY, FILE.key, path);
    Ok(())
}
