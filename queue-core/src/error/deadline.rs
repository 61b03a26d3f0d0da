//! The steps that have deadlines.

/// The deadline that passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Deadline {
    /// Name resolution, connecting, the TLS handshake, and the protocol's own opening exchange.
    Connect,
    /// Handing the request to the operating system.
    Write,
    /// The server's answer after the request was written, plus the time that the request allows the server to wait, if
    /// any.
    Reply,
    /// The whole call, with reconnects and retries.
    Total,
    /// The job that the call waits for.
    Job,
}

crate::words!(Deadline, crate::Error, "deadline":
    "connect" = Connect, "write" = Write, "reply" = Reply, "total" = Total, "job" = Job);

impl Deadline {
    /// A short name of its error for logs and metrics, in snake case: `error.type` of OpenTelemetry.
    #[must_use]
    pub const fn error_name(self) -> &'static str {
        match self {
            Deadline::Connect => "connect_timeout",
            Deadline::Write => "write_timeout",
            Deadline::Reply => "reply_timeout",
            Deadline::Total => "total_timeout",
            Deadline::Job => "job_timeout",
        }
    }

    /// The text of its error.
    pub(crate) const fn message(self) -> &'static str {
        match self {
            Deadline::Connect => "no connection within the connect timeout",
            Deadline::Write => "the request could not be written within the write timeout",
            Deadline::Reply => "no reply within the reply timeout",
            Deadline::Total => "not done within the total timeout",
            Deadline::Job => "the job did not end within its timeout",
        }
    }
}
