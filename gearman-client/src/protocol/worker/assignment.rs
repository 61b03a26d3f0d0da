//! The ways to request a job, and the job that a worker is given.

use bytes::Bytes;

use crate::{
    Address, Epoch, Error, FunctionName, JobHandle, Origin,
    names::short::ShortId,
    protocol::{Packet, PacketType, request::received_handle},
};

/// How a worker asks for a job. gearmand knows all three; other servers answer the newer ones with an error, or not at
/// all, and the worker then falls back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Grab {
    /// GRAB_JOB: returns neither unique id nor reducer.
    Plain,
    /// GRAB_JOB_UNIQ: returns the unique id.
    Uniq,
    /// GRAB_JOB_ALL: returns the unique id and the reducer.
    #[default]
    All,
}

queue_core::words!(Grab, crate::Error, "way to ask for jobs":
    "plain" = Plain, "uniq" = Uniq, "all" = All);

impl Grab {
    pub(super) fn packet_type(self) -> PacketType {
        match self {
            Grab::Plain => PacketType::GrabJob,
            Grab::Uniq => PacketType::GrabJobUniq,
            Grab::All => PacketType::GrabJobAll,
        }
    }

    /// Whether a server may answer such a grab with the packet named after this kind: gearmand answers GRAB_JOB_ALL
    /// with JOB_ASSIGN_UNIQ when there is no reducer.
    pub(super) fn may_answer(self, asked: Grab) -> bool {
        self == asked || (self, asked) == (Grab::Uniq, Grab::All)
    }

    /// The kind of grab answered by such a packet; `None` for NO_JOB, which answers any.
    pub(super) fn answered_with(answer: PacketType) -> Option<Self> {
        match answer {
            PacketType::JobAssign => Some(Grab::Plain),
            PacketType::JobAssignUniq => Some(Grab::Uniq),
            PacketType::JobAssignAll => Some(Grab::All),
            _ => None,
        }
    }

    pub(super) fn fallback(self) -> Option<Self> {
        match self {
            Grab::Plain => None,
            Grab::Uniq => Some(Grab::Plain),
            Grab::All => Some(Grab::Uniq),
        }
    }
}

/// A job assigned to a worker.
#[derive(Clone)]
#[non_exhaustive]
pub struct Assignment {
    /// The server's name for it, with the connection that holds it.
    pub handle: JobHandle,
    /// The function to run.
    pub function: FunctionName,
    /// The unique id that it was submitted with; empty if there is none or the server does not report it, `-` if
    /// workloads are compared.
    pub unique: Bytes,
    /// The reducer function, if it was submitted with one.
    pub reducer: Option<Bytes>,
    /// The submitted bytes. Cheap to clone; shares the receive buffer.
    pub workload: Bytes,
}

impl Assignment {
    /// A fictitious job of this function, for tests of code that takes one.
    pub fn for_test(function: FunctionName, workload: impl Into<Bytes>) -> Self {
        let origin = Origin { server: Address::default().into(), epoch: Epoch::next() };
        Assignment {
            handle: JobHandle::received(ShortId::cut(b"H:test:1"), &origin),
            function,
            unique: Bytes::new(),
            reducer: None,
            workload: workload.into(),
        }
    }

    /// Drops everything but the handle: the memory of a large workload may then serve the result, where new memory would
    /// cost more than copying it.
    pub(crate) fn into_handle(self) -> JobHandle {
        self.handle
    }

    /// Parses a JOB_ASSIGN, JOB_ASSIGN_UNIQ or JOB_ASSIGN_ALL packet; `known` finds a registered function.
    pub(super) fn parse(
        packet: &Packet,
        origin: &Origin,
        known: impl FnOnce(&[u8]) -> Option<FunctionName>,
    ) -> Result<Self, Error> {
        let (handle, function, unique, reducer, workload) = match packet.packet_type {
            PacketType::JobAssign => {
                let ([handle, function], workload) = packet.parts()?;
                (handle, function, &[][..], &[][..], workload)
            }
            PacketType::JobAssignUniq => {
                let ([handle, function, unique], workload) = packet.parts()?;
                (handle, function, unique, &[][..], workload)
            }
            _ => {
                let ([handle, function, unique, reducer], workload) = packet.parts()?;
                (handle, function, unique, reducer, workload)
            }
        };
        let shared = |part| packet.body.slice_ref(part);
        Ok(Assignment {
            handle: JobHandle::received(received_handle(handle)?, origin),
            function: match known(function) {
                Some(function) => function,
                None => FunctionName::received(function)?,
            },
            unique: shared(unique),
            reducer: (!reducer.is_empty()).then(|| shared(reducer)),
            workload: shared(workload),
        })
    }
}

impl std::fmt::Debug for Assignment {
    /// Workloads may be secret and large, so only their length is shown.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Assignment")
            .field("handle", &self.handle)
            .field("function", &self.function)
            .field("workload", &format_args!("{} bytes", self.workload.len()))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Magic;

    fn job(packet_type: PacketType, arguments: &[&str]) -> Assignment {
        let packet = Packet::new(Magic::Response, packet_type, arguments).unwrap();
        let origin = Origin { server: Address::default().into(), epoch: Epoch::next() };
        Assignment::parse(&packet, &origin, |_| None).unwrap()
    }

    #[test]
    fn each_kind_of_assignment_has_what_its_grab_asks_for() {
        for (packet_type, arguments, unique, reducer) in [
            (PacketType::JobAssign, &["H:x:1", "f", "w"][..], "", None),
            (PacketType::JobAssignUniq, &["H:x:1", "f", "u", "w"], "u", None),
            (PacketType::JobAssignAll, &["H:x:1", "f", "u", "", "w"], "u", None),
            (PacketType::JobAssignAll, &["H:x:1", "f", "u", "r", "w"], "u", Some("r")),
        ] {
            let job = job(packet_type, arguments);
            assert_eq!((job.handle.name(), job.function.as_bytes()), (&b"H:x:1"[..], &b"f"[..]));
            assert_eq!((job.unique, job.workload), (unique.into(), "w".into()));
            assert_eq!(job.reducer, reducer.map(Bytes::from), "{packet_type}");
        }
    }

    #[test]
    fn a_job_that_is_shown_keeps_its_data_to_itself() {
        let shown = format!("{:?}", job(PacketType::JobAssign, &["H:x:1", "f", "secret"]));
        assert!(shown.contains("H:x:1") && shown.contains("6 bytes"), "{shown}");
        assert!(!shown.contains("secret"), "{shown}");
    }
}
