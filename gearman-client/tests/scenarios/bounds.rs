//! Every wait has a limit that holds, and no limit ends what makes progress.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use gearman_client::{
    ConnectOptions, Deadline, ErrorKind, Fate, JobEvent, JobHandle, RetryPolicy, Servers,
    protocol::{Echo, PacketType, Submit},
};
use socket2::SockRef;

use super::{
    face::{Face, both_faces},
    support::{LATE, PATIENCE, Peer, function, options, wire},
};

both_faces!(
    a_write_continues_while_the_server_keeps_reading,
    a_server_that_reads_drop_by_drop_meets_the_write_deadline,
    a_silent_server_is_asked_no_longer_than_one_answer_may_take,
    a_total_timeout_covers_all_servers_and_leaves_time_for_each,
    a_slow_event_reader_still_gets_its_answers,
);

/// A server that takes `bytes` at a time, with a pause after each, and answers nothing.
fn slow_reader(bytes: usize, pause: Duration) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // What the operating system itself buffers says nothing about the server.
    SockRef::from(&listener).set_recv_buffer_size(4096).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || read_slowly(stream, bytes, pause));
        }
    });
    address
}

fn read_slowly(mut stream: TcpStream, bytes: usize, pause: Duration) {
    let mut seen = [0; 12];
    if stream.read_exact(&mut seen).is_err() {
        return;
    }
    let size = u32::from_be_bytes(seen[8..].try_into().unwrap());
    let mut left = size as usize;
    let mut space = vec![0; bytes];
    while left > 0 {
        let piece = left.min(bytes);
        if stream.read_exact(&mut space[..piece]).is_err() {
            return;
        }
        left -= piece;
        thread::sleep(pause);
    }
    let _ = stream.write_all(&wire(PacketType::JobCreated, &["H:x:1"]));
    let _ = std::io::copy(&mut stream, &mut std::io::sink());
}

fn impatient(address: &str) -> ConnectOptions {
    let options: ConnectOptions = address.parse().unwrap();
    let short = Duration::from_millis(500);
    options.exceptions(false).write_timeout(short).reply_timeout(short).retry(RetryPolicy::never())
}

/// Many megabytes through small buffers took longer than the write timeout, and were given up while bytes flowed.
fn a_write_continues_while_the_server_keeps_reading<F: Face>() {
    let address = slow_reader(1 << 16, Duration::from_millis(10));
    let patient = impatient(&address).write_timeout(LATE).reply_timeout(PATIENCE);
    let mut client = F::connect(patient).unwrap();
    let started = Instant::now();
    client.submit_background("f", &vec![b'x'; 20 << 20], options()).unwrap();
    assert!(started.elapsed() > LATE, "it was too quick to show anything");
}

/// C4: a byte is taken well within every time limit, forever.
fn a_server_that_reads_drop_by_drop_meets_the_write_deadline<F: Face>() {
    let address = slow_reader(200, Duration::from_millis(10));
    let mut client = F::connect(impatient(&address)).unwrap();
    let large = "x".repeat(64 << 20);
    let started = Instant::now();
    let error = client.call(&Echo(&large)).unwrap_err();
    let kind = ErrorKind::Timeout(Deadline::Write);
    assert_eq!((error.kind(), error.fate()), (kind, Fate::NotSent), "{error}");
    assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
}

/// A server that accepts connections and sends nothing.
fn silent() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

fn handle() -> JobHandle {
    "H:x:1".parse().unwrap()
}

/// With a reply timeout of one second it took 17.8 seconds.
fn a_silent_server_is_asked_no_longer_than_one_answer_may_take<F: Face>() {
    let (listener, address) = silent();
    let options: ConnectOptions = address.parse().unwrap();
    // This number of repetitions would take minutes.
    let options = options.reply_timeout(Duration::from_millis(500)).retry(RetryPolicy::new(100));
    let mut client = F::connect(options).unwrap();
    let started = Instant::now();
    let error = client.status(&handle()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout(Deadline::Reply), "{error}");
    assert!(started.elapsed() < PATIENCE / 2, "{:?}", started.elapsed());
    drop(listener);
}

/// The first server does not answer, the second one knows: half of the time is left for it.
fn a_total_timeout_covers_all_servers_and_leaves_time_for_each<F: Face>() {
    let (listener, silent) = silent();
    let (knows, _server) = Peer::serve(vec![Box::new(|mut peer: Peer| {
        peer.expect(PacketType::GetStatus);
        peer.write(PacketType::StatusRes, &["H:x:1", "1", "0", "0", "0"]);
        peer.wait_for_end();
    })]);
    let to = |address: &str| {
        let options: ConnectOptions = address.parse().unwrap();
        let options = options.exceptions(false).reply_timeout(PATIENCE * 100);
        options.total_timeout(Some(LATE + LATE / 3)).retry(RetryPolicy::new(100))
    };
    let started = Instant::now();
    let some = Servers::new([to(&silent), to(&knows)]).unwrap();
    let none = Servers::new([to(&silent), to(&silent), to(&silent)]).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = F::connect(some).unwrap();
            assert!(client.status(&handle()).unwrap().is_known);
        });
        // When none answers, the time is that of the call, not of each server and each attempt.
        let mut client = F::connect(none).unwrap();
        let error = client.status(&handle()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout(Deadline::Total), "{error}");
    });
    assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
    drop(listener);
}

/// Four jobs are in progress. When two have ended, the next two are submitted, and an event of the third is still
/// unread.
fn a_slow_event_reader_still_gets_its_answers<F: Face>() {
    let (answered, answers) = mpsc::channel();
    let (address, _server) = Peer::serve(vec![Box::new(move |mut peer: Peer| {
        let handles = ["H:x:0", "H:x:1", "H:x:2", "H:x:3", "H:x:4", "H:x:5"];
        let all = |of: PacketType, to: &[&str]| -> Vec<u8> {
            to.iter().flat_map(|handle| wire(of, &[handle, "r"][..of_parts(of)])).collect()
        };
        (0..4).for_each(|_| drop(peer.expect(PacketType::SubmitJob)));
        let mut first = all(PacketType::JobCreated, &handles[..4]);
        first.extend(all(PacketType::WorkComplete, &handles[..2]));
        first.extend(all(PacketType::WorkData, &handles[2..3]));
        peer.write_bytes(&first);
        (4..6).for_each(|_| drop(peer.expect(PacketType::SubmitJob)));
        let mut second = all(PacketType::JobCreated, &handles[4..]);
        second.extend(all(PacketType::WorkComplete, &handles[2..]));
        peer.write_bytes(&second);
        answered.send(()).unwrap();
        peer.wait_for_end();
    })]);
    let to: ConnectOptions = address.parse().unwrap();
    let to = to.exceptions(false).reply_timeout(LATE).retry(RetryPolicy::never());
    let mut client = F::connect(to).unwrap();
    let job = |_| Submit::foreground(function("f"), Vec::new(), options()).unwrap();
    let mut ended = 0;
    client.submit_some(Some(4), (0..6).map(job).collect(), |number, event| match event.unwrap() {
        JobEvent::Data(_) => {
            assert_eq!((number, ended), (2, 2));
            answers.recv_timeout(PATIENCE).expect("two more are submitted before this is given");
            thread::sleep(LATE + LATE / 5);
        }
        event => ended += usize::from(event.is_last()),
    });
    assert_eq!(ended, 6);
}

/// How many parts a packet of the server has here: a handle, and perhaps data.
fn of_parts(packet_type: PacketType) -> usize {
    if packet_type == PacketType::JobCreated { 1 } else { 2 }
}
