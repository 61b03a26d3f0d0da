//! To files, pipes and sockets.

use std::fs::File;
use std::io::{BufWriter, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use super::super::{Column, Destination, Format, Memory, Output, Shape, Style};
use super::*;
use crate::envelope::Decode;
use crate::text::encoding::{base64, hex};

static NUMBERS: Shape = Shape::rows("n", &[Column::new("n", "N")]);

fn messages() -> Messages {
    Messages::to(Box::new(std::io::sink()), "tool", false, false)
}

fn output(end: impl Into<OwnedFd>) -> Output {
    let file = File::from(end.into());
    let destination = Destination::file("there", &file);
    Output::to(Box::new(BufWriter::new(file)), Style::default()).at(destination)
}

/// Hands numbers over, and records which may be deleted.
struct Case<'a> {
    handover: Handover<'a, u64>,
    left: Vec<u64>,
    calls: usize,
}

impl<'a> Case<'a> {
    fn new(out: &'a mut Output) -> Self {
        let list = out.list(&NUMBERS).unwrap();
        let handover = Handover::new(list, Interrupts::none(), &messages()).unwrap();
        Self { handover, left: Vec::new(), calls: 0 }
    }

    fn push(&mut self, n: u64) -> Result<(), CliError> {
        let record = Record::new().with("n", n);
        let (left, calls) = (&mut self.left, &mut self.calls);
        self.handover.push(record, format!("job {n}"), n, &mut |jobs| {
            left.extend(jobs);
            *calls += 1;
            Ok(())
        })
    }

    /// Advances past the interval after which jobs are passed on.
    fn wait(&mut self) {
        self.handover.given = self.handover.given.checked_sub(BETWEEN_LEAVES).unwrap();
    }

    fn settle(&mut self) -> Result<(), CliError> {
        let left = &mut self.left;
        self.handover.settle(&mut |jobs| {
            left.extend(jobs);
            Ok(())
        })
    }
}

#[test]
fn deletes_jobs_in_batches_after_fsync() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut out = output(file.reopen().unwrap());
    let mut case = Case::new(&mut out);
    for n in 1..=300 {
        case.push(n).unwrap();
    }
    assert!(case.left.is_empty());
    case.settle().unwrap();
    assert!(case.left.iter().copied().eq(1..=300));
    assert_eq!(std::fs::read_to_string(file.path()).unwrap().lines().count(), 300);
}

/// A handle that accepts bytes but cannot be synced stands for a disk that fails on sync.
#[test]
fn deletes_nothing_if_fsync_fails() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let file = File::from(OwnedFd::from(writer));
    let destination = Destination::disk("there", &file);
    let mut out = Output::to(Box::new(file), Style::default()).at(destination);
    let mut case = Case::new(&mut out);
    case.push(1).unwrap();
    let error = case.settle().unwrap_err();
    assert!(error.message.starts_with("cannot write there: "), "{error}");
    assert!(case.left.is_empty());
    let mut written = [0; 2];
    reader.read_exact(&mut written).unwrap();
    assert_eq!(&written, b"1\n");
}

#[cfg(target_os = "linux")]
#[test]
fn deletes_a_job_once_the_pipe_was_read() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let mut out = output(writer);
    let mut case = Case::new(&mut out);
    case.push(1).unwrap();
    let mut read = [0; 2];
    reader.read_exact(&mut read).unwrap();
    case.push(2).unwrap();
    drop(reader);
    let error = case.settle().unwrap_err();
    assert!(error.is_broken_pipe());
    assert!(error.message.contains("there was closed by its reader"), "{error}");
    assert!(error.message.contains("job 1,") && !error.message.contains("job 2"), "{error}");
    assert_eq!(case.left, [1]);
}

#[cfg(target_os = "linux")]
#[test]
fn deletes_what_a_reader_took_before_it_closed() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let mut out = output(writer);
    let mut case = Case::new(&mut out);
    case.push(1).unwrap();
    reader.read_exact(&mut [0; 2]).unwrap();
    drop(reader);
    case.settle().unwrap();
    assert_eq!(case.left, [1]);
    assert!(case.push(2).unwrap_err().is_broken_pipe());
    assert_eq!(case.left, [1]);
}

#[cfg(target_os = "linux")]
#[test]
fn the_wait_for_a_reader_can_be_cancelled() {
    let (_reader, writer) = std::io::pipe().unwrap();
    let mut out = output(writer);
    let interrupts = Interrupts::none();
    let list = out.list(&NUMBERS).unwrap();
    let mut handover = Handover::new(list, interrupts.clone(), &messages()).unwrap();
    let mut left = Vec::new();
    let mut waits = 0;
    let mut leave = |jobs: Vec<u64>| {
        waits += 1;
        interrupts.raise();
        left.extend(jobs);
        Ok(())
    };
    handover.push(Record::new().with("n", 1), "job 1".to_owned(), 1, &mut leave).unwrap();
    let error = handover.settle(&mut leave).unwrap_err();
    assert_eq!(error.exit.code(), 130);
    assert!(left.is_empty());
    assert!(waits > 0);
}

/// The caller of [`Handover`] touches its jobs whenever `leave` is called, even without jobs.
#[cfg(target_os = "linux")]
#[test]
fn keeps_jobs_alive_while_the_reader_keeps_up() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let mut out = output(writer);
    let mut case = Case::new(&mut out);
    case.handover.given = Instant::now() + Duration::from_secs(3600);
    case.push(1).unwrap();
    reader.read_exact(&mut [0; 2]).unwrap();
    case.push(2).unwrap();
    reader.read_exact(&mut [0; 2]).unwrap();
    assert_eq!((case.calls, case.left.len()), (0, 0));
    case.handover.given = Instant::now();
    case.wait();
    case.push(3).unwrap();
    assert_eq!((case.calls, &case.left[..]), (1, &[1, 2][..]));
}

#[test]
fn keeps_jobs_alive_while_waiting_for_the_disk() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut out = output(file.reopen().unwrap());
    let mut case = Case::new(&mut out);
    case.wait();
    case.push(1).unwrap();
    assert_eq!((case.calls, case.left.len()), (1, 0));
}

#[cfg(target_os = "linux")]
#[test]
fn announces_the_wait_for_a_reader_once() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let mut out = output(writer);
    let said = Memory::default();
    let messages = Messages::to(Box::new(said.clone()), "tool", false, false);
    let said = || String::from_utf8(said.bytes()).unwrap();
    let interrupts = Interrupts::none();
    let list = out.list(&NUMBERS).unwrap();
    let mut handover = Handover::new(list, interrupts.clone(), &messages).unwrap();
    handover.patience = Duration::ZERO;
    let mut calls = 0;
    // The reader reads only when told to.
    let mut leave = |jobs: Vec<u64>| {
        calls += 1;
        match said().is_empty() {
            false if jobs.is_empty() => reader.read_exact(&mut [0; 2]).unwrap(),
            true if calls > 20 => interrupts.raise(),
            _ => {}
        }
        Ok(())
    };
    handover.push(Record::new().with("n", 1), "job 1".to_owned(), 1, &mut leave).unwrap();
    handover.settle(&mut leave).unwrap();
    handover.push(Record::new().with("n", 2), "job 2".to_owned(), 2, &mut leave).unwrap();
    handover.settle(&mut leave).unwrap();
    let said = said();
    assert!(said.starts_with("job 1 is in there, but its reader has not read it for "), "{said}");
    assert!(!said.contains("job 2") && said.contains("waits forever"), "{said}");
}

/// Its reader may be waiting for the end of the program.
#[cfg(target_os = "linux")]
#[test]
fn deletes_the_last_unread_job_with_a_warning() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let mut out = output(writer);
    let said = Memory::default();
    let messages = Messages::to(Box::new(said.clone()), "tool", false, false);
    let list = out.list(&NUMBERS).unwrap();
    let mut handover = Handover::new(list, Interrupts::none(), &messages).unwrap();
    handover.patience = Duration::ZERO;
    let mut left = Vec::new();
    let last = (Record::new().with("n", 1), "job 1".to_owned(), 1);
    let mut leave = |jobs: Vec<u64>| {
        left.extend(jobs);
        Ok(())
    };
    handover.take([last], true, &mut leave).unwrap();
    assert_eq!(left, [1]);
    assert!(said.text().contains("its reader has not read it for "), "{}", said.text());
    assert!(said.text().contains("; it is deleted"), "{}", said.text());
    reader.read_exact(&mut [0; 2]).unwrap();
}

#[test]
fn names_jobs_in_a_socket_whose_reader_is_gone() {
    let (reader, writer) = UnixStream::pair().unwrap();
    let mut out = output(writer);
    let mut case = Case::new(&mut out);
    for n in 1..=3 {
        case.push(n).unwrap();
        // The next record is written only after this job has left.
        assert_eq!(case.left.last(), Some(&n));
    }
    drop(reader);
    let error = case.push(4).unwrap_err();
    assert!(error.message.ends_with("perhaps not read: job 1, job 2, job 3"), "{error}");
    assert_eq!(case.left, [1, 2, 3]);
}

#[test]
fn takes_few_jobs_for_a_slow_reader_and_many_for_a_file() {
    let (_reader, writer) = UnixStream::pair().unwrap();
    let mut out = output(writer);
    let mut case = Case::new(&mut out);
    let windows: Vec<usize> = (0..5).map(|_| case.handover.window(10)).collect();
    assert_eq!(windows, [1, 2, 4, 8, 10]);
    let mut out = output(tempfile::tempfile().unwrap());
    assert_eq!(Case::new(&mut out).handover.window(10), 10);
}

static BODIES: Shape = Shape::blocks("id", &[Column::new("id", "ID"), Column::new("body", "BODY")]);

/// It is deleted afterwards.
#[test]
fn writes_deleted_bodies_in_full_in_every_format() {
    let body = ["a".repeat(48_000), "END".to_owned()].concat();
    let formats = [
        Format::Table,
        Format::Wide,
        Format::Plain,
        Format::Json,
        Format::Ndjson,
        Format::Yaml,
        Format::Csv,
    ];
    for (decode, expected) in [
        (None, body.clone()),
        (Some(Decode::Utf8), body.clone()),
        (Some(Decode::Base64), base64(body.as_bytes())),
        (Some(Decode::Hex), hex(body.as_bytes())),
    ] {
        for (format, terminal) in formats.into_iter().flat_map(|one| [(one, false), (one, true)]) {
            let sink = Memory::default();
            let style = Style { format, decode: decode.clone(), terminal, ..Style::default() };
            let mut out = Output::to(Box::new(sink.clone()), style);
            let list = out.list(&BODIES).unwrap();
            let mut handover = Handover::new(list, Interrupts::none(), &messages()).unwrap();
            let record = Record::new().with("id", 1).with_body(body.clone());
            handover.take([(record, "job 1".to_owned(), 1)], true, &mut |_| Ok(())).unwrap();
            let text = String::from_utf8(sink.bytes()).unwrap();
            assert!(text.contains(&expected), "{format:?} {decode:?}: {} bytes", text.len());
        }
    }
}

#[test]
fn refuses_to_abbreviate_a_deleted_body() {
    for (format, refused) in [(Format::Plain, true), (Format::Json, false)] {
        let style = Style { format, decode: Some(Decode::Auto), ..Style::default() };
        let mut out = Output::to(Box::new(std::io::sink()), style);
        let list = out.list(&BODIES).unwrap();
        let handover = Handover::<u64>::new(list, Interrupts::none(), &messages());
        assert_eq!(handover.is_err(), refused, "{format:?}");
    }
}
