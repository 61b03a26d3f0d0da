//! The table of the protocol's packets, and the packet as a value.

use std::{ffi::CStr, fmt};

use bytes::{BufMut, Bytes, BytesMut};

use crate::Error;

/// The direction of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From a client to the server.
    ClientToServer,
    /// From a worker to the server.
    WorkerToServer,
    /// From any peer to the server.
    AnyToServer,
    /// From the server to a client.
    ServerToClient,
    /// From the server to a worker.
    ServerToWorker,
    /// From the server to any peer.
    ServerToAny,
    /// From a worker to the server, and on to the clients that wait for the job.
    WorkerToClient,
    /// The number is not in use.
    Unused,
}

/// The first four bytes of a packet: whether it goes to the server or comes from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Magic {
    /// `\0REQ`: towards the server.
    Request,
    /// `\0RES`: from the server.
    Response,
}

impl Magic {
    /// The four bytes.
    #[must_use]
    pub const fn bytes(self) -> [u8; 4] {
        match self {
            Magic::Request => *b"\0REQ",
            Magic::Response => *b"\0RES",
        }
    }
}

/// Declares the packet types from their table.
macro_rules! packets {
    ($($(#[$doc:meta])* $number:literal $name:literal $variant:ident $direction:ident [$($argument:literal)*])+) => {
        /// The meaning of a packet.
        ///
        /// The numbers 1 to 42 are those of gearmand's `libgearman-1.0/protocol.h`; `PROTOCOL` documents most of them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum PacketType {
            $($(#[$doc])* $variant,)+
            /// A number outside of the table.
            Other(u32),
        }

        impl PacketType {
            /// Every type of the table, by number.
            pub const ALL: &'static [PacketType] = &[$(PacketType::$variant),+];

            /// The number on the wire.
            #[must_use]
            pub const fn number(self) -> u32 {
                match self {
                    $(PacketType::$variant => $number,)+
                    PacketType::Other(number) => number,
                }
            }

            /// The name in the protocol's documents, such as `SUBMIT_JOB`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(PacketType::$variant => $name,)+
                    PacketType::Other(_) => "unknown packet",
                }
            }

            /// Its direction.
            #[must_use]
            pub const fn direction(self) -> Direction {
                match self {
                    $(PacketType::$variant => Direction::$direction,)+
                    PacketType::Other(_) => Direction::Unused,
                }
            }

            /// The names of the arguments. All but the last end with a NUL; the last runs to the end of the packet.
            #[must_use]
            pub const fn arguments(self) -> &'static [&'static str] {
                match self {
                    $(PacketType::$variant => &[$($argument),*],)+
                    PacketType::Other(_) => &["data"],
                }
            }
        }

        impl From<u32> for PacketType {
            fn from(number: u32) -> Self {
                match number {
                    $($number => PacketType::$variant,)+
                    _ => PacketType::Other(number),
                }
            }
        }
    };
}

packets! {
    /// A worker announces a function. No reply.
    1 "CAN_DO" CanDo WorkerToServer ["function"]
    /// A worker withdraws a function. No reply; running jobs of the function go to other workers.
    2 "CANT_DO" CantDo WorkerToServer ["function"]
    /// A worker withdraws all functions. No reply; running jobs go to other workers.
    3 "RESET_ABILITIES" ResetAbilities WorkerToServer []
    /// A worker waits for NOOP, which comes at once if there is a job.
    4 "PRE_SLEEP" PreSleep WorkerToServer []
    /// Not in use.
    5 "(unused)" Unused Unused []
    /// Wakes a worker: there may be a job.
    6 "NOOP" Noop ServerToWorker []
    /// Submits a foreground job.
    7 "SUBMIT_JOB" SubmitJob ClientToServer ["function" "unique" "data"]
    /// A job was accepted.
    8 "JOB_CREATED" JobCreated ServerToClient ["handle"]
    /// Asks for a job.
    9 "GRAB_JOB" GrabJob WorkerToServer []
    /// There is no job now.
    10 "NO_JOB" NoJob ServerToWorker []
    /// A job for a worker.
    11 "JOB_ASSIGN" JobAssign ServerToWorker ["handle" "function" "data"]
    /// Progress of a job.
    12 "WORK_STATUS" WorkStatus WorkerToClient ["handle" "numerator" "denominator"]
    /// A job is done.
    13 "WORK_COMPLETE" WorkComplete WorkerToClient ["handle" "data"]
    /// A job failed.
    14 "WORK_FAIL" WorkFail WorkerToClient ["handle"]
    /// Asks for the status of a job.
    15 "GET_STATUS" GetStatus ClientToServer ["handle"]
    /// Asks for the same bytes back.
    16 "ECHO_REQ" EchoReq AnyToServer ["data"]
    /// The same bytes back.
    17 "ECHO_RES" EchoRes ServerToAny ["data"]
    /// Submits a background job.
    18 "SUBMIT_JOB_BG" SubmitJobBg ClientToServer ["function" "unique" "data"]
    /// An error reply.
    19 "ERROR" Error ServerToAny ["code" "text"]
    /// The status of a job.
    20 "STATUS_RES" StatusRes ServerToClient ["handle" "known" "running" "numerator" "denominator"]
    /// Submits a foreground job of high priority.
    21 "SUBMIT_JOB_HIGH" SubmitJobHigh ClientToServer ["function" "unique" "data"]
    /// Names a worker. No reply.
    22 "SET_CLIENT_ID" SetClientId WorkerToServer ["id"]
    /// A worker announces a function, and a time in milliseconds after which the server may give a job to other
    /// workers. No reply.
    23 "CAN_DO_TIMEOUT" CanDoTimeout WorkerToServer ["function" "timeout"]
    /// Not supported by gearmand.
    24 "ALL_YOURS" AllYours WorkerToServer []
    /// A job failed with an exception.
    25 "WORK_EXCEPTION" WorkException WorkerToClient ["handle" "data"]
    /// Sets an option of the connection.
    26 "OPTION_REQ" OptionReq AnyToServer ["option"]
    /// An option is set.
    27 "OPTION_RES" OptionRes ServerToAny ["option"]
    /// Partial data of a job.
    28 "WORK_DATA" WorkData WorkerToClient ["handle" "data"]
    /// A warning from a job.
    29 "WORK_WARNING" WorkWarning WorkerToClient ["handle" "data"]
    /// Asks for a job with its unique id.
    30 "GRAB_JOB_UNIQ" GrabJobUniq WorkerToServer []
    /// A job for a worker, with its unique id.
    31 "JOB_ASSIGN_UNIQ" JobAssignUniq ServerToWorker ["handle" "function" "unique" "data"]
    /// Submits a background job of high priority.
    32 "SUBMIT_JOB_HIGH_BG" SubmitJobHighBg ClientToServer ["function" "unique" "data"]
    /// Submits a foreground job of low priority.
    33 "SUBMIT_JOB_LOW" SubmitJobLow ClientToServer ["function" "unique" "data"]
    /// Submits a background job of low priority.
    34 "SUBMIT_JOB_LOW_BG" SubmitJobLowBg ClientToServer ["function" "unique" "data"]
    /// Submits a job with a cron-like schedule. Not supported by gearmand.
    35 "SUBMIT_JOB_SCHED" SubmitJobSched ClientToServer
        ["function" "unique" "minute" "hour" "day of month" "month" "day of week" "data"]
    /// Submits a background job for a given time, in seconds since 1970.
    36 "SUBMIT_JOB_EPOCH" SubmitJobEpoch ClientToServer ["function" "unique" "epoch" "data"]
    /// Submits a foreground job with a reducer. The server reads the fourth argument without using it.
    37 "SUBMIT_REDUCE_JOB" SubmitReduceJob ClientToServer ["function" "unique" "reducer" "unused" "data"]
    /// Submits a background job with a reducer.
    38 "SUBMIT_REDUCE_JOB_BACKGROUND" SubmitReduceJobBackground ClientToServer
        ["function" "unique" "reducer" "unused" "data"]
    /// Asks for a job with all its attributes.
    39 "GRAB_JOB_ALL" GrabJobAll WorkerToServer []
    /// A job for a worker, with its unique id and its reducer.
    40 "JOB_ASSIGN_ALL" JobAssignAll ServerToWorker ["handle" "function" "unique" "reducer" "data"]
    /// Asks for the status of a job, by its unique id.
    41 "GET_STATUS_UNIQUE" GetStatusUnique ClientToServer ["unique"]
    /// The status of a job that was asked for by its unique id, which is the first argument.
    42 "STATUS_RES_UNIQUE" StatusResUnique ServerToClient
        ["unique" "known" "running" "numerator" "denominator" "clients"]
}

impl PacketType {
    /// Whether a client or a worker sends it.
    #[must_use]
    pub const fn is_request(self) -> bool {
        matches!(
            self.direction(),
            Direction::ClientToServer
                | Direction::WorkerToServer
                | Direction::AnyToServer
                | Direction::WorkerToClient
        )
    }

    /// Whether a server sends it.
    #[must_use]
    pub const fn is_response(self) -> bool {
        matches!(
            self.direction(),
            Direction::ServerToClient
                | Direction::ServerToWorker
                | Direction::ServerToAny
                | Direction::WorkerToClient
        )
    }

    /// The type with this name, such as `SUBMIT_JOB`, ignoring case.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|packet| packet.name().eq_ignore_ascii_case(name))
    }
}

impl fmt::Display for PacketType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PacketType::Other(number) => write!(f, "packet type {number}"),
            known => f.pad(known.name()),
        }
    }
}

/// A packet: its type, and its arguments as sent on the wire.
#[derive(Clone, PartialEq, Eq)]
pub struct Packet {
    /// Towards the server, or from it.
    pub magic: Magic,
    /// Its meaning.
    pub packet_type: PacketType,
    /// Everything after the header. Cheap to clone; shares the receive buffer.
    pub body: Bytes,
}

/// Magic, type and size.
pub(crate) const HEADER: usize = 12;

impl Packet {
    /// A packet with these arguments.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when their number does not match the type, when one that ends with a NUL contains one, or when
    /// they exceed the maximum packet size.
    pub fn new<A: AsRef<[u8]>>(
        magic: Magic,
        packet_type: PacketType,
        arguments: &[A],
    ) -> Result<Self, Error> {
        let names = packet_type.arguments();
        // A type without arguments may carry data, which the server ignores.
        if arguments.len() != names.len() && !(names.is_empty() && arguments.len() == 1) {
            return Err(Error::invalid(format!(
                "{packet_type} takes {} arguments ({}), not {}",
                names.len(),
                names.join(", "),
                arguments.len()
            )));
        }
        let mut body = BytesMut::new();
        for (at, argument) in arguments.iter().enumerate() {
            let argument = argument.as_ref();
            let is_last = at + 1 == arguments.len();
            if !is_last && argument.contains(&0) {
                let name = names.get(at).copied().unwrap_or_default();
                return Err(Error::invalid(format!(
                    "the {name} of {packet_type} is not valid: it holds a NUL, which separates arguments"
                )));
            }
            body.put_slice(argument);
            if !is_last {
                body.put_u8(0);
            }
        }
        size_of_packet(&[body.len()])?;
        Ok(Packet { magic, packet_type, body: body.freeze() })
    }

    /// The arguments of the packet's type.
    ///
    /// # Errors
    ///
    /// `Protocol` when there are fewer than the type requires.
    pub fn arguments(&self) -> Result<Vec<Bytes>, Error> {
        let count = self.packet_type.arguments().len();
        let mut rest = &self.body[..];
        let mut arguments = Vec::with_capacity(count);
        for _ in 1..count {
            let argument;
            (argument, rest) = self.cut(rest)?;
            arguments.push(self.body.slice_ref(argument));
        }
        if count > 0 {
            arguments.push(self.body.slice_ref(rest));
        }
        Ok(arguments)
    }

    /// The first `N` arguments of a packet with at least one more, and the rest.
    pub(crate) fn split<const N: usize>(&self) -> Result<([Bytes; N], Bytes), Error> {
        let (arguments, rest) = self.parts()?;
        Ok((arguments.map(|argument| self.body.slice_ref(argument)), self.body.slice_ref(rest)))
    }

    /// The same without sharing the body, which costs more than the search.
    pub(crate) fn parts<const N: usize>(&self) -> Result<([&[u8]; N], &[u8]), Error> {
        let mut rest = &self.body[..];
        let mut arguments = [&[][..]; N];
        for argument in &mut arguments {
            (*argument, rest) = self.cut(rest)?;
        }
        Ok((arguments, rest))
    }

    /// The bytes before the first NUL, and those after it.
    fn cut<'b>(&self, rest: &'b [u8]) -> Result<(&'b [u8], &'b [u8]), Error> {
        // This search handles several bytes at a time.
        let end = CStr::from_bytes_until_nul(rest).ok().map(CStr::count_bytes);
        let Some((argument, [_, rest @ ..])) = end.and_then(|end| rest.split_at_checked(end))
        else {
            return Err(Error::protocol(format!(
                "{} lacks some of its {} arguments",
                self.packet_type,
                self.packet_type.arguments().len()
            )));
        };
        Ok((argument, rest))
    }

    /// Writes the packet.
    pub fn encode(&self, out: &mut BytesMut) {
        header(out, self.magic, self.packet_type, self.body.len());
        out.put_slice(&self.body);
    }
}

impl fmt::Debug for Packet {
    /// Bodies may be secret and large, so only their length is shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({} bytes)", self.packet_type, self.body.len())
    }
}

/// Room for small requests behind another one, such as that for the next job behind a result: a buffer that grows for
/// them copies what is in it, which may be large.
const BEHIND: usize = 256;

/// Writes a request with validated arguments.
pub(crate) fn request(
    out: &mut BytesMut,
    packet_type: PacketType,
    arguments: &[&[u8]],
    last: &[u8],
) {
    let size = arguments.iter().map(|argument| argument.len() + 1).sum::<usize>() + last.len();
    if out.capacity() - out.len() < HEADER + size {
        out.reserve(HEADER + size + BEHIND);
    }
    header(out, Magic::Request, packet_type, size);
    for argument in arguments {
        out.put_slice(argument);
        out.put_u8(0);
    }
    out.put_slice(last);
}

fn header(out: &mut BytesMut, magic: Magic, packet_type: PacketType, size: usize) {
    let mut header = [0; HEADER];
    let (first, rest) = header.split_at_mut(4);
    let (second, third) = rest.split_at_mut(4);
    first.copy_from_slice(&magic.bytes());
    second.copy_from_slice(&packet_type.number().to_be_bytes());
    // Sizes are checked when a request or a packet is built.
    third.copy_from_slice(&u32::try_from(size).unwrap_or(u32::MAX).to_be_bytes());
    out.put_slice(&header);
}

/// Refuses arguments that exceed the 32-bit size of a packet.
pub(crate) fn size_of_packet(parts: &[usize]) -> Result<(), Error> {
    let size = parts.iter().fold(0_usize, |sum, part| sum.saturating_add(*part));
    if u32::try_from(size).is_ok() {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "packet of {size} bytes is too large: the protocol carries at most {} bytes",
        u32::MAX
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_survives_encoding_in_both_directions() {
        for packet_type in PacketType::ALL.iter().copied().chain([PacketType::Other(u32::MAX)]) {
            for magic in [Magic::Request, Magic::Response] {
                let arguments: Vec<String> =
                    packet_type.arguments().iter().map(|name| format!("<{name}>")).collect();
                let packet = Packet::new(magic, packet_type, &arguments).unwrap();
                let mut wire = BytesMut::new();
                packet.encode(&mut wire);
                assert_eq!(wire[..4], magic.bytes());
                assert_eq!(wire[4..8], packet_type.number().to_be_bytes());
                assert_eq!(wire.len(), 12 + packet.body.len());
                assert_eq!(packet.arguments().unwrap(), arguments);
            }
        }
    }

    #[test]
    fn a_small_request_behind_a_large_one_moves_nothing() {
        let mut out = BytesMut::new();
        request(&mut out, PacketType::WorkComplete, &[b"H:x:1"], &vec![7; 1 << 20]);
        let room = out.capacity();
        request(&mut out, PacketType::GrabJobAll, &[], b"");
        assert_eq!(out.capacity(), room);
    }

    #[test]
    fn short_argument_lists_are_never_built() {
        let three = [b"f", b"u", b"r"];
        let error = Packet::new(Magic::Request, PacketType::SubmitReduceJob, &three).unwrap_err();
        assert_eq!(
            error.to_string(),
            "SUBMIT_REDUCE_JOB takes 5 arguments (function, unique, reducer, unused, data), not 3"
        );
        assert!(
            Packet::new(Magic::Request, PacketType::SubmitJob, &["f\0u", "", "d"]).is_err(),
            "a NUL would shift the arguments"
        );
    }

    /// The server would take the next packet for the missing argument.
    #[test]
    fn a_lone_argument_is_refused_and_data_without_a_meaning_is_not() {
        for packet_type in [PacketType::SubmitJob, PacketType::WorkComplete] {
            assert!(Packet::new(Magic::Request, packet_type, &["one"]).is_err(), "{packet_type}");
        }
        let asleep = |arguments: &[&str]| {
            Packet::new(Magic::Request, PacketType::PreSleep, arguments).map(|packet| packet.body)
        };
        assert_eq!(asleep(&[]).unwrap(), "");
        assert_eq!(asleep(&["ignored"]).unwrap(), "ignored");
        assert!(asleep(&["one", "two"]).is_err());
    }

    #[test]
    fn oversized_packets_are_refused_as_a_whole() {
        assert!(size_of_packet(&[u32::MAX as usize - 7, 7]).is_ok());
        #[cfg(target_pointer_width = "64")]
        {
            let error = size_of_packet(&[u32::MAX as usize, 7]).unwrap_err();
            assert_eq!(
                error.to_string(),
                "packet of 4294967302 bytes is too large: the protocol carries at most 4294967295 bytes"
            );
            assert!(size_of_packet(&[7, usize::MAX]).is_err());
        }
    }

    #[test]
    fn a_packet_that_is_shown_keeps_its_data_to_itself() {
        let packet = Packet::new(Magic::Request, PacketType::EchoReq, &["secret"]).unwrap();
        assert_eq!(format!("{packet:?}"), "ECHO_REQ(6 bytes)");
    }

    #[test]
    fn missing_arguments_are_a_protocol_error() {
        let body = Bytes::from_static(b"H:x:1");
        let packet = Packet { magic: Magic::Response, packet_type: PacketType::WorkComplete, body };
        let error = packet.arguments().unwrap_err();
        assert_eq!(error.to_string(), "WORK_COMPLETE lacks some of its 2 arguments");
    }
}
