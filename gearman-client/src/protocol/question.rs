//! Read-only requests: status, echo, and the option of a connection.

use bytes::{Bytes, BytesMut};

use crate::{
    Error, JobHandle, JobStatus, Origin, Progress, UniqueId,
    error::excerpt,
    protocol::{Packet, PacketType, Request, packet::request},
    text::decimal,
};

/// The packet of a request, which has one argument, and that of its answer.
macro_rules! asks {
    ($request:ident, $answer:ident, $self:ident => $argument:expr) => {
        fn packet_type(&self) -> PacketType {
            PacketType::$request
        }

        fn answered_by(&self) -> PacketType {
            PacketType::$answer
        }

        fn encode(&$self, out: &mut BytesMut) {
            request(out, PacketType::$request, &[], $argument);
        }
    };
}

/// GET_STATUS: the status of a job.
#[derive(Clone, Debug)]
pub struct GetStatus(pub JobHandle);

impl GetStatus {
    /// A question that every kind of server answers, unlike an echo: for the status of a job that is not there.
    pub(crate) fn of_no_job() -> Result<Self, Error> {
        "H:check:0".parse().map(GetStatus)
    }
}

impl Request for GetStatus {
    type Reply = JobStatus;

    asks!(GetStatus, StatusRes, self => self.0.name());

    fn handle(&self) -> Option<&JobHandle> {
        Some(&self.0)
    }

    fn decode(&self, answer: Packet, _: &Origin) -> Result<JobStatus, Error> {
        let ([handle, known, running, numerator], denominator) = answer.split()?;
        about(&handle, self.0.name())?;
        let progress = Progress::new(numerator, denominator);
        let (is_known, is_running) = (flag(&known)?, flag(&running)?);
        Ok(JobStatus { is_known, is_running, progress, waiting: None })
    }
}

/// GET_STATUS_UNIQUE: the status of a job, by its unique id. Covers the jobs of all functions.
#[derive(Clone, Copy, Debug)]
pub struct GetStatusUnique(pub UniqueId);

impl Request for GetStatusUnique {
    type Reply = JobStatus;

    asks!(GetStatusUnique, StatusResUnique, self => self.0.as_bytes());

    fn decode(&self, answer: Packet, _: &Origin) -> Result<JobStatus, Error> {
        // The first argument is the unique id, not the handle as in the protocol's document.
        let ([unique, known, running, numerator, denominator], clients) = answer.split()?;
        about(&unique, self.0.as_bytes())?;
        let progress = Progress::new(numerator, denominator);
        let (is_known, is_running) = (flag(&known)?, flag(&running)?);
        Ok(JobStatus { is_known, is_running, progress, waiting: decimal(&clients) })
    }

    fn route(&self) -> Option<&[u8]> {
        Some(self.0.as_bytes())
    }
}

/// Checks that an answer is about the job that was asked for.
fn about(answered: &[u8], asked: &[u8]) -> Result<(), Error> {
    if answered == asked {
        return Ok(());
    }
    Err(Error::protocol("the reply is about another job").with_detail(excerpt(answered)))
}

fn flag(text: &[u8]) -> Result<bool, Error> {
    match text {
        b"1" => Ok(true),
        b"0" | b"" => Ok(false),
        other => {
            Err(Error::protocol("a flag of the status is neither 0 nor 1")
                .with_detail(excerpt(other)))
        }
    }
}

/// ECHO_REQ: the same bytes back.
#[derive(Clone, Debug)]
pub struct Echo<W>(pub W);

impl<W: AsRef<[u8]>> Request for Echo<W> {
    type Reply = Bytes;

    asks!(EchoReq, EchoRes, self => self.0.as_ref());

    fn decode(&self, answer: Packet, _: &Origin) -> Result<Bytes, Error> {
        if answer.body != self.0.as_ref() {
            return Err(Error::protocol("the server echoed different data than it was sent"));
        }
        Ok(answer.body)
    }
}

/// OPTION_REQ: sets an option of the connection. There is only `exceptions`, which is set on connecting.
#[derive(Clone, Copy, Debug, Default)]
pub struct SetExceptions;

impl SetExceptions {
    pub(crate) const NAME: &'static [u8] = b"exceptions";
}

impl Request for SetExceptions {
    type Reply = ();

    asks!(OptionReq, OptionRes, self => Self::NAME);

    fn decode(&self, answer: Packet, _: &Origin) -> Result<(), Error> {
        // gearmand echoes the name as sent; other servers change its case, or append a NUL.
        let end = answer.body.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let name = answer.body.get(..end).unwrap_or_default();
        if name.eq_ignore_ascii_case(Self::NAME) {
            return Ok(());
        }
        Err(Error::protocol("the server set a different option than requested")
            .with_detail(excerpt(name)))
    }
}
