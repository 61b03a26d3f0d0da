//! Records of jobs that can be read back: their formats, and the files they go to.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, ErrorKind};
use std::path::Path;

use crate::args::GlobalArgs;
use crate::error::CliError;
use crate::output::{Destination, Encoding, Format, Output, Style};

/// Records go out as NDJSON unless another structured format was asked for.
///
/// # Errors
/// A format that cannot be read back: exit 2.
pub fn choose_format(globals: &GlobalArgs, out: &mut Output) -> Result<(), CliError> {
    match globals.output {
        None => out.style.format = Format::Ndjson,
        Some(Format::Ndjson | Format::Json | Format::Yaml) => {}
        Some(_) => {
            return Err(CliError::usage("job records are written as ndjson, json or yaml")
                .hint("-o ndjson, which can be read back"));
        }
    }
    Ok(())
}

/// Refuses encodings of bodies that lose something.
///
/// # Errors
/// `--encoding json` or `utf8`: exit 2.
pub fn require_lossless(encoding: Encoding) -> Result<(), CliError> {
    match encoding {
        Encoding::Auto | Encoding::Base64 | Encoding::Hex => Ok(()),
        Encoding::Utf8 | Encoding::Json => {
            Err(CliError::usage("this encoding cannot be read back byte for byte")
                .hint("--encoding auto, base64 or hex"))
        }
    }
}

/// A file for NDJSON records that did not exist, readable by its owner only: job bodies may be private.
///
/// # Errors
/// The file exists or cannot be written: exit 74.
pub fn create(path: &OsStr, style: &Style) -> Result<Output, CliError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    let name = path.to_string_lossy();
    let file = options.open(path).map_err(|error| {
        let failure = CliError::writing(&name, &error);
        match error.kind() {
            ErrorKind::AlreadyExists => failure.hint("another name: files are not overwritten"),
            _ => failure,
        }
    })?;
    sync_entry(path);
    let style = Style { format: Format::Ndjson, encoding: style.encoding, ..Style::default() };
    let destination = Destination::file(name, &file);
    Ok(Output::to(Box::new(BufWriter::new(file)), style).at(destination))
}

/// Brings the file's name onto the disk, where the system offers it: its data is worth little without.
fn sync_entry(path: &OsStr) {
    let parent = Path::new(path).parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Ok(directory) = File::open(parent.unwrap_or(Path::new("."))) {
        // Some file systems cannot, and need not.
        let _ = directory.sync_all();
    }
}
