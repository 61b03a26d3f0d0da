//! Servers to test against, and helpers of several tests.

use std::{
    fmt::Debug,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    thread,
    time::Duration,
};

use gearman_client::{
    FunctionName, SubmitOptions, Worker, WorkerHandle, WorkerOptions, WorkerReport, blocking,
    protocol::{Decoder, Magic, Packet, PacketType},
};
use queue_core::proof::Scripts;

/// How long a test waits for an expected event before it fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A deadline that passes while the server is silent, but that every answer meets, even if a busy machine stops its
/// thread for two seconds.
pub(crate) const LATE: Duration = Duration::from_secs(3);

/// Makes two tests of each function over the address of a server: in-memory and real.
macro_rules! each_server {
    ($($name:ident),+ $(,)?) => {$(
        mod $name {
            #[test]
            fn in_memory() {
                crate::support::in_memory(super::$name);
            }

            #[test]
            fn real() {
                crate::support::on_real(super::$name);
            }
        }
    )+};
}

/// The same for async functions.
macro_rules! each_server_async {
    ($($name:ident),+ $(,)?) => {$(
        mod $name {
            use crate::support::{self, run};

            #[test]
            fn in_memory() {
                support::in_memory(|address| run(super::$name(address.to_owned())));
            }

            #[test]
            fn real() {
                support::on_real(|address| run(super::$name(address.to_owned())));
            }
        }
    )+};
}

pub(crate) use {each_server, each_server_async};

/// Runs a scenario on two threads.
pub(crate) fn run(scenario: impl Future<Output = ()>) {
    /// Longer than anything takes, even on a busy machine; only a hang reaches it.
    const LIMIT: Duration = Duration::from_secs(60);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let limited = async { tokio::time::timeout(LIMIT, scenario).await };
    runtime.block_on(limited).expect("the scenario hangs");
}

pub(crate) fn in_memory(test: impl FnOnce(&str)) {
    test(fixtures::gearmand::Server::start().unwrap().address());
}

pub(crate) fn on_real(test: impl FnOnce(&str)) {
    if let Some(server) = real() {
        test(server.address());
    }
}

/// A connected async worker of this function.
pub(crate) async fn worker_of(
    function: &str,
    options: impl TryInto<WorkerOptions, Error: Debug>,
) -> Worker {
    let mut worker = Worker::connect(options.try_into().unwrap()).await.unwrap();
    worker.can_do(function, None).unwrap();
    worker
}

/// The real server, if it is installed.
pub(crate) fn real() -> Option<fixtures::real::RealServer> {
    fixtures::real::Gearmand::start()
}

pub(crate) fn options() -> SubmitOptions {
    SubmitOptions::default()
}

pub(crate) fn function(name: &str) -> FunctionName {
    name.try_into().unwrap()
}

/// A blocking worker in its own thread.
pub(crate) struct Background {
    stop: WorkerHandle,
    thread: thread::JoinHandle<WorkerReport>,
}

impl Background {
    pub(crate) fn start(worker: blocking::Worker) -> Self {
        let stop = worker.handle();
        Background { stop, thread: thread::spawn(move || worker.run().unwrap()) }
    }

    pub(crate) fn stop(self) -> WorkerReport {
        self.stop.stop();
        self.thread.join().unwrap()
    }
}

/// One side of a hand-written conversation.
pub(crate) struct Peer {
    stream: TcpStream,
    decoder: Decoder,
}

impl Peer {
    /// A server that holds one conversation for each script, in order.
    pub(crate) fn serve(
        scripts: Vec<Box<dyn FnOnce(Peer) + Send>>,
    ) -> (String, thread::JoinHandle<()>) {
        // The port stays reserved when the last conversation has started and a client still tries to connect.
        let port = fixtures::Port::take().unwrap();
        let address = port.address().to_string();
        let listener = TcpListener::bind(port.address()).unwrap();
        let thread = thread::spawn(move || {
            for script in scripts {
                let (stream, _) = listener.accept().unwrap();
                stream.set_nodelay(true).unwrap();
                script(Peer { stream, decoder: Decoder::new(Magic::Request, 1 << 24) });
            }
        });
        (address, thread)
    }

    /// The next packet; `None` at the end.
    pub(crate) fn read(&mut self) -> Option<Packet> {
        loop {
            if let Some(packet) = self.decoder.next().unwrap() {
                return Some(packet);
            }
            let n = self.stream.read(self.decoder.space()).ok().filter(|n| *n > 0)?;
            self.decoder.received(n);
        }
    }

    pub(crate) fn expect(&mut self, packet_type: PacketType) -> Packet {
        let packet = self.read().expect("the client closed");
        assert_eq!(packet.packet_type, packet_type);
        packet
    }

    /// Answers the request for exceptions that every client starts with.
    pub(crate) fn greet(&mut self) {
        self.expect(PacketType::OptionReq);
        self.write(PacketType::OptionRes, &["exceptions"]);
    }

    pub(crate) fn write(&mut self, packet_type: PacketType, arguments: &[&str]) {
        self.write_bytes(&wire(packet_type, arguments));
    }

    pub(crate) fn write_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Writes bytes; `false` when the client has closed.
    pub(crate) fn try_write_all(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// Waits until the client closes.
    pub(crate) fn wait_for_end(mut self) {
        while self.read().is_some() {}
    }
}

/// A server where each connection is a conversation of this kind, in its own thread. It ends with the process.
pub(crate) fn serve(conversation: impl Fn(TcpStream, usize) + Send + Sync + 'static) -> String {
    let scripts = Scripts::start(move |number, stream| conversation(stream, number - 1));
    Box::leak(Box::new(scripts)).address()
}

/// Reads packets until the end, and passes each to `answer`, until that returns `false`.
pub(crate) fn answer(
    stream: &mut TcpStream,
    mut answer: impl FnMut(&mut TcpStream, PacketType) -> bool,
) {
    let mut decoder = Decoder::new(Magic::Request, 1 << 24);
    loop {
        while let Some(packet) = decoder.next().unwrap() {
            if !answer(stream, packet.packet_type) {
                return;
            }
        }
        match stream.read(decoder.space()) {
            Ok(n) if n > 0 => decoder.received(n),
            _ => return,
        }
    }
}

pub(crate) fn is_grab(packet: PacketType) -> bool {
    matches!(packet, PacketType::GrabJob | PacketType::GrabJobUniq | PacketType::GrabJobAll)
}

/// Reads until the first grab, and answers that.
pub(crate) fn answer_grab(stream: &mut TcpStream, with: &[u8]) {
    answer(stream, |stream, packet| {
        if is_grab(packet) {
            stream.write_all(with).unwrap();
        }
        !is_grab(packet)
    });
}

pub(crate) fn wire(packet_type: PacketType, arguments: &[&str]) -> Vec<u8> {
    let mut out = bytes::BytesMut::new();
    Packet::new(Magic::Response, packet_type, arguments).unwrap().encode(&mut out);
    out.to_vec()
}
