//! Answers that arrive in pieces, all at once, or incomplete.

use std::{fmt::Debug, time::Duration};

use gearman_client::{
    ConnectOptions, Deadline, ErrorKind, Fate, JobEvent, Result, RetryPolicy,
    protocol::{Echo, PacketType, Request},
};
use queue_core::proof::{Scripted, Step};

use super::{
    catalogue::{self, VISITED, Visitor, shown},
    face::{Blocking, Face, both_faces},
    support::{PATIENCE, options, wire},
};

const SHORT: Duration = Duration::from_millis(3);

/// The options of a client over a script: it sends nothing on its own.
fn scripted() -> ConnectOptions {
    let options: ConnectOptions = "scripted:1".parse().unwrap();
    options.exceptions(false).retry(RetryPolicy::never())
}

/// One call over a scripted stream, and whether the connection is still good after it.
fn call<F: Face, R: Request>(
    stream: Scripted,
    options: ConnectOptions,
    request: &R,
) -> (Result<R::Reply>, bool) {
    let mut client = F::from_stream(stream, options);
    (client.call(request), client.is_connected())
}

/// The events of one job over a scripted stream.
fn submit<F: Face>(stream: Scripted) -> Vec<Result<JobEvent>> {
    match F::from_stream(stream, scripted()).submit("f", b"w", options()) {
        Ok((_, events)) => events,
        Err(error) => vec![Err(error)],
    }
}

both_faces!(
    an_answer_is_the_same_however_it_is_cut,
    events_are_the_same_however_they_are_cut,
    partial_writes_and_interruptions_change_nothing,
    a_connection_that_breaks_at_any_byte_gives_one_error_with_its_fate,
    a_job_whose_events_break_off_at_any_byte_has_an_unknown_outcome,
    answers_that_break_the_protocol_close_the_connection,
    a_request_that_the_stream_takes_only_in_part_is_not_sent,
);

/// The pieces that bytes are cut into: in two at every place, byte by byte, and by some patterns.
fn cuts(bytes: &[u8]) -> Vec<Vec<Vec<u8>>> {
    let mut all: Vec<Vec<Vec<u8>>> =
        (1..bytes.len()).map(|at| vec![bytes[..at].to_vec(), bytes[at..].to_vec()]).collect();
    for size in [1, 2, 3, 5, 7, 11, 13] {
        all.push(bytes.chunks(size).map(<[u8]>::to_vec).collect());
    }
    all
}

fn pieces(pieces: Vec<Vec<u8>>) -> Scripted {
    // Between two pieces a signal, or a moment without anything.
    let between = [Step::WouldBlock, Step::Interrupted];
    let steps = pieces.into_iter().enumerate().flat_map(|(n, piece)| {
        let pause = between[n % 2].clone();
        [Step::Bytes(piece), pause]
    });
    Scripted::answering(steps)
}

struct Cut<F>(usize, std::marker::PhantomData<F>);

impl<F: Face> Visitor for Cut<F> {
    fn visit<R>(&mut self, request: R, answers: &[Vec<u8>])
    where
        R: Request + Clone + Debug + Send + 'static,
        R::Reply: Debug + Send,
    {
        self.0 += 1;
        for answer in answers {
            let whole = Scripted::answering([Step::Bytes(answer.clone())]);
            let (whole, _) = call::<F, _>(whole, scripted(), &request);
            let is_error = answer[7] == 19;
            assert!(is_error || whole.is_ok(), "{request:?}: {whole:?}");
            for cut in cuts(answer) {
                let (outcome, is_good) = call::<F, _>(pieces(cut), scripted(), &request);
                assert_eq!(shown(&outcome), shown(&whole));
                assert!(is_good, "{request:?}");
            }
        }
    }
}

/// C5.
fn an_answer_is_the_same_however_it_is_cut<F: Face>() {
    let mut visitor = Cut::<F>(0, std::marker::PhantomData);
    catalogue::each(&mut visitor);
    assert_eq!(visitor.0, VISITED);
}

/// A whole job, with unrelated packets in between.
fn a_job() -> (Vec<u8>, Vec<JobEvent>) {
    let handle = "H:vm:1";
    let wire = [
        wire(PacketType::Noop, &[]),
        wire(PacketType::JobCreated, &[handle]),
        wire(PacketType::WorkData, &["H:vm:9", "somebody else's"]),
        wire(PacketType::WorkStatus, &[handle, "1", "2"]),
        wire(PacketType::WorkData, &[handle, "a\0b"]),
        wire(PacketType::Noop, &[]),
        wire(PacketType::WorkWarning, &[handle, ""]),
        wire(PacketType::WorkComplete, &[handle, "\0"]),
    ];
    let JobEvent::Status(progress) = status_event() else { unreachable!() };
    let events = vec![
        JobEvent::Status(progress),
        JobEvent::Data("a\0b".into()),
        JobEvent::Warning("".into()),
        JobEvent::Complete("\0".into()),
    ];
    (wire.concat(), events)
}

fn status_event() -> JobEvent {
    let answer = [
        wire(PacketType::JobCreated, &["H:vm:1"]),
        wire(PacketType::WorkStatus, &["H:vm:1", "1", "2"]),
        wire(PacketType::WorkFail, &["H:vm:1"]),
    ];
    let events = submit::<Blocking>(Scripted::answering([Step::Bytes(answer.concat())]));
    events.into_iter().next().unwrap().unwrap()
}

/// C5, G13: even if all of it arrives at once.
fn events_are_the_same_however_they_are_cut<F: Face>() {
    let (bytes, expected) = a_job();
    let mut all = cuts(&bytes);
    all.push(vec![bytes]);
    for cut in all {
        let events: Vec<_> = submit::<F>(pieces(cut)).into_iter().map(Result::unwrap).collect();
        assert_eq!(events, expected);
    }
}

/// C6.
fn partial_writes_and_interruptions_change_nothing<F: Face>() {
    let answer = wire(PacketType::EchoRes, &["hello"]);
    for piece in 1..17 {
        // A request of 17 bytes, in pieces, with interruptions.
        let writes = (0..17_usize.div_ceil(piece)).flat_map(|n| {
            let again = if n % 2 == 0 { Step::Interrupted } else { Step::WouldBlock };
            [again, Step::Accept(piece)]
        });
        let reads = [Step::Interrupted, Step::Bytes(answer.clone())];
        let stream = Scripted::answering(reads).writing(writes);
        let (outcome, is_good) = call::<F, _>(stream, scripted(), &Echo("hello"));
        assert_eq!(outcome.unwrap(), "hello");
        assert!(is_good);
    }
}

struct Break<F>(usize, std::marker::PhantomData<F>);

impl<F: Face> Visitor for Break<F> {
    fn visit<R>(&mut self, request: R, answers: &[Vec<u8>])
    where
        R: Request + Clone + Debug + Send + 'static,
        R::Reply: Debug + Send,
    {
        for answer in answers {
            for cut in 0..answer.len() {
                // The same in each part of a packet.
                let is_waited_for = [0, 1, 11, 12, answer.len() - 1].contains(&cut);
                let silence = is_waited_for.then_some((None, ErrorKind::Timeout(Deadline::Reply)));
                let ends =
                    [Step::End, Step::Reset].map(|end| (Some(end), ErrorKind::ConnectionLost));
                for (end, kind) in ends.into_iter().chain(silence) {
                    self.0 += 1;
                    // Only silence is waited for.
                    let wait = if end.is_none() { SHORT } else { PATIENCE };
                    let steps = [Step::Bytes(answer[..cut].to_vec())];
                    let steps = steps.into_iter().filter(|_| cut > 0).chain(end);
                    let options = scripted().reply_timeout(wait);
                    let (outcome, is_good) =
                        call::<F, _>(Scripted::answering(steps), options, &request);
                    let error = outcome.unwrap_err();
                    let case = format!("{request:?} cut after {cut} bytes: {error}");
                    assert_eq!((error.kind(), error.fate()), (kind, Fate::Unknown), "{case}");
                    assert_eq!(error.command(), Some(request.packet_type().name()), "{case}");
                    assert!(!is_good, "{case}");
                }
            }
        }
    }
}

/// C2, C9, C10, G1.
fn a_connection_that_breaks_at_any_byte_gives_one_error_with_its_fate<F: Face>() {
    let mut visitor = Break::<F>(0, std::marker::PhantomData);
    catalogue::each(&mut visitor);
    assert!(visitor.0 > 1000, "{}", visitor.0);
}

/// G2: at every byte behind JOB_CREATED.
fn a_job_whose_events_break_off_at_any_byte_has_an_unknown_outcome<F: Face>() {
    let (bytes, expected) = a_job();
    let created = 12 + 12 + 6;
    for cut in created..bytes.len() {
        for end in [Step::End, Step::Reset] {
            let stream = Scripted::answering([Step::Bytes(bytes[..cut].to_vec()), end]);
            let mut events = submit::<F>(stream);
            let error = events.pop().unwrap().unwrap_err();
            assert_eq!((error.kind(), error.fate()), (ErrorKind::ConnectionLost, Fate::Unknown));
            assert_eq!(error.handle().unwrap().name(), b"H:vm:1");
            assert!(error.unique().is_some());
            for (event, expected) in events.into_iter().zip(&expected) {
                assert_eq!(event.unwrap(), *expected);
            }
        }
    }
}

/// C11, C12, G11, G12, G16.
fn answers_that_break_the_protocol_close_the_connection<F: Face>() {
    let mut swapped = wire(PacketType::EchoRes, &["x"]);
    swapped[3] = b'Q';
    let mut large = wire(PacketType::EchoRes, &["x"]);
    large[8..12].copy_from_slice(&1000_u32.to_be_bytes());
    let number = |number: u32| {
        let mut packet = wire(PacketType::EchoRes, &["x"]);
        packet[4..8].copy_from_slice(&number.to_be_bytes());
        packet
    };
    for (answer, kind, words) in [
        (b"OK\r\n".to_vec(), ErrorKind::Protocol, "OK"),
        (b"ERR UNKNOWN_COMMAND \x1b[2J\r\n".to_vec(), ErrorKind::Protocol, "\\x1b[2J"),
        (b"\0FOO\0\0\0\x11\0\0\0\0".to_vec(), ErrorKind::Protocol, "FOO"),
        (swapped, ErrorKind::Protocol, "REQ"),
        (large, ErrorKind::PacketTooLarge, "1000"),
        (number(0), ErrorKind::Protocol, ""),
        (number(43), ErrorKind::Protocol, "43"),
        (number(u32::MAX), ErrorKind::Protocol, "4294967295"),
        (wire(PacketType::NoJob, &[]), ErrorKind::Protocol, "NO_JOB"),
        (wire(PacketType::OptionRes, &["x"]), ErrorKind::Protocol, "OPTION_RES"),
        (wire(PacketType::JobAssign, &["H:x:1", "f", "w"]), ErrorKind::Protocol, "JOB_ASSIGN"),
    ] {
        let options = scripted().max_packet_size(100);
        let stream = Scripted::answering([Step::Bytes(answer.clone())]);
        let (outcome, is_good) = call::<F, _>(stream, options, &Echo("x"));
        let error = outcome.unwrap_err();
        assert_eq!((error.kind(), error.fate()), (kind, Fate::Unknown), "{answer:?}: {error}");
        assert!(error.to_string().contains(words), "{error}");
        assert!(!error.to_string().contains('\x1b'), "{error:?}");
        assert!(!is_good);
    }
    // Too few arguments are the answer of no request.
    let mut short = wire(PacketType::JobCreated, &["H:x:1"]);
    short[4..8].copy_from_slice(&PacketType::StatusRes.number().to_be_bytes());
    let status = gearman_client::protocol::GetStatus("H:x:1".parse().unwrap());
    let (outcome, is_good) =
        call::<F, _>(Scripted::answering([Step::Bytes(short)]), scripted(), &status);
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Protocol);
    assert!(!is_good);
}

/// G1: the server acts on whole packets only.
fn a_request_that_the_stream_takes_only_in_part_is_not_sent<F: Face>() {
    let request = Echo("hello");
    for accepted in 0..17 {
        let writes = [Step::Accept(accepted), Step::Reset];
        let writes = writes.into_iter().skip(usize::from(accepted == 0));
        let stream = Scripted::answering([]).writing(writes);
        let (outcome, is_good) = call::<F, _>(stream, scripted(), &request);
        let error = outcome.unwrap_err();
        assert_eq!((error.kind(), error.fate()), (ErrorKind::ConnectionLost, Fate::NotSent));
        assert!(!is_good);
    }
    let stream = Scripted::answering([Step::Reset]).writing([Step::Accept(17)]);
    let (outcome, _) = call::<F, _>(stream, scripted(), &request);
    assert_eq!(outcome.unwrap_err().fate(), Fate::Unknown);
}
