//! TCP listeners that treat each connection by script.
#![expect(clippy::unwrap_used, reason = "it serves tests, which a failure here ends")]

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
};

/// A listener on 127.0.0.1 that gives each connection to a script, in its own thread. It stops on drop.
#[derive(Debug)]
pub struct Scripts {
    address: SocketAddr,
    accepted: Arc<AtomicUsize>,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Scripts {
    /// Calls `script` with the number of each connection, the first is 1, and the connection.
    pub fn start(script: impl Fn(usize, TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let accepted = Arc::new(AtomicUsize::new(0));
        let stopping = Arc::new(AtomicBool::new(false));
        let script = Arc::new(script);
        let (count, stop) = (Arc::clone(&accepted), Arc::clone(&stopping));
        let thread = thread::spawn(move || {
            for stream in listener.incoming() {
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                let number = count.fetch_add(1, Ordering::SeqCst) + 1;
                let script = Arc::clone(&script);
                thread::spawn(move || script(number, stream));
            }
        });
        Scripts { address, accepted, stopping, thread: Some(thread) }
    }

    /// Its address.
    #[must_use]
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Number of connections so far.
    #[must_use]
    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }
}

impl Drop for Scripts {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::SeqCst);
        // Wakes the listener up.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Reads exactly this many bytes; `None` when the peer closed first.
pub fn read_bytes(stream: &mut TcpStream, count: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; count];
    stream.read_exact(&mut bytes).ok().map(|()| bytes)
}

/// Reads a command line, without its CRLF; `None` when the peer closed first.
pub fn read_line(stream: &mut TcpStream) -> Option<String> {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        line.extend(read_bytes(stream, 1)?);
    }
    line.truncate(line.len() - 2);
    Some(String::from_utf8(line).unwrap())
}

/// Reads and discards everything until the peer closes.
pub fn read_to_end(stream: &mut TcpStream) {
    let _ = io::copy(stream, &mut io::sink());
}

/// Closes a connection with a reset.
pub fn reset(stream: TcpStream) {
    socket2::SockRef::from(&stream).set_linger(Some(std::time::Duration::ZERO)).unwrap();
    drop(stream);
}

/// Passes everything on to `server` and back, until either side closes.
pub fn relay(client: TcpStream, server: &str) {
    let Ok(upstream) = TcpStream::connect(server) else { return };
    let (mut from_client, mut to_server) =
        (client.try_clone().unwrap(), upstream.try_clone().unwrap());
    let forward = thread::spawn(move || {
        let _ = io::copy(&mut from_client, &mut to_server);
        let _ = to_server.shutdown(Shutdown::Write);
    });
    let (mut from_server, mut to_client) = (upstream, client);
    let _ = io::copy(&mut from_server, &mut to_client);
    let _ = to_client.flush();
    let _ = to_client.shutdown(Shutdown::Both);
    let _ = forward.join();
}
