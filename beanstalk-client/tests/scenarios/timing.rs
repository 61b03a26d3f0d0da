//! What happens when, on a clock that the test turns.

use std::{
    thread::{self, JoinHandle},
    time::Duration,
};

use beanstalk_client::{ErrorKind, JobState, PutOptions, Reserved};
use fixtures::beanstalkd::Server;

use crate::support::{
    Face, both_faces,
    place::{PATIENCE, connect, with_client},
};

fn server() -> Server {
    Server::builder().virtual_clock().start().unwrap()
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Starts a reserve in its own thread, and waits until the server knows of it.
fn waiting<F: Face>(
    server: &Server,
    mut client: F,
    reserve: impl FnOnce(&mut F) -> beanstalk_client::Result<Reserved> + Send + 'static,
) -> JoinHandle<(F, Reserved)> {
    let thread = thread::spawn(move || {
        let reserved = reserve(&mut client).unwrap();
        (client, reserved)
    });
    assert!(server.wait_for(PATIENCE, |view| view.waiting == 1));
    thread
}

both_faces!(
    a_timed_reserve_waits_exactly_its_time,
    sub_second_timeouts_are_sent_rounded_up,
    deadline_soon_comes_a_second_before_the_end,
    touch_restarts_the_time_to_run,
    an_expired_job_can_be_deleted_while_it_is_ready,
    a_pause_ends_by_itself,
    the_server_decides_before_the_clients_own_deadline,
);

fn a_timed_reserve_waits_exactly_its_time<F: Face>() {
    let server = server();
    let reserve = |client: &mut F| client.reserve_with_timeout(seconds(3600));
    let waits = waiting::<F>(&server, connect(server.address()), reserve);
    server.advance(Duration::from_millis(3_599_999));
    assert!(!waits.is_finished() && server.view().waiting == 1);
    server.advance(Duration::from_millis(1));
    assert_eq!(waits.join().unwrap().1, Reserved::TimedOut);
}

fn sub_second_timeouts_are_sent_rounded_up<F: Face>() {
    let (server, mut client) = with_client::<F>(server());
    let _ = client.put(b"x", PutOptions::default().ttr(Duration::from_millis(1001))).unwrap();
    let _ = client.reserve_with_timeout(Duration::from_nanos(1)).unwrap();
    client.pause_tube("default", Duration::from_millis(2500)).unwrap();
    let sent: Vec<String> = server.requests().iter().map(|request| request.text()).collect();
    assert_eq!(sent, ["put 1024 0 2 1", "reserve-with-timeout 1", "pause-tube default 3"]);
}

fn deadline_soon_comes_a_second_before_the_end<F: Face>() {
    let (server, mut client) = with_client::<F>(server());
    let id = client.put(b"x", PutOptions::default().ttr(seconds(10))).unwrap().id();
    let job = client.reserve().unwrap().job().unwrap();
    let waits = waiting(&server, client, |client: &mut F| client.reserve());
    server.advance(Duration::from_millis(8999));
    assert_eq!(server.view().waiting, 1);
    server.advance(Duration::from_millis(1));
    let (mut client, reserved) = waits.join().unwrap();
    assert_eq!(reserved, Reserved::DeadlineSoon);
    assert!(client.stats_job(id).unwrap().unwrap().time_left <= 1);
    client.touch(&job).unwrap();
    assert_eq!(client.reserve_with_timeout(Duration::ZERO).unwrap(), Reserved::TimedOut);
    client.delete(&job).unwrap();
}

fn touch_restarts_the_time_to_run<F: Face>() {
    let (server, mut client) = with_client::<F>(server());
    let id = client.put(b"x", PutOptions::default().ttr(seconds(10))).unwrap().id();
    let job = client.reserve().unwrap().job().unwrap();
    for _ in 0..3 {
        server.advance(seconds(8));
        client.touch(&job).unwrap();
    }
    // Truncated, as the real server does: 9 as soon as a nanosecond has passed.
    assert!((9..=10).contains(&client.stats_job(id).unwrap().unwrap().time_left));
    server.advance(seconds(10));
    let error = client.touch(&job).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let stats = client.stats_job(id).unwrap().unwrap();
    assert_eq!((stats.state, stats.timeouts), (JobState::Ready, 1));
}

fn an_expired_job_can_be_deleted_while_it_is_ready<F: Face>() {
    let (server, mut client) = with_client::<F>(server());
    let _ = client.put(b"x", PutOptions::default().ttr(seconds(5))).unwrap();
    let job = client.reserve().unwrap().job().unwrap();
    server.advance(seconds(6));
    client.delete(&job).unwrap();
    assert_eq!(server.view().jobs, 0);
}

fn a_pause_ends_by_itself<F: Face>() {
    let (server, mut client) = with_client::<F>(server());
    let id = client.put(b"x", PutOptions::default()).unwrap().id();
    client.pause_tube("default", seconds(30)).unwrap();
    let waits = waiting(&server, client, |client: &mut F| client.reserve());
    server.advance(seconds(29));
    // A slice of its time has ended, and the next one begins.
    assert!(server.wait_for(PATIENCE, |view| view.waiting == 1));
    server.advance(seconds(1));
    assert_eq!(waits.join().unwrap().1.job().unwrap().id, id);
}

/// B8: a timed reserve is waited for by its own time longer than any other reply.
fn the_server_decides_before_the_clients_own_deadline<F: Face>() {
    let server = server();
    let options =
        crate::support::place::options(server.address()).reply_timeout(Duration::from_millis(1));
    let client = F::connect(options).unwrap();
    let waits =
        waiting(&server, client, |client: &mut F| client.reserve_with_timeout(seconds(3600)));
    // Long past the reply timeout: two other round trips have been made meanwhile, with time on the real clock.
    let mut other: F = connect(server.address());
    thread::sleep(Duration::from_millis(50));
    let id = other.put(b"x", PutOptions::default()).unwrap().id();
    assert_eq!(waits.join().unwrap().1.job().unwrap().id, id);
}
