//! Queries that not every server answers.

use ctl_core::error::CliError;

use crate::error::{CONNECTION_LOST, TIMEOUT, UNSUPPORTED};

/// The outcome of a query that not every server answers.
pub enum Answer<T> {
    /// The answer.
    Came(T),
    /// The server reports that it has no such command.
    Unsupported(CliError),
    /// Nothing arrived in time, or the server hung up.
    Silent(CliError),
}

impl<T> Answer<T> {
    /// The outcome of this reply.
    ///
    /// # Errors
    /// Another refusal, or no connection.
    pub fn of(reply: Result<T, CliError>) -> Result<Self, CliError> {
        match reply {
            Ok(reply) => Ok(Self::Came(reply)),
            Err(error) if error.code == UNSUPPORTED => Ok(Self::Unsupported(error)),
            Err(error) if matches!(error.code, TIMEOUT | CONNECTION_LOST) => {
                Ok(Self::Silent(error))
            }
            Err(error) => Err(error),
        }
    }

    /// The answer, if one arrived.
    pub fn came(self) -> Option<T> {
        match self {
            Self::Came(answer) => Some(answer),
            Self::Unsupported(_) | Self::Silent(_) => None,
        }
    }

    /// The answer.
    ///
    /// # Errors
    /// The reason why there is none.
    pub fn required(self) -> Result<T, CliError> {
        match self {
            Self::Came(answer) => Ok(answer),
            Self::Unsupported(error) | Self::Silent(error) => Err(error),
        }
    }

    /// Maps the answer.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn and_then<U>(
        self,
        make: impl FnOnce(T) -> Result<U, CliError>,
    ) -> Result<Answer<U>, CliError> {
        Ok(match self {
            Self::Came(answer) => Answer::Came(make(answer)?),
            Self::Unsupported(error) => Answer::Unsupported(error),
            Self::Silent(error) => Answer::Silent(error),
        })
    }
}
