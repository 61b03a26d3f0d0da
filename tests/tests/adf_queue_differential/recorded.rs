//! Sequences with the real server's answers, as files.

use std::{fmt::Write as _, fs, path::PathBuf};

use crate::adf_queue_differential::{
    side::Heard,
    step::{Step, continuation},
};

/// A sequence, and what was received after each step; last, what was received at the end.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    pub(crate) steps: Vec<(Step, Heard)>,
    pub(crate) end: Heard,
}

/// The folder of the files.
pub(crate) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/adf_queue_differential/recorded")
}

/// All files, in order.
pub(crate) fn all() -> Vec<(String, Recorded)> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
        .into_iter()
        .map(|file| {
            let name = file.file_stem().unwrap().to_string_lossy().into_owned();
            let text = fs::read_to_string(&file).unwrap();
            let recorded = Recorded::parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
            (name, recorded)
        })
        .collect()
}

impl Recorded {
    pub(crate) fn parse(text: &str) -> Result<Recorded, String> {
        let mut recorded = Recorded::default();
        let mut is_end = false;
        for (number, line) in text.lines().enumerate() {
            let wrong = |error: String| format!("line {}: {error}", number + 1);
            let reply = line.split_once("< ");
            let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric());
            if let Some((connection, reply)) = reply.filter(|(name, _)| is_name(name)) {
                let heard = match recorded.steps.last_mut() {
                    Some((_, heard)) if !is_end => heard,
                    _ => &mut recorded.end,
                };
                heard.entry(connection.to_owned()).or_default().push(reply.to_owned());
            } else if let Some(frame) = continuation(line) {
                let Some((Step::Send(_, frames), _)) = recorded.steps.last_mut() else {
                    return Err(wrong("nothing to continue".to_owned()));
                };
                frames.push(frame.map_err(wrong)?);
            } else if line == "end" {
                is_end = true;
            } else if !line.starts_with('#') {
                recorded.steps.push((line.parse().map_err(wrong)?, Heard::new()));
            }
        }
        Ok(recorded)
    }

    pub(crate) fn text(&self, remark: &str) -> String {
        let mut text = format!("# {remark}\n");
        for (step, heard) in &self.steps {
            let _ = writeln!(text, "{step}");
            write_heard(&mut text, heard);
        }
        text.push_str("end\n");
        write_heard(&mut text, &self.end);
        text
    }
}

fn write_heard(text: &mut String, heard: &Heard) {
    for (connection, replies) in heard {
        for reply in replies {
            let _ = writeln!(text, "{connection}< {reply}");
        }
    }
}
