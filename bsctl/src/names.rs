//! Tube names and job ids from arguments. An illegal name is exit 65, wherever it came from.

use beanstalk_client::{JobId, TubeName};
use ctl_core::error::CliError;
use ctl_core::input::{Framing, Input, Records};

use crate::error::cli_error;

/// A tube's name.
///
/// # Errors
/// The name is illegal: exit 65.
pub fn tube(text: &str) -> Result<TubeName, CliError> {
    TubeName::try_from(text).map_err(cli_error)
}

/// Tube names.
///
/// # Errors
/// A name is illegal: exit 65.
pub fn tubes(texts: &[String]) -> Result<Vec<TubeName>, CliError> {
    texts.iter().map(|text| tube(text)).collect()
}

/// Job ids from arguments; `-` stands for the ids on stdin, one per line.
///
/// # Errors
/// An argument is no id: exit 2; a line of stdin is no id: exit 65.
pub fn job_ids(texts: &[String], input: &mut Input) -> Result<Vec<JobId>, CliError> {
    let mut ids = Vec::new();
    for text in texts {
        if text == "-" {
            ids.extend(ids_on_stdin(input)?);
            continue;
        }
        ids.push(text.parse().map_err(|_| {
            CliError::usage(format!("`{text}` is not a job id"))
                .hint("ids are whole numbers, such as 42")
        })?);
    }
    Ok(ids)
}

/// The longest line that can be an id, with room for blanks.
const ID_LINE: u64 = 64;

fn ids_on_stdin(input: &mut Input) -> Result<Vec<JobId>, CliError> {
    let mut ids = Vec::new();
    for record in Records::new(input.take()?, Framing::Lines, ID_LINE) {
        let bytes = record.bytes?;
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim();
        if text.is_empty() {
            continue;
        }
        ids.push(text.parse().map_err(|_| {
            CliError::bad_data(format!("line {} of stdin is not a job id: `{text}`", record.number))
        })?);
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_from_arguments_and_stdin() {
        let mut input = Input::Bytes(b"3\n\n 4 \n5".to_vec());
        let ids = job_ids(&["1".into(), "-".into()], &mut input).unwrap();
        assert_eq!(ids.iter().map(|id| id.get()).collect::<Vec<_>>(), [1, 3, 4, 5]);
        let mut input = Input::Bytes(b"3\nx\n".to_vec());
        let error = job_ids(&["-".into()], &mut input).unwrap_err();
        assert_eq!(error.exit.code(), 65);
        assert!(error.message.contains("line 2"), "{error}");
        assert_eq!(job_ids(&["x".into()], &mut input).unwrap_err().exit.code(), 2);
    }

    #[test]
    fn an_illegal_tube_is_65() {
        assert_eq!(tube("a b").unwrap_err().exit.code(), 65);
        assert_eq!(tubes(&["ok".into(), "-x".into()]).unwrap_err().exit.code(), 65);
    }
}
