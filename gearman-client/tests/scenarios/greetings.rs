//! The request for exceptions, which not every server answers.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    thread,
    time::Duration,
};

use fixtures::gearmand::{Flavour, Server};
use gearman_client::{
    Client, ConnectOptions, ErrorKind, Outcome, RetryPolicy, WorkerOptions, blocking,
    protocol::PacketType,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{
    face::{Face, WorkFace, both_faces},
    support::{Peer, options},
};

both_faces!(
    a_server_that_is_silent_about_exceptions_serves_all_else,
    a_server_that_refuses_exceptions_serves_all_else,
    a_server_that_answers_late_about_exceptions_serves_all_else,
    every_server_of_the_field_takes_jobs,
);

/// What a server says about exceptions: before it answers anything else, or after its first answer.
struct Manner {
    first: Option<(PacketType, [&'static str; 2])>,
    later: Option<(PacketType, [&'static str; 2])>,
}

fn say(peer: &mut Peer, what: Option<(PacketType, [&'static str; 2])>) {
    match what {
        Some((PacketType::OptionRes, [name, _])) => peer.write(PacketType::OptionRes, &[name]),
        Some((packet_type, arguments)) => peer.write(packet_type, &arguments),
        None => {}
    }
}

/// Every kind of answer finds its request.
fn serves_all_else<F: Face>(manner: Manner) {
    let (address, server) = Peer::serve(vec![Box::new(move |mut peer: Peer| {
        peer.expect(PacketType::OptionReq);
        say(&mut peer, manner.first);
        peer.expect(PacketType::EchoReq);
        peer.write(PacketType::EchoRes, &["alive"]);
        say(&mut peer, manner.later);
        peer.expect(PacketType::SubmitJobBg);
        peer.write(PacketType::Error, &["QUEUE_ERROR", "Job queue is full"]);
        peer.expect(PacketType::SubmitJobBg);
        peer.write(PacketType::JobCreated, &["H:x:1"]);
        peer.expect(PacketType::GetStatus);
        peer.write(PacketType::StatusRes, &["H:x:1", "1", "0", "0", "0"]);
        peer.expect(PacketType::SubmitJob);
        peer.write(PacketType::JobCreated, &["H:x:2"]);
        peer.write(PacketType::WorkComplete, &["H:x:2", "done"]);
        peer.wait_for_end();
    })]);
    let to: ConnectOptions = address.parse().unwrap();
    let mut client = F::connect(to.retry(RetryPolicy::never())).unwrap();
    assert_eq!(client.echo("alive").unwrap(), "alive");
    let full = client.submit_background("f", b"", options()).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::QueueFull);
    let submitted = client.submit_background("f", b"", options()).unwrap();
    assert!(client.status(&submitted.handle).unwrap().is_known);
    assert!(client.run("f", b"", options()).unwrap().is_complete());
    drop(client);
    server.join().unwrap();
}

/// geard, rustygeard and g2.
fn a_server_that_is_silent_about_exceptions_serves_all_else<F: Face>() {
    serves_all_else::<F>(Manner { first: None, later: None });
}

fn a_server_that_refuses_exceptions_serves_all_else<F: Face>() {
    for code in ["UNKNOWN_OPTION", "unknown_option", "INVALID_COMMAND"] {
        let refusal = (PacketType::Error, [code, "Server does not recognize given option"]);
        serves_all_else::<F>(Manner { first: Some(refusal), later: None });
    }
}

fn a_server_that_answers_late_about_exceptions_serves_all_else<F: Face>() {
    let granted = (PacketType::OptionRes, ["exceptions", ""]);
    serves_all_else::<F>(Manner { first: None, later: Some(granted) });
    let refused = (PacketType::Error, ["UNKNOWN_OPTION", "no such option"]);
    serves_all_else::<F>(Manner { first: None, later: Some(refused) });
}

/// As imitated, without telling the client what they are.
fn every_server_of_the_field_takes_jobs<F: Face>() {
    for flavour in Flavour::ALL {
        let server = Server::builder().flavour(flavour).start().unwrap();
        let to: ConnectOptions = server.address().parse().unwrap();
        let mut worker = F::Worker::connect(WorkerOptions::from(to).barrier(false)).unwrap();
        worker.can_do("f");
        let mut client = F::to(server.address());
        let queued = client.submit_background("f", b"queued", options()).unwrap();
        assert!(client.status(&queued.handle).unwrap().is_known, "{flavour}");
        let waits = thread::spawn(move || client.run("f", b"waited for", options()).unwrap());
        for _ in 0..2 {
            let job = worker.next();
            worker.complete(job, "done").unwrap();
        }
        assert_eq!(waits.join().unwrap(), Outcome::Complete("done".into()), "{flavour}");
    }
}

/// A connection of either face that records each write.
struct Noted<S> {
    stream: S,
    writes: Arc<Mutex<Vec<usize>>>,
}

impl Read for Noted<TcpStream> {
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        self.stream.read(space)
    }
}

impl Write for Noted<TcpStream> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.stream.write(bytes)?;
        self.writes.lock().unwrap().push(n);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl blocking::Duplex for Noted<TcpStream> {
    fn set_read_timeout(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        TcpStream::set_read_timeout(&self.stream, timeout)
    }

    fn set_write_timeout(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        TcpStream::set_write_timeout(&self.stream, timeout)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Noted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        space: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, space)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Noted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if let Poll::Ready(Ok(n)) = &written {
            self.writes.lock().unwrap().push(*n);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// OPTION_REQ with "exceptions", and ECHO_REQ with one byte.
const TOGETHER: usize = 12 + 10 + 12 + 1;

#[test]
fn the_question_goes_out_with_the_first_request() {
    let server = Server::start().unwrap();
    let there = server.socket_addr().unwrap();
    let options = || server.address().parse::<ConnectOptions>().unwrap();

    let writes = Arc::<Mutex<Vec<usize>>>::default();
    let noted = writes.clone();
    let to = options().blocking_connector(move |_, _| {
        Ok(Noted { stream: TcpStream::connect(there)?, writes: noted.clone() })
    });
    let mut client = blocking::Client::new(to).unwrap();
    assert_eq!(client.echo("x").unwrap(), "x");
    assert_eq!(*writes.lock().unwrap(), [TOGETHER]);

    let writes = Arc::<Mutex<Vec<usize>>>::default();
    let noted = writes.clone();
    let to = options().connector(move |_| {
        let noted = noted.clone();
        async move {
            let stream = tokio::net::TcpStream::connect(there).await?;
            Ok(Noted { stream, writes: noted })
        }
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = Client::new(to).unwrap();
        assert_eq!(client.echo("x").await.unwrap(), "x");
    });
    assert_eq!(*writes.lock().unwrap(), [TOGETHER]);
}
