//! The state of one connection, byte by byte.

use super::*;
use crate::protocol::{Delete, Ignore, Put, Response, StatsTube, Use, Watch};

fn feed(session: &mut Session, bytes: &[u8]) {
    let space = session.space();
    space[..bytes.len()].copy_from_slice(bytes);
    session.received(bytes.len());
}

fn flush(session: &mut Session) -> Vec<u8> {
    let bytes = session.outgoing().to_vec();
    session.sent(bytes.len());
    bytes
}

fn tube(name: &str) -> TubeName {
    name.try_into().unwrap()
}

fn put(body: &[u8]) -> Put<&[u8]> {
    Put::new(body, crate::PutOptions::default()).unwrap()
}

#[test]
fn a_session_under_a_pump_buffers_nothing() {
    let (mut session, mut io) = (Session::new(1024), Io::<()>::default());
    io.opened();
    let first = session.send(&put(b"a")).unwrap();
    let second = session.send(&Delete::new(5)).unwrap();
    session.queue_in(&mut io);
    assert_eq!(session.outgoing(), b"");
    io.took("put 1024 0 60 1\r\na\r\n".len(), queue_core::now());
    let feed = |io: &mut Io<()>, bytes: &[u8]| {
        io.space()[..bytes.len()].copy_from_slice(bytes);
        io.came(bytes.len());
    };
    feed(&mut io, b"INSERTED 1\r\nDELE");
    assert_eq!(session.reply_in(first, &mut io).unwrap(), Some(Response::Inserted(1.into())));
    assert_eq!(session.reply_in(second, &mut io).unwrap(), None);
    feed(&mut io, b"TED\r\n");
    let error = session.reply_in(second, &mut io).unwrap_err();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::Protocol, Fate::NotSent));
    assert!(io.data().is_empty() && session.outgoing().is_empty());
    let metrics = session.metrics();
    assert_eq!((metrics.bytes_in, metrics.bytes_out), (io.received(), io.sent()));
}

#[test]
fn a_refused_restore_is_an_error_not_a_silent_default() {
    let mut session = Session::new(1024);
    let first = session.send(&Use(tube("out"))).unwrap();
    flush(&mut session);
    feed(&mut session, b"USING out\r\n");
    session.reply(first).unwrap();
    session.reopen();
    let ticket = session.send(&put(b"a")).unwrap();
    flush(&mut session);
    feed(&mut session, b"OUT_OF_MEMORY\r\nINSERTED 1\r\n");
    assert_eq!(session.reply(ticket).unwrap_err().kind(), ErrorKind::Protocol);
    assert!(!session.is_open());
}

#[test]
fn a_refused_line_that_an_old_server_may_have_cut_closes_the_session() {
    for (length, reply, open) in [
        (195, "BAD_FORMAT", true),
        (196, "BAD_FORMAT", false),
        (200, "UNKNOWN_COMMAND", false),
        (200, "NOT_FOUND", true),
    ] {
        let mut session = Session::new(1024);
        let ticket = session.send(&StatsTube(tube(&"t".repeat(length)))).unwrap();
        let behind = session.send(&Delete::new(5)).unwrap();
        flush(&mut session);
        feed(&mut session, format!("{reply}\r\nUNKNOWN_COMMAND\r\nDELETED\r\n").as_bytes());
        assert!(session.reply(ticket).unwrap().is_some());
        assert_eq!(session.is_open(), open, "{length} {reply}");
        let next = session.reply(behind).map(|reply| reply.unwrap()).map_err(|e| e.fate());
        assert_eq!(next, if open { Ok(Response::UnknownCommand) } else { Err(Fate::Unknown) });
    }
    // A long body is not a long line.
    let mut session = Session::new(1024);
    session.send(&put(&[b'x'; 500])).unwrap();
    assert!(!session.pending[0].may_be_cut);
}

#[test]
fn a_reply_that_comes_before_its_command_was_begun_closes_the_session() {
    let mut session = Session::new(1024);
    let first = session.send(&put(b"a")).unwrap();
    let second = session.send(&put(b"b")).unwrap();
    // Some refusals arrive as soon as the line is read.
    session.sent(3);
    feed(&mut session, b"INSERTED 1\r\nINSERTED 2\r\n");
    assert_eq!(session.reply(first).unwrap(), Some(Response::Inserted(1.into())));
    let error = session.reply(second).unwrap_err();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::Protocol, Fate::NotSent));
    assert!(!session.is_open());
}

#[test]
fn a_watch_list_is_restored_in_the_background() {
    let mut session = Session::new(1024);
    let names = [tube("default"), tube("mail")];
    assert_eq!(session.to_watch(&names), [Watch(tube("mail"))]);
    assert_eq!(session.to_ignore(&names), []);
    session.send(&Watch(tube("old"))).unwrap();
    session.send(&Ignore(tube("default"))).unwrap();
    assert_eq!(session.to_watch(&names), [Watch(tube("default")), Watch(tube("mail"))]);
    assert_eq!(session.to_ignore(&names), [Ignore(tube("old"))]);
    let last = session.send(&Watch(tube("default"))).unwrap();
    flush(&mut session);
    feed(&mut session, b"WATCHING 2\r\nWATCHING 1\r\nWATCHING 2\r\n");
    session.reply(last).unwrap();
    assert_eq!(session.to_watch(&names), [Watch(tube("mail"))]);
    assert_eq!(session.to_ignore(&names), [Ignore(tube("old"))]);
}

#[test]
fn metrics_span_connections() {
    let mut session = Session::new(1024);
    for connection in 1..=2 {
        for _ in 0..3 {
            let ticket = session.send(&Delete::new(1)).unwrap();
            flush(&mut session);
            feed(&mut session, b"DELETED\r\n");
            assert!(session.reply(ticket).unwrap().is_some());
        }
        let metrics = session.metrics();
        let counts = [metrics.commands, metrics.replies, metrics.bytes_out, metrics.bytes_in];
        assert_eq!(counts, [3, 3, 30, 27].map(|count| count * connection));
        session.reopen();
    }
}

#[test]
fn tubes_that_are_watched_or_about_to_be_are_not_ignored_twice() {
    let mut session = Session::new(1024);
    // It is watched already, and this changes nothing.
    session.send(&Watch(tube("default"))).unwrap();
    session.send(&Ignore(tube("other"))).unwrap();
    assert_eq!(session.to_ignore(&[tube("mail")]), [Ignore(tube("default"))]);
    assert_eq!(session.to_watch(&[tube("default")]), []);
}

#[test]
fn a_command_is_sent_with_its_last_byte() {
    let mut session = Session::new(1024);
    session.send(&Delete::new(1)).unwrap();
    assert!(!session.oldest_is_sent() && session.awaits_replies());
    session.sent(3);
    assert!(!session.oldest_is_sent());
    flush(&mut session);
    assert!(session.oldest_is_sent());
}
