//! Requests of the client role as values, and their replies.

use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};

use crate::{
    Error, ErrorKind, FunctionName, JobHandle, Origin, Priority, Schedule, SubmitOptions, Unique,
    UniqueId,
    error::excerpt,
    names::short::ShortId,
    protocol::{
        Packet, PacketType,
        packet::{request, size_of_packet},
    },
    text::Decimal,
};

/// A client's request, which the server answers in the order of the requests.
pub trait Request {
    /// The decoded answer.
    type Reply;

    /// The packet type of the request.
    fn packet_type(&self) -> PacketType;

    /// The packet type of a successful answer.
    fn answered_by(&self) -> PacketType;

    /// Writes the packet.
    fn encode(&self, out: &mut BytesMut);

    /// Decodes the answer, which arrived over this connection.
    ///
    /// # Errors
    ///
    /// Any refusal by the server; `Protocol` when the packet does not answer this request.
    fn decode(&self, answer: Packet, origin: &Origin) -> Result<Self::Reply, Error>;

    /// Whether the server sends events of a job after its answer.
    fn has_events(&self) -> bool {
        false
    }

    /// The key by which requests are sent to the same one of several servers, if it matters.
    fn route(&self) -> Option<&[u8]> {
        None
    }

    /// The function that it concerns, if any.
    fn function(&self) -> Option<&FunctionName> {
        None
    }

    /// The job that it concerns, if it names one by its handle. With a handle that names its server, the request goes
    /// to no other one.
    fn handle(&self) -> Option<&JobHandle> {
        None
    }
}

impl<R: Request> Request for &R {
    type Reply = R::Reply;

    fn packet_type(&self) -> PacketType {
        R::packet_type(self)
    }

    fn answered_by(&self) -> PacketType {
        R::answered_by(self)
    }

    fn encode(&self, out: &mut BytesMut) {
        R::encode(self, out);
    }

    fn decode(&self, answer: Packet, origin: &Origin) -> Result<Self::Reply, Error> {
        R::decode(self, answer, origin)
    }

    fn has_events(&self) -> bool {
        R::has_events(self)
    }

    fn route(&self) -> Option<&[u8]> {
        R::route(self)
    }

    fn function(&self) -> Option<&FunctionName> {
        R::function(self)
    }

    fn handle(&self) -> Option<&JobHandle> {
        R::handle(self)
    }
}

/// Submits a job: one of SUBMIT_JOB and its ten relatives.
#[derive(Clone, Debug)]
pub struct Submit<W> {
    packet_type: PacketType,
    function: FunctionName,
    unique: ShortId,
    /// Whether the caller chose the unique id.
    is_chosen: bool,
    extra: ExtraArguments,
    workload: W,
}

/// The arguments between the unique id and the workload.
#[derive(Clone, Debug)]
enum ExtraArguments {
    Nothing,
    Epoch(u64),
    Schedule(Schedule),
    Reducer(FunctionName),
}

/// A job that the server has accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Submitted {
    /// The server's name for it.
    pub handle: JobHandle,
    /// The unique id that it was submitted with, if any.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub unique: Option<UniqueId>,
}

impl<W: AsRef<[u8]>> Submit<W> {
    /// A job whose events the submitter waits for.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if the workload does not fit into a packet.
    pub fn foreground(
        function: FunctionName,
        workload: W,
        options: SubmitOptions,
    ) -> Result<Self, Error> {
        let packet_type = match options.priority {
            Priority::High => PacketType::SubmitJobHigh,
            Priority::Normal => PacketType::SubmitJob,
            Priority::Low => PacketType::SubmitJobLow,
        };
        Self::new(packet_type, function, workload, options, ExtraArguments::Nothing)
    }

    /// A background job.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if the workload does not fit into a packet.
    pub fn background(
        function: FunctionName,
        workload: W,
        options: SubmitOptions,
    ) -> Result<Self, Error> {
        let packet_type = match options.priority {
            Priority::High => PacketType::SubmitJobHighBg,
            Priority::Normal => PacketType::SubmitJobBg,
            Priority::Low => PacketType::SubmitJobLowBg,
        };
        Self::new(packet_type, function, workload, options, ExtraArguments::Nothing)
    }

    /// A background job that is not given to a worker before `at`, in whole seconds (rounded up).
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a time before 1970 or too far ahead, and for a priority other than normal: the packet carries
    /// none.
    pub fn epoch(
        function: FunctionName,
        workload: W,
        at: SystemTime,
        options: SubmitOptions,
    ) -> Result<Self, Error> {
        only_normal(PacketType::SubmitJobEpoch, options)?;
        let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let seconds = since.as_secs().saturating_add(u64::from(since.subsec_nanos() > 0));
        // The server parses a signed number, and does not answer if it overflows; it runs 0 at once.
        if seconds == 0 || i64::try_from(seconds).is_err() {
            let why = "the time of the job is not valid: it is before 1970 or too far ahead";
            return Err(Error::invalid(why));
        }
        let extra = ExtraArguments::Epoch(seconds);
        Self::new(PacketType::SubmitJobEpoch, function, workload, options, extra)
    }

    /// A background job with a cron-like schedule. gearmand refuses it.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a priority other than normal.
    pub fn sched(
        function: FunctionName,
        workload: W,
        schedule: Schedule,
        options: SubmitOptions,
    ) -> Result<Self, Error> {
        only_normal(PacketType::SubmitJobSched, options)?;
        let extra = ExtraArguments::Schedule(schedule);
        Self::new(PacketType::SubmitJobSched, function, workload, options, extra)
    }

    /// A foreground job with the name of a reducer function for its worker.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a priority other than normal.
    pub fn reduce(
        function: FunctionName,
        workload: W,
        reducer: FunctionName,
        options: SubmitOptions,
    ) -> Result<Self, Error> {
        only_normal(PacketType::SubmitReduceJob, options)?;
        let extra = ExtraArguments::Reducer(reducer);
        Self::new(PacketType::SubmitReduceJob, function, workload, options, extra)
    }

    /// A background job with the name of a reducer function for its worker.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a priority other than normal.
    pub fn reduce_background(
        function: FunctionName,
        workload: W,
        reducer: FunctionName,
        options: SubmitOptions,
    ) -> Result<Self, Error> {
        only_normal(PacketType::SubmitReduceJobBackground, options)?;
        let extra = ExtraArguments::Reducer(reducer);
        Self::new(PacketType::SubmitReduceJobBackground, function, workload, options, extra)
    }

    fn new(
        packet_type: PacketType,
        function: FunctionName,
        workload: W,
        options: SubmitOptions,
        extra: ExtraArguments,
    ) -> Result<Self, Error> {
        let unique = match options.unique {
            Unique::Random => UniqueId::random().short(),
            Unique::Id(id) => id.short(),
            Unique::ByPayload => ShortId::cut(b"-"),
            Unique::None => ShortId::EMPTY,
        };
        // Names are bounded; 32 KiB are more than all arguments can have.
        size_of_packet(&[workload.as_ref().len(), 32 * 1024])
            .map_err(|error| error.with_command(packet_type.name()))?;
        let is_chosen = matches!(options.unique, Unique::Id(_));
        Ok(Submit { packet_type, function, unique, is_chosen, extra, workload })
    }

    /// The chosen unique id, if the job has one.
    #[must_use]
    pub fn unique(&self) -> Option<UniqueId> {
        match self.unique.as_bytes() {
            [] | b"-" => None,
            _ => Some(UniqueId::known(self.unique)),
        }
    }

    /// The bytes for the worker.
    #[must_use]
    pub fn workload(&self) -> &W {
        &self.workload
    }

    /// The function.
    #[must_use]
    pub fn function(&self) -> &FunctionName {
        &self.function
    }

    /// Turns it into another job with a new random id, unless the caller chose the id or it has none. Returns whether
    /// it may be resubmitted without joining the old job.
    pub fn renew(&mut self) -> bool {
        if self.is_chosen {
            return false;
        }
        if !self.unique.as_bytes().is_empty() {
            self.unique = ShortId::cut(UniqueId::random().as_bytes());
        }
        true
    }

    /// The same submission with a shared workload.
    pub(crate) fn owned(&self) -> Submit<Bytes> {
        Submit {
            packet_type: self.packet_type,
            function: self.function.clone(),
            unique: self.unique,
            is_chosen: self.is_chosen,
            extra: self.extra.clone(),
            workload: Bytes::copy_from_slice(self.workload.as_ref()),
        }
    }
}

fn only_normal(packet_type: PacketType, options: SubmitOptions) -> Result<(), Error> {
    let priority = options.priority;
    if priority == Priority::Normal {
        return Ok(());
    }
    let why = format!("priority {priority} is not possible here: {packet_type} carries none");
    Err(Error::invalid(why).with_command(packet_type.name()))
}

impl<W: AsRef<[u8]>> Request for Submit<W> {
    type Reply = Submitted;

    fn packet_type(&self) -> PacketType {
        self.packet_type
    }

    fn answered_by(&self) -> PacketType {
        PacketType::JobCreated
    }

    fn encode(&self, out: &mut BytesMut) {
        let function = self.function.as_bytes();
        let unique = self.unique.as_bytes();
        let workload = self.workload.as_ref();
        let mut write = |arguments: &[&[u8]]| request(out, self.packet_type, arguments, workload);
        match &self.extra {
            ExtraArguments::Nothing => write(&[function, unique]),
            ExtraArguments::Epoch(seconds) => {
                write(&[function, unique, Decimal::new(*seconds).as_bytes()]);
            }
            ExtraArguments::Schedule(schedule) => {
                let fields = schedule.fields.map(|field| Decimal::new(u64::from(field)));
                let [minute, hour, day, month, weekday] = fields.each_ref().map(Decimal::as_bytes);
                write(&[function, unique, minute, hour, day, month, weekday]);
            }
            // The server reads an undocumented fourth argument, and does not use it.
            ExtraArguments::Reducer(reducer) => {
                write(&[function, unique, reducer.as_bytes(), b""]);
            }
        }
    }

    fn decode(&self, answer: Packet, origin: &Origin) -> Result<Submitted, Error> {
        let handle = JobHandle::received(received_handle(&answer.body)?, origin);
        Ok(Submitted { handle, unique: self.unique() })
    }

    fn has_events(&self) -> bool {
        matches!(
            self.packet_type,
            PacketType::SubmitJob
                | PacketType::SubmitJobHigh
                | PacketType::SubmitJobLow
                | PacketType::SubmitReduceJob
        )
    }

    fn route(&self) -> Option<&[u8]> {
        match self.unique.as_bytes() {
            [] => None,
            b"-" => Some(self.workload.as_ref()),
            unique => Some(unique),
        }
    }

    fn function(&self) -> Option<&FunctionName> {
        Some(&self.function)
    }
}

/// A handle sent by the server, without trailing NULs.
pub(crate) fn received_handle(bytes: &[u8]) -> Result<ShortId, Error> {
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let name = bytes.get(..end).unwrap_or_default();
    ShortId::new(name).filter(|short| !short.as_bytes().is_empty()).ok_or_else(|| {
        Error::protocol("the server sent an invalid job handle").with_detail(excerpt(name))
    })
}

/// The error in an ERROR packet; a long one is truncated.
pub(crate) fn refusal(packet: &Packet) -> Error {
    let (code, text) = match packet.split::<1>() {
        Ok(([code], text)) => (code, text),
        Err(_) => (packet.body.clone(), Bytes::new()),
    };
    let code = String::from_utf8_lossy(&code).into_owned();
    // gearmand uses capitals, the Perl server lower case.
    let kind = match code.to_ascii_uppercase().as_str() {
        "QUEUE_ERROR" => ErrorKind::QueueFull,
        "JOB_NOT_FOUND" => ErrorKind::JobNotFound,
        "UNKNOWN_OPTION" => ErrorKind::UnknownOption,
        "ARGUMENT_TOO_LARGE" => ErrorKind::ArgumentTooLarge,
        "INVALID_COMMAND" => ErrorKind::Unsupported,
        // Perl's server calls a method of this name.
        _ if text.starts_with(b"Can't locate object method \"CMD_") => ErrorKind::Unsupported,
        _ => ErrorKind::Server,
    };
    let shown = code.escape_debug();
    let message = format!("the server refused: {shown} {}", excerpt(&text));
    Error::refused(kind, &code, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Epoch,
        protocol::{Echo, GetStatus, GetStatusUnique, Magic, SetExceptions},
    };

    fn origin() -> Origin {
        Origin { server: std::sync::Arc::default(), epoch: Epoch::next() }
    }

    fn function(name: &str) -> FunctionName {
        name.try_into().unwrap()
    }

    fn wire(request: &impl Request) -> Vec<u8> {
        let mut out = BytesMut::new();
        request.encode(&mut out);
        out.to_vec()
    }

    fn answer(packet_type: PacketType, body: &'static [u8]) -> Packet {
        Packet { magic: Magic::Response, packet_type, body: Bytes::from_static(body) }
    }

    fn with_unique(id: &str) -> SubmitOptions {
        SubmitOptions::default().unique(UniqueId::try_from(id).unwrap())
    }

    fn submit(unique: Unique) -> Submit<&'static str> {
        let options = SubmitOptions::default().unique(unique);
        Submit::background(function("f"), "data", options).unwrap()
    }

    #[test]
    fn the_worked_examples_of_the_protocol_are_byte_exact() {
        assert_eq!(wire(&Echo("hi")), b"\0REQ\0\0\0\x10\0\0\0\x02hi");
        let submit = Submit::background(function("rev"), "abc", with_unique("u1")).unwrap();
        assert_eq!(wire(&submit), b"\0REQ\0\0\0\x12\0\0\0\x0arev\0u1\0abc");
        assert_eq!(wire(&GetStatus("H:x:1".parse().unwrap())), b"\0REQ\0\0\0\x0f\0\0\0\x05H:x:1");
        assert_eq!(wire(&GetStatusUnique("u1".parse().unwrap())), b"\0REQ\0\0\0\x29\0\0\0\x02u1");
        assert_eq!(wire(&SetExceptions), b"\0REQ\0\0\0\x1a\0\0\0\x0aexceptions");
    }

    /// Only those of the foreground have events.
    #[test]
    fn every_submission_has_its_packet_and_all_its_arguments() {
        let options = with_unique("u");
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_500);
        let schedule = Schedule::new(1, 2, 3, 4, 5).unwrap();
        let f = || function("f");
        for (submit, number, body) in [
            (Submit::foreground(f(), "d", options), 7, &b"f\0u\0d"[..]),
            (Submit::foreground(f(), "d", options.priority(Priority::High)), 21, b"f\0u\0d"),
            (Submit::foreground(f(), "d", options.priority(Priority::Low)), 33, b"f\0u\0d"),
            (Submit::background(f(), "d", options), 18, b"f\0u\0d"),
            (Submit::background(f(), "d", options.priority(Priority::High)), 32, b"f\0u\0d"),
            (Submit::background(f(), "d", options.priority(Priority::Low)), 34, b"f\0u\0d"),
            (Submit::epoch(f(), "d", at, options), 36, b"f\0u\02\0d"),
            (Submit::sched(f(), "d", schedule, options), 35, b"f\0u\01\02\03\04\05\0d"),
            (Submit::reduce(f(), "d", function("r"), options), 37, b"f\0u\0r\0\0d"),
            (Submit::reduce_background(f(), "d", function("r"), options), 38, b"f\0u\0r\0\0d"),
        ] {
            let submit = submit.unwrap();
            let wire = wire(&submit);
            assert_eq!(wire[7], number);
            assert_eq!(&wire[12..], body, "type {number}");
            assert_eq!(submit.has_events(), [7, 21, 33, 37].contains(&number), "type {number}");
        }
        assert!(!Echo("").has_events());
    }

    #[test]
    fn a_packet_without_priorities_refuses_one() {
        let options = SubmitOptions::default().priority(Priority::High);
        let error = Submit::reduce(function("f"), "", function("r"), options).unwrap_err();
        assert_eq!(
            error.to_string(),
            "SUBMIT_REDUCE_JOB: priority high is not possible here: SUBMIT_REDUCE_JOB carries none"
        );
        let long_ago = SystemTime::UNIX_EPOCH;
        assert!(Submit::epoch(function("f"), "", long_ago, SubmitOptions::default()).is_err());
    }

    #[test]
    fn unique_is_random_unless_chosen() {
        assert_ne!(submit(Unique::Random).unique(), submit(Unique::Random).unique());
        assert_eq!(submit(Unique::ByPayload).unique(), None);
        assert_eq!(&wire(&submit(Unique::ByPayload))[12..], b"f\0-\0data");
        assert_eq!(&wire(&submit(Unique::None))[12..], b"f\0\0data");
    }

    #[test]
    fn a_job_whose_id_was_not_chosen_can_be_submitted_again_as_another() {
        let mut random = submit(Unique::Random);
        let first = random.unique().unwrap();
        assert!(random.renew());
        assert_ne!(random.unique().unwrap(), first);
        let mut nameless = submit(Unique::None);
        assert!(nameless.renew());
        assert_eq!(nameless.unique(), None);
        // It would join the old job.
        let mut chosen = submit(Unique::Id("u".parse().unwrap()));
        assert!(!chosen.renew());
        assert_eq!(chosen.unique(), Some("u".parse().unwrap()));
    }

    #[test]
    fn equal_ids_go_to_the_same_server() {
        let key = |unique: Unique| submit(unique).route().map(<[u8]>::to_vec);
        assert_eq!(key(Unique::Id("u1".parse().unwrap())).unwrap(), b"u1");
        assert_eq!(GetStatusUnique("u1".parse().unwrap()).route().unwrap(), b"u1");
        assert_eq!(key(Unique::ByPayload).unwrap(), b"data", "the server joins equal data");
        assert_eq!(key(Unique::None), None);
        assert_eq!(Echo("hi").route(), None);
    }

    #[test]
    fn a_borrowed_request_is_the_request() {
        let submit = Submit::foreground(function("f"), "d", with_unique("u")).unwrap();
        let borrowed = &&submit;
        assert_eq!(wire(borrowed), wire(&submit));
        assert_eq!(Request::packet_type(borrowed), PacketType::SubmitJob);
        assert_eq!(borrowed.answered_by(), PacketType::JobCreated);
        assert!(Request::has_events(borrowed) && !Request::has_events(&&Echo("")));
        assert_eq!(Request::route(borrowed), Some(&b"u"[..]));
        assert_eq!(Request::function(borrowed), Some(&function("f")));
        let created = borrowed.decode(answer(PacketType::JobCreated, b"H:x:1"), &origin()).unwrap();
        assert_eq!(
            (created.handle.name(), created.unique.unwrap()),
            (&b"H:x:1"[..], "u".parse().unwrap())
        );
    }

    #[test]
    fn a_job_without_a_name_is_a_protocol_error() {
        let submit = Submit::background(function("f"), "d", SubmitOptions::default()).unwrap();
        for body in [&b""[..], b"\0", b"\0\0", &[b'x'; 64]] {
            let answer = answer(PacketType::JobCreated, body);
            let error = submit.decode(answer, &origin()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Protocol, "{body:?}");
        }
        let longest = answer(PacketType::JobCreated, &[b'x'; 63]);
        assert_eq!(submit.decode(longest, &origin()).unwrap().handle.name().len(), 63);
    }

    #[test]
    fn quirk_status_numbers_may_be_empty() {
        let asked = GetStatus("H:x:1".parse().unwrap());
        let status = asked.decode(answer(PacketType::StatusRes, b"H:x:1\00\00\0\0"), &origin());
        let status = status.unwrap();
        assert!(!status.is_known && !status.is_running);
        assert_eq!((status.progress.numerator(), status.progress.denominator()), (None, None));
    }

    #[test]
    fn quirk_the_unique_status_starts_with_the_unique() {
        let asked = GetStatusUnique("u1".parse().unwrap());
        let body = b"u1\01\00\03\04\02";
        let status = asked.decode(answer(PacketType::StatusResUnique, body), &origin()).unwrap();
        assert!(status.is_known && !status.is_running);
        assert_eq!((status.progress.share(), status.waiting), (Some(0.75), Some(2)));
    }

    #[test]
    fn an_answer_about_another_job_is_noticed() {
        let asked = GetStatus("H:x:1".parse().unwrap());
        let other = answer(PacketType::StatusRes, b"H:x:2\00\00\00\00");
        assert_eq!(asked.decode(other, &origin()).unwrap_err().kind(), ErrorKind::Protocol);
        let echoed = Echo("a").decode(answer(PacketType::EchoRes, b"b"), &origin());
        assert_eq!(echoed.unwrap_err().kind(), ErrorKind::Protocol);
    }

    #[test]
    fn quirk_the_option_may_come_back_in_capitals_or_with_a_nul() {
        for body in [&b"exceptions"[..], b"EXCEPTIONS", b"Exceptions\0"] {
            SetExceptions.decode(answer(PacketType::OptionRes, body), &origin()).unwrap();
        }
        for body in [&b"exception"[..], b"exceptions2", b"", b"\0exceptions"] {
            let error = SetExceptions.decode(answer(PacketType::OptionRes, body), &origin());
            assert_eq!(error.unwrap_err().kind(), ErrorKind::Protocol, "it set something else");
        }
    }

    #[test]
    fn refusals_keep_code_and_text() {
        for (body, kind, code) in [
            (&b"QUEUE_ERROR\0Job queue is full"[..], ErrorKind::QueueFull, "QUEUE_ERROR"),
            (b"server_error\0what\nnow", ErrorKind::Server, "server_error"),
            (b"unknown_option\0", ErrorKind::UnknownOption, "unknown_option"),
            (
                b"ARGUMENT_TOO_LARGE\0Unique value too large",
                ErrorKind::ArgumentTooLarge,
                "ARGUMENT_TOO_LARGE",
            ),
            (b"no text", ErrorKind::Server, "no text"),
            (
                b"server_error\0Can't locate object method \"CMD_get_status_unique\" via package",
                ErrorKind::Unsupported,
                "server_error",
            ),
        ] {
            let error = refusal(&answer(PacketType::Error, body));
            assert_eq!((error.kind(), error.code()), (kind, Some(code)));
            assert_eq!(error.fate(), crate::Fate::Refused);
            assert!(!error.to_string().contains('\n'));
        }
    }
}
