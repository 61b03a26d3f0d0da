use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::*;
use crate::output::Field;

/// Lines: one that begins with `?` is a request, one that begins with `!` an answer.
struct Lines;

impl Decoder for Lines {
    fn look(&mut self, _: Side, data: &[u8]) -> Look {
        match data.iter().position(|byte| *byte == b'\n') {
            _ if data.first() == Some(&0) => Look::Stranger("it begins with NUL"),
            Some(at) => Look::Unit(at as u64 + 1),
            None => Look::More,
        }
    }

    fn read(&mut self, _: Side, unit: &[u8], _: u64) -> Option<Said> {
        let text = String::from_utf8_lossy(unit).trim_end().to_owned();
        Some(match unit.first() {
            Some(b'?') => Said::new(text).asks(""),
            Some(b'!') => Said { role: Role::Answers(None), ..Said::new(text) },
            _ => Said::new("line").of(unit),
        })
    }
}

/// A relay with its news.
struct Tapped {
    address: SocketAddr,
    news: Arc<News>,
    items: Receiver<Item>,
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Tapped {
    fn to(server: SocketAddr, room: usize) -> Self {
        let runtime = listen::runtime().unwrap();
        let bound = runtime.block_on(async { Listener::bind("127.0.0.1:0", false, "tap") });
        let (listener, address) = bound.unwrap();
        let (lines, items) = sync_channel(room);
        let news = Arc::new(News {
            lines,
            dropped: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            summary: Mutex::default(),
            choice: Choice { body: 64, ..Choice::default() },
            is_down: AtomicBool::new(false),
        });
        let target = Target { place: Place::Tcp(server.to_string()), patience: PATIENCE };
        let (stop, reported) = (Arc::<AtomicBool>::default(), Arc::clone(&news));
        let stopping = Arc::clone(&stop);
        let relay = move || relay::run(runtime, listener, &target, &reported, &stopping, || Lines);
        let thread = Some(thread::spawn(relay));
        Self { address: address.parse().unwrap(), news, items, stop, thread }
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map_or(Ok(()), thread::JoinHandle::join).unwrap();
    }

    fn client(&self) -> TcpStream {
        connected(TcpStream::connect(self.address).unwrap())
    }

    /// The verbs of what was reported, up to this one.
    fn until(&self, last: &str) -> Vec<String> {
        let mut verbs = Vec::new();
        while verbs.last().is_none_or(|verb| verb != last) {
            verbs.push(match self.items.recv_timeout(Duration::from_secs(30)).unwrap() {
                Item::Line(line) => match line.record(false, 64).get("verb") {
                    Some(Field::Value(verb)) => verb.as_str().unwrap().to_owned(),
                    other => panic!("{other:?}"),
                },
                Item::Warning(text) => text,
            });
        }
        verbs
    }
}

impl Drop for Tapped {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn connected(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

/// A server that gives this to each of its connections.
fn server(serve: fn(TcpStream)) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || serve(connected(stream)));
        }
    });
    address
}

/// Sends back what it gets, including the end of the stream.
fn echo(mut stream: TcpStream) {
    let _ = io::copy(&mut stream.try_clone().unwrap(), &mut stream);
    let _ = stream.shutdown(Shutdown::Write);
}

/// Has the peer see a reset.
fn reset(stream: TcpStream) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    stream.set_nonblocking(true).unwrap();
    let _context = runtime.enter();
    tokio::net::TcpStream::from_std(stream).unwrap().set_zero_linger().unwrap();
}

fn is_reset(read: io::Result<usize>) -> bool {
    read.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionReset)
}

#[test]
fn relays_bytes_unchanged_however_they_are_split() {
    let mut tapped = Tapped::to(server(echo), 1 << 16);
    let pieces = proptest::collection::vec(
        prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..300),
            proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'?'), Just(b'!')], 0..40),
            (0_usize..200_000).prop_map(|len| vec![b'x'; len]),
        ],
        0..20,
    );
    let mut runner = TestRunner::new(Config { cases: 24, ..Config::default() });
    runner
        .run(&pieces, |pieces| {
            let mut client = tapped.client();
            client.set_nodelay(true).unwrap();
            let mut reader = client.try_clone().unwrap();
            let echoed = thread::spawn(move || {
                let mut all = Vec::new();
                reader.read_to_end(&mut all).map(|_| all)
            });
            pieces.iter().for_each(|piece| client.write_all(piece).unwrap());
            client.shutdown(Shutdown::Write).unwrap();
            let echoed = echoed.join().unwrap().unwrap();
            prop_assert!(echoed == pieces.concat(), "{} bytes", echoed.len());
            Ok(())
        })
        .unwrap();
    tapped.end();
}

#[test]
fn relays_unknown_bytes_and_reports_them_once() {
    let tapped = Tapped::to(server(echo), 100);
    let mut client = tapped.client();
    for _ in 0..3 {
        client.write_all(b"\0\x01\n?\n").unwrap();
        client.read_exact(&mut [0; 5]).unwrap();
    }
    drop(client);
    let told = tapped.until("(end)");
    assert_eq!(told.iter().filter(|text| text.contains("from the client is passed on")).count(), 1);
    assert_eq!(told.iter().filter(|text| *text == "(undecoded)").count(), 2, "{told:?}");
}

#[test]
fn forwards_a_reset_from_either_side() {
    // A server that has read what the client sends, so that the reset is its own.
    let tapped = Tapped::to(
        server(|mut stream| {
            let _ = stream.read(&mut [0; 1]);
            reset(stream);
        }),
        100,
    );
    let mut client = tapped.client();
    client.write_all(b"x").unwrap();
    assert!(is_reset(client.read(&mut [0; 1])));
    assert_eq!(tapped.until("(reset)").len(), 2);

    static WAS_RESET: AtomicBool = AtomicBool::new(false);
    let tapped = Tapped::to(
        server(|mut stream| {
            stream.write_all(b"x").unwrap();
            WAS_RESET.store(is_reset(stream.read(&mut [0; 1])), Ordering::SeqCst);
            stream.write_all(b"x").unwrap_err();
        }),
        100,
    );
    let mut client = tapped.client();
    client.read_exact(&mut [0; 1]).unwrap();
    reset(client);
    tapped.until("(reset)");
    let start = Instant::now();
    while !WAS_RESET.load(Ordering::SeqCst) {
        assert!(start.elapsed() < Duration::from_secs(30));
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn survives_losing_the_server() {
    let port = fixtures::Port::take().unwrap();
    let tapped = Tapped::to(port.address(), 100);
    for _ in 0..2 {
        assert!(is_reset(tapped.client().read(&mut [0; 1])));
    }
    let told = [tapped.until("(unreachable)"), tapped.until("(unreachable)")].concat();
    assert_eq!(told.iter().filter(|text| text.contains("cannot reach")).count(), 1, "{told:?}");
    let listener = TcpListener::bind(port.address()).unwrap();
    let mut client = tapped.client();
    let (stream, _) = listener.accept().unwrap();
    thread::spawn(move || echo(stream));
    client.write_all(b"?one\n").unwrap();
    client.read_exact(&mut [0; 5]).unwrap();
    tapped.until("the server is reachable again");
}

#[test]
fn counts_dropped_lines_without_blocking_traffic() {
    let mut tapped = Tapped::to(server(echo), 4);
    let mut client = tapped.client();
    let lines = b"line\n".repeat(1000);
    for _ in 0..10 {
        client.write_all(&lines).unwrap();
        client.read_exact(&mut vec![0; lines.len()]).unwrap();
    }
    tapped.end();
    // The connection line, and both directions, except those that fit.
    let told = tapped.items.try_iter().count() as u64;
    let dropped = tapped.news.dropped.load(Ordering::SeqCst);
    assert!(told == 4 && dropped >= 2 * 10 * 1000 + 1 - told, "{told} and {dropped}");
}

#[test]
fn matches_replies_to_commands() {
    let tapped = Tapped::to(
        server(|mut stream| {
            stream.read_exact(&mut [0; 6]).unwrap();
            stream.write_all(b"!1\n!2\n!3\n").unwrap();
        }),
        100,
    );
    let mut client = tapped.client();
    client.write_all(b"?a\n?b\n").unwrap();
    client.read_to_end(&mut Vec::new()).unwrap();
    let mut answers = Vec::new();
    while answers.len() < 3 {
        let Item::Line(line) = tapped.items.recv_timeout(Duration::from_secs(30)).unwrap() else {
            continue;
        };
        let record = line.record(false, 64);
        let of = |key| match record.get(key) {
            Some(Field::Value(value)) => value.clone(),
            other => panic!("{other:?}"),
        };
        if of("from") == "server" {
            answers.push((of("to"), of("duration_ms").is_number()));
        }
    }
    let expected = [("?a".into(), true), ("?b".into(), true), (serde_json::Value::Null, false)];
    assert_eq!(answers, expected);
    let counted = lock(&tapped.news.summary).records();
    assert_eq!(counted.len(), 2);
}

#[test]
fn prints_only_lines_that_match_every_filter() {
    let told = |filters: &[&str]| {
        let filters = filters.iter().map(|text| (*text).to_owned()).collect();
        let filters = FilterArgs { filters }.read::<Line>().unwrap();
        let (lines, items) = sync_channel(10);
        let news = Arc::new(News {
            lines,
            dropped: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            summary: Mutex::default(),
            choice: Choice { filters, body: 64, ..Choice::default() },
            is_down: AtomicBool::new(false),
        });
        let peer = "127.0.0.1:1".to_owned();
        let mut connection = connection::Connection::open(1, peer, Lines, news);
        let now = Instant::now();
        connection.passed(Side::Client, Some(b"line\n?\n"), now);
        connection.passed(Side::Server, Some(b"!\n"), now + Duration::from_millis(60));
        items.try_iter().count()
    };
    assert_eq!(told(&[]), 4);
    assert_eq!(told(&["verb==line"]), 1);
    assert_eq!(told(&["verb~=^[?!]", "from==client"]), 1);
    // Only an answer has a time.
    assert_eq!((told(&["took>50ms"]), told(&["took>70ms"])), (1, 0));
}
