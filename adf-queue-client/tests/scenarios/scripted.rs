//! A server over HTTP whose answers a test writes by hand.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex},
    thread,
};

use crate::support::PATIENCE;

/// A received request.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// The number of its connection, from 1.
    pub(crate) connection: usize,
    pub(crate) head: String,
}

/// The server's reaction.
#[derive(Debug)]
pub(crate) enum Say {
    /// Writes this, and waits for the next request.
    Keep(String),
    /// Writes this, and closes.
    Close(String),
    /// Writes this, and waits for the client to disconnect.
    Hang(String),
}

/// The server. It listens on loopback until the test ends.
pub(crate) struct Scripted {
    pub(crate) address: String,
    log: Arc<Log>,
}

#[derive(Default)]
struct Log {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    asked: Vec<Asked>,
    /// Connections closed by the client.
    left: usize,
}

impl Log {
    fn note(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap());
        self.changed.notify_all();
    }
}

impl Asked {
    /// The requested action, or nothing for the status page.
    pub(crate) fn action(&self) -> &str {
        let path = self.head.split(' ').nth(1).unwrap();
        path.strip_prefix("/queue/").map_or("", |rest| rest.split('.').next().unwrap())
    }

    /// A part of the query, unparsed.
    pub(crate) fn query(&self, key: &str) -> &str {
        let target = self.head.split(' ').nth(1).unwrap();
        let pairs = target.split_once('?').map_or("", |(_, query)| query).split('&');
        pairs.filter_map(|pair| pair.split_once('=')).find(|(name, _)| *name == key).unwrap().1
    }

    /// An answer in JSON to this request, whose connection may be used again.
    pub(crate) fn json(&self, more: &str) -> String {
        let (action, id) = (self.action(), self.query("requestid"));
        let json = format!(
            r#"{{"queue":"q","result":"ok","action":"{action}","requestid":"{id}"{more}}}"#
        );
        chunked("application/json", &json)
    }
}

/// The head of an answer in progress.
pub(crate) fn head(content_type: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\nContent-Type: {content_type}\nVia: vm\nConnection: keep-alive\nTransfer-Encoding: chunked\n\n"
    )
}

/// An answer in one chunk.
pub(crate) fn chunked(content_type: &str, body: &str) -> String {
    format!("{}{:x}\r\n{body}\r\n0\r\n\r\n", head(content_type), body.len())
}

impl Scripted {
    pub(crate) fn start(answer: impl Fn(&Asked) -> Say + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (log, answer) = (Arc::new(Log::default()), Arc::new(answer));
        let shared = log.clone();
        thread::spawn(move || {
            for (number, stream) in (1..).zip(listener.incoming()) {
                let (answer, log) = (answer.clone(), shared.clone());
                thread::spawn(move || {
                    let stream = stream.unwrap();
                    serve(&stream, number, &*answer, &log);
                    // It is reported as ended once the client's side has noticed, which a busy machine may put off.
                    socket2::SockRef::from(&stream).set_linger(Some(PATIENCE)).unwrap();
                    drop(stream);
                    log.note(|state| state.left += 1);
                });
            }
        });
        Scripted { address, log }
    }

    /// All requests so far, once there are this many.
    pub(crate) fn asked(&self, at_least: usize) -> Vec<Asked> {
        self.wait(|state| (state.asked.len() >= at_least).then(|| state.asked.clone()))
    }

    /// Waits until this number of connections have ended.
    pub(crate) fn ended(&self, connections: usize) {
        self.wait(|state| (state.left >= connections).then_some(()));
    }

    fn wait<T>(&self, mut found: impl FnMut(&State) -> Option<T>) -> T {
        let mut what = None;
        let state = self.log.state.lock().unwrap();
        let waited = self.log.changed.wait_timeout_while(state, PATIENCE, |state| {
            what = found(state);
            what.is_none()
        });
        drop(waited.unwrap());
        what.expect("what is waited for happens")
    }
}

fn serve(mut stream: &TcpStream, connection: usize, answer: &dyn Fn(&Asked) -> Say, log: &Log) {
    loop {
        let Some(asked) = read(stream, connection) else { return };
        log.note(|state| state.asked.push(asked.clone()));
        let (text, goes_on) = match answer(&asked) {
            Say::Keep(text) => (text, true),
            Say::Close(text) => (text, false),
            Say::Hang(text) => {
                stream.write_all(text.as_bytes()).ok();
                while stream.read(&mut [0; 64]).is_ok_and(|n| n > 0) {}
                return;
            }
        };
        if stream.write_all(text.as_bytes()).is_err() || !goes_on {
            return;
        }
    }
}

/// The next request, unless the client has gone.
fn read(mut stream: &TcpStream, connection: usize) -> Option<Asked> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).ok()?;
    Some(Asked { connection, head })
}
