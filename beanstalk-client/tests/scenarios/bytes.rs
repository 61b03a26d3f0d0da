//! Bytes on the wire, cut in every way, give the same replies; ended in every place, the same errors.

use std::{
    fmt::Debug,
    iter,
    sync::{Arc, Mutex},
    time::Duration,
};

use beanstalk_client::{
    ConnectOptions, Deadline, ErrorKind, Fate, Result,
    protocol::{Command, Quit, Reserve, Session},
};
use proptest::{
    prelude::Rng,
    test_runner::{RngAlgorithm, TestRng},
};
use queue_core::proof::{Scripted, Step, runtime};

use crate::support::{
    Async, Blocking, Face, both_faces,
    catalogue::{self, Sample, Visitor, frame, shown},
};

both_faces!(
    a_reply_is_the_same_however_it_is_cut,
    a_connection_that_breaks_at_any_byte_gives_one_error_with_its_fate,
    partial_writes_and_interruptions_change_nothing,
    the_end_of_the_stream_is_the_reply_to_quit_and_to_nothing_else,
    a_stream_that_takes_nothing_more_is_lost_not_spun_on,
    a_reply_that_answers_nothing_is_never_taken_for_the_next_one,
    a_body_over_the_limit_is_skipped_and_its_job_can_be_buried,
);

/// A source of cuts that is the same in every run.
fn cuts() -> TestRng {
    TestRng::deterministic_rng(RngAlgorithm::ChaCha)
}

/// `bytes` in pieces of 1 to 40 bytes.
fn random_pieces(bytes: &[u8], random: &mut TestRng) -> Vec<Vec<u8>> {
    let mut rest = bytes;
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at((1 + random.next_u32() as usize % 40).min(rest.len()));
        pieces.push(piece.to_vec());
        rest = behind;
    }
    pieces
}

/// A client of either face over a scripted stream.
pub(crate) trait Over: Face {
    fn over_script(stream: Scripted, options: ConnectOptions) -> Self;
}

impl Over for Async {
    fn over_script(stream: Scripted, options: ConnectOptions) -> Self {
        Async::over(stream, options, runtime())
    }
}

impl Over for Blocking {
    fn over_script(stream: Scripted, options: ConnectOptions) -> Self {
        Blocking::over(stream, options)
    }
}

pub(crate) fn options() -> ConnectOptions {
    crate::support::place::options("127.0.0.1")
}

fn pieces(bytes: &[u8], size: usize) -> Vec<Vec<u8>> {
    bytes.chunks(size).map(<[u8]>::to_vec).collect()
}

/// A reply in pieces, which arrive once something was requested.
fn answer(reply: &[u8], size: usize) -> impl Iterator<Item = Step> {
    iter::once(Step::Asked).chain(pieces(reply, size).into_iter().map(Step::Bytes))
}

fn call<F: Over, C: Command>(command: &C, pieces: Vec<Vec<u8>>) -> Result<C::Reply> {
    let stream = Scripted::reading(pieces.into_iter().map(Step::Bytes));
    F::over_script(stream, options()).call(command)
}

struct Split<F>(std::marker::PhantomData<F>);

impl<F: Over> Visitor for Split<F> {
    fn visit<C: Sample>(&mut self, command: C, replies: &[&[u8]]) {
        let mut random = cuts();
        for reply in replies {
            let whole = call::<F, C>(&command, vec![reply.to_vec()]);
            let expected = shown(&whole);
            assert!(whole.is_ok(), "{} {expected}", C::NAME);
            let check = |pieces| {
                assert_eq!(shown(&call::<F, C>(&command, pieces)), expected, "{}", C::NAME);
            };
            for cut in 1..reply.len() {
                let (head, tail) = reply.split_at(cut);
                check(vec![head.to_vec(), tail.to_vec()]);
            }
            check(pieces(reply, 1));
            for _ in 0..64 {
                check(random_pieces(reply, &mut random));
            }
        }
    }
}

fn a_reply_is_the_same_however_it_is_cut<F: Over>() {
    catalogue::each(&mut Split::<F>(std::marker::PhantomData));
}

/// How a stream may break off.
#[derive(Clone, Copy, Debug)]
enum Break {
    Close,
    Reset,
}

impl Break {
    fn step(self) -> Step {
        match self {
            Break::Close => Step::End,
            Break::Reset => Step::Reset,
        }
    }
}

struct Broken<F>(std::marker::PhantomData<F>);

impl<F: Over> Visitor for Broken<F> {
    fn visit<C: Sample>(&mut self, command: C, replies: &[&[u8]]) {
        for end in [Break::Close, Break::Reset] {
            for reply in replies {
                for cut in 0..reply.len() {
                    let reads = [Step::Bytes(reply[..cut].to_vec()), end.step()];
                    let reads = reads.into_iter().skip(usize::from(cut == 0));
                    self.check(&command, Scripted::reading(reads), Fate::Unknown, || {
                        format!("{} {end:?} after {cut} bytes of its reply", C::NAME)
                    });
                }
            }
            let whole = frame(&command);
            for cut in 0..whole.len() {
                let writes = [Step::Accept(cut), Step::Reset];
                let writes = writes.into_iter().skip(usize::from(cut == 0));
                let stream = Scripted::reading([end.step()]).writing(writes);
                let written = stream.written();
                self.check(&command, stream, Fate::NotSent, || {
                    format!("{} {end:?} after {cut} bytes of it", C::NAME)
                });
                assert_eq!(*written.lock().unwrap(), whole[..cut]);
            }
        }
    }
}

impl<F: Over> Broken<F> {
    /// One result, of the right kind and fate; and the connection is never used again.
    fn check<C: Command>(
        &self,
        command: &C,
        stream: Scripted,
        fate: Fate,
        case: impl Fn() -> String,
    ) where
        C::Reply: Debug,
    {
        let mut client = F::over_script(stream, options());
        let error = client.call(command).map(|_| ()).unwrap_err();
        assert_eq!(
            (error.kind(), error.fate(), error.command()),
            (ErrorKind::ConnectionLost, fate, Some(C::NAME)),
            "{}: {error}",
            case()
        );
        assert!(!client.is_connected(), "{}", case());
        let error = client.list_tube_used().unwrap_err();
        assert_eq!((error.kind(), error.fate()), (ErrorKind::ConnectionLost, Fate::NotSent));
    }
}

fn a_connection_that_breaks_at_any_byte_gives_one_error_with_its_fate<F: Over>() {
    catalogue::each(&mut Broken::<F>(std::marker::PhantomData));
}

fn the_end_of_the_stream_is_the_reply_to_quit_and_to_nothing_else<F: Over>() {
    F::over_script(Scripted::reading([Step::End]), options()).quit().unwrap();
    let half = Scripted::reading([Step::Bytes(b"BAD".to_vec()), Step::End]);
    let error = F::over_script(half, options()).quit().unwrap_err();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::ConnectionLost, Fate::Unknown));
    let words = Scripted::reading([Step::Bytes(b"BAD_FORMAT\r\n".to_vec())]);
    let error = F::over_script(words, options()).call(&Quit).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadFormat);
}

struct Interrupted<F>(std::marker::PhantomData<F>);

impl<F: Over> Visitor for Interrupted<F> {
    fn visit<C: Sample>(&mut self, command: C, replies: &[&[u8]]) {
        let busy = |step: Step| [Step::Interrupted, Step::WouldBlock, step, Step::Interrupted];
        for reply in replies {
            let expected = shown(&call::<F, C>(&command, vec![reply.to_vec()]));
            for piece in [1, 2, 3, 7] {
                let reads = pieces(reply, piece).into_iter().map(Step::Bytes).flat_map(busy);
                let writes = (0..2000).map(|_| Step::Accept(piece)).flat_map(busy);
                let stream = Scripted::reading(reads).writing(writes);
                let written = stream.written();
                let mut client = F::over_script(stream, options());
                assert_eq!(shown(&client.call(&command)), expected, "{}", C::NAME);
                // The whole frame, in order.
                assert_eq!(*written.lock().unwrap(), frame(&command), "{}", C::NAME);
            }
        }
    }
}

fn partial_writes_and_interruptions_change_nothing<F: Over>() {
    catalogue::each(&mut Interrupted::<F>(std::marker::PhantomData));
}

fn a_stream_that_takes_nothing_more_is_lost_not_spun_on<F: Over>() {
    let stream = Scripted::default().writing([Step::Accept(3), Step::Accept(0)]);
    let error = F::over_script(stream, options()).list_tube_used().unwrap_err();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::ConnectionLost, Fate::NotSent));
}

/// Silence after every byte of every reply, on a clock that jumps to the next deadline.
struct Silent(Arc<Mutex<usize>>);

impl Visitor for Silent {
    fn visit<C: Sample>(&mut self, command: C, replies: &[&[u8]]) {
        for reply in replies {
            for cut in 0..reply.len() {
                *self.0.lock().unwrap() += 1;
                let reads = [Step::Bytes(reply[..cut].to_vec())];
                let stream = Scripted::reading(reads.into_iter().skip(usize::from(cut == 0)));
                let builder = &mut tokio::runtime::Builder::new_current_thread();
                let runtime = builder.enable_all().start_paused(true).build().unwrap();
                let total = Duration::from_secs(3600);
                // A plain reserve has no reply deadline, so the total one has to end it.
                let options =
                    options().reply_timeout(Duration::from_secs(10)).total_timeout(Some(total));
                let mut client = Async::over(stream, options, runtime);
                let error = client.call(&command).map(|_| ()).unwrap_err();
                let which = if C::NAME == "reserve" { Deadline::Total } else { Deadline::Reply };
                assert_eq!(
                    (error.kind(), error.fate(), error.command()),
                    (ErrorKind::Timeout(which), Fate::Unknown, Some(C::NAME)),
                    "{} after {cut} bytes: {error}",
                    C::NAME
                );
                assert!(!client.is_connected());
            }
        }
    }
}

#[test]
fn silence_after_any_byte_ends_by_the_named_deadline() {
    let cases = Arc::default();
    catalogue::each(&mut Silent(Arc::clone(&cases)));
    assert!(*cases.lock().unwrap() > 1000);
}

#[test]
fn replies_that_break_the_protocol_close_the_connection() {
    fn check<F: Over>(reply: &[u8], message: &str) {
        let stream = Scripted::reading([Step::Bytes(reply.to_vec()), Step::End]);
        let mut client = F::over_script(stream, options());
        let shown = reply.escape_ascii().to_string();
        let error = client.reserve().unwrap_err();
        assert_eq!((error.kind(), error.fate()), (ErrorKind::Protocol, Fate::Unknown), "{shown}");
        assert!(error.to_string().contains(message), "{shown}: {error}");
        assert!(!client.is_connected(), "{shown}");
    }
    let long = [&vec![b'A'; 1025][..], b"\r\n"].concat();
    let endless = vec![b'A'; 5000];
    let cases: Vec<(&[u8], &str)> = vec![
        (b"RESERVED 1 2\r\nabcd", "not followed by CRLF"),
        (b"RESERVED 1 2\r\nab\n\r", "not followed by CRLF"),
        (b"RESERVED 1 2\r\nab\0\n", "not followed by CRLF"),
        (b"RESERVED 1 2\r\nab\0\r", "not followed by CRLF"),
        (b"OK 2\r\nab\0\0", "not followed by CRLF"),
        (b"RESERVED 1\r\n", "not valid"),
        (b"RESERVED 1 2 3\r\n", "not valid"),
        (b"RESERVED 01 2\r\n", "not valid"),
        (b"RESERVED +1 2\r\n", "not valid"),
        (b"RESERVED -1 2\r\n", "not valid"),
        (b"RESERVED 1 18446744073709551616\r\n", "not valid"),
        (b"RESERVED  1 2\r\n", "not valid"),
        (b"FOUND x 2\r\n", "not valid"),
        (b"OK\r\n", "not valid"),
        (b"KICKED x\r\n", "not valid"),
        (b"WATCHING\r\n", "not valid"),
        (b"INSERTED\r\n", "not valid"),
        (b"TIMED_OUT\n", "does not end with CRLF"),
        (b"OK 18446744073709551615\r\n", "larger than the limit"),
        (&long, "longer than 1024 bytes"),
        (&endless, "longer than 1024 bytes"),
    ];
    for (reply, message) in cases {
        check::<Async>(reply, message);
        check::<Blocking>(reply, message);
    }
}

fn a_reply_that_answers_nothing_is_never_taken_for_the_next_one<F: Over>() {
    for trailing in [&b"USING other\r\n"[..], b"U", b"\r\n", b"RESERVED 1 2\r\nhi\r\n"] {
        let reads = [b"USING a\r\n", trailing].concat();
        let mut client = F::over_script(Scripted::reading([Step::Bytes(reads)]), options());
        assert_eq!(client.list_tube_used().unwrap(), "a");
        // This is noticed before anything is sent.
        let error = client.list_tube_used().unwrap_err();
        assert_eq!((error.kind(), error.fate()), (ErrorKind::ConnectionLost, Fate::NotSent));
    }
}

#[test]
fn a_damaged_body_never_becomes_the_next_reply() {
    fn check<F: Over>(end: &str, piece: usize) {
        let reserved = [b"RESERVED 7 3\r\nab\0", end.as_bytes()].concat();
        let replies = [&reserved[..], b"FOUND 7 0\r\n\0\0", b"BURIED\r\n"];
        let reads = replies.iter().flat_map(|reply| answer(reply, piece));
        let mut client = F::over_script(Scripted::reading(reads), options());
        let error = client.reserve().unwrap_err();
        assert_eq!((error.kind(), error.fate()), (ErrorKind::BodyDamaged, Fate::Refused));
        assert_eq!(error.body().unwrap(), &b"ab\0"[..]);
        assert_eq!(error.reply(), None);
        let looked = client.peek(7).unwrap_err();
        assert_eq!((looked.kind(), looked.body().unwrap().len()), (ErrorKind::BodyDamaged, 0));
        client.bury(error.job().unwrap(), 0).unwrap();
    }
    for end in ["\0\0", "\r\0"] {
        for piece in 1..20 {
            check::<Async>(end, piece);
            check::<Blocking>(end, piece);
        }
    }
}

fn a_body_over_the_limit_is_skipped_and_its_job_can_be_buried<F: Over>() {
    let body = vec![b'\n'; 300_000];
    for piece in [1000, 65_536, 1_000_000] {
        let job = |word: &str| [word.as_bytes(), b" 7 300000\r\n", &body, b"\r\n"].concat();
        let (reserved, found) = (job("RESERVED"), job("FOUND"));
        let replies = [&reserved[..], b"BURIED\r\n", &found, b"USING a\r\n"];
        let stream = Scripted::reading(replies.iter().flat_map(|reply| answer(reply, piece)));
        let mut client = F::over_script(stream, options().max_body_size(10));
        let epoch = client.epoch();
        let error = client.reserve().unwrap_err();
        assert_eq!((error.kind(), error.fate()), (ErrorKind::BodyTooLarge, Fate::Refused));
        let text = error.to_string();
        assert!(text.contains("300000") && text.contains("limit of 10"), "{text}");
        let job = error.job().unwrap();
        assert_eq!(job.id().get(), 7);
        client.bury(job, 0).unwrap();
        assert_eq!(client.peek(7).unwrap_err().kind(), ErrorKind::BodyTooLarge);
        assert_eq!(client.list_tube_used().unwrap(), "a");
        assert_eq!(client.epoch(), epoch);
    }
}

/// The room for a read follows what has arrived, not what was announced.
#[test]
fn an_announced_length_allocates_nothing() {
    for (limit, size) in [(usize::MAX, u64::MAX - 2), (1 << 30, 1 << 30), (1 << 20, u64::MAX)] {
        let mut session = Session::new(limit);
        let ticket = session.send(&Reserve).unwrap();
        session.sent(session.outgoing().len());
        let line = format!("RESERVED 1 {size}\r\n");
        session.space()[..line.len()].copy_from_slice(line.as_bytes());
        session.received(line.len());
        assert_eq!(session.reply(ticket).unwrap(), None);
        for _ in 0..100 {
            assert!((1..=128 * 1024).contains(&session.space().len()));
            session.received(1);
            assert_eq!(session.reply(ticket).unwrap(), None);
        }
    }
}
