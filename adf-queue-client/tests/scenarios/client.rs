//! A client on a healthy server.

use std::{
    thread,
    time::{Duration, Instant},
};

use adf_queue_client::{
    ConnectionState, ErrorKind, Fate, QueueName, Refusal, RequestId,
    protocol::{Action, Request, Success},
};
use bytes::Bytes;

use crate::{
    face::{Face, over_each_transport, over_websocket, with_queue},
    support::{PATIENCE, World, queue_name},
};

over_each_transport!(
    messages_are_pulled_from_the_left_and_deleted,
    returned_messages_are_pulled_again,
    a_pull_from_a_queue_that_does_not_exist_is_refused_and_the_server_lives,
);

over_websocket!(
    bodies_round_trip,
    unrepresentable_bodies_are_refused_before_sending,
    a_message_that_comes_too_late_is_the_next_pulls,
    a_returned_message_wakes_no_pull,
    a_message_that_woke_no_pull_goes_to_the_next,
    a_message_belongs_to_the_connection_that_pulled_it,
    a_closed_client_returns_its_messages,
    a_request_can_have_an_id_of_the_callers_own,
    acting_by_id_is_refused_where_a_message_belongs_to_its_connection,
);

fn messages_are_pulled_from_the_left_and_deleted<F: Face>(world: &World) {
    let queue = queue_name();
    let mut client = F::connect(world.options()).unwrap();
    assert_eq!(client.connection_state(), ConnectionState::Ready);
    client.create_queue(&queue).unwrap();
    let exists = client.create_queue(&queue).unwrap_err();
    assert_eq!(*exists.kind(), ErrorKind::Refused(Refusal::QueueExists));
    assert_eq!(exists.fate(), Fate::Refused);
    assert!(!client.ensure_queue(&queue).unwrap());
    assert_eq!(client.rpush(&queue, "second".into()).unwrap().get(), 1);
    assert_eq!(client.lpush(&queue, "first".into()).unwrap().get(), 2);
    assert_eq!(client.count(&queue).unwrap(), 2);
    let first = client.pull(&queue).unwrap();
    assert_eq!((&first.body()[..], first.message_id().get()), (&b"first"[..], 2));
    assert_eq!((first.duplications(), first.is_redelivered()), (1, false));
    let second = client.try_pull(&queue).unwrap().unwrap();
    assert_eq!(&second.body()[..], b"second");
    assert!(client.try_pull(&queue).unwrap().is_none());
    client.delete(&first).unwrap();
    client.delete(&second).unwrap();
    let gone = client.delete(&second).unwrap_err();
    assert_eq!(*gone.kind(), ErrorKind::Refused(Refusal::NotPulled));
    client.delete_queue(&queue).unwrap();
    let missing = client.count(&queue).unwrap_err();
    assert_eq!(*missing.kind(), ErrorKind::Refused(Refusal::QueueNotFound));
    client.ping().unwrap();
}

fn returned_messages_are_pulled_again<F: Face>(world: &World) {
    let queue = queue_name();
    let mut client = F::connect(world.options()).unwrap();
    assert!(client.ensure_queue(&queue).unwrap());
    client.rpush(&queue, "a".into()).unwrap();
    client.rpush(&queue, "b".into()).unwrap();
    let first = client.pull(&queue).unwrap();
    client.rcancel(&first).unwrap();
    let second = client.pull_within(&queue, Duration::from_secs(20)).unwrap().unwrap();
    assert_eq!(&second.body()[..], b"b");
    client.lcancel(&second).unwrap();
    let again = client.pull(&queue).unwrap();
    assert_eq!((&again.body()[..], again.duplications()), (&b"b"[..], 2));
    assert!(again.is_redelivered());
    assert_eq!(client.clear(&queue).unwrap(), 1);
    client.delete(&again).unwrap();
    client.delete_queue(&queue).unwrap();
}

fn bodies_round_trip<F: Face>(world: &World) {
    let (mut client, queue) = with_queue::<F>(world);
    let mut bodies: Vec<Bytes> = vec![
        "".into(),
        "héllo 队列 😀 \"q\" \\ / \u{8}\u{c}\n\r\t".into(),
        // The server writes these raw, which is not JSON.
        "a\u{1}b\0c\u{1f}\u{7f}\u{2028}".into(),
        "x".repeat(65_535).into(),
    ];
    match world.is_json() {
        true => bodies.push("x".repeat(200_000).into()),
        false => bodies.push((0..=255).collect::<Vec<u8>>().into()),
    }
    for body in bodies {
        client.rpush(&queue, body.clone()).unwrap();
        let pulled = client.pull(&queue).unwrap();
        assert!(*pulled.body() == body, "{} bytes", body.len());
        client.delete(&pulled).unwrap();
    }
    client.delete_queue(&queue).unwrap();
}

fn unrepresentable_bodies_are_refused_before_sending<F: Face>(world: &World) {
    let (mut client, queue) = with_queue::<F>(world);
    let body = match world.is_json() {
        true => Bytes::from_static(b"\xff"),
        false => "x".repeat(65_536).into(),
    };
    let sent = client.metrics().commands;
    let error = client.rpush(&queue, body).unwrap_err();
    assert_eq!((error.kind(), error.fate()), (&ErrorKind::InvalidInput, Fate::NotSent));
    let umlaut: QueueName = format!("{queue}/ü").try_into().unwrap();
    if world.is_json() {
        client.create_queue(&umlaut).unwrap();
        client.delete_queue(&umlaut).unwrap();
    } else {
        let error = client.pull(&umlaut).unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::InvalidInput);
        assert_eq!(client.metrics().commands, sent);
    }
    client.delete_queue(&queue).unwrap();
}

fn a_pull_from_a_queue_that_does_not_exist_is_refused_and_the_server_lives<F: Face>(world: &World) {
    let queue = queue_name();
    let mut client = F::connect(world.options()).unwrap();
    for error in [
        client.pull(&queue).unwrap_err(),
        client.pull_within(&queue, PATIENCE).unwrap_err(),
        client.try_pull(&queue).unwrap_err(),
        client.rpush(&queue, "x".into()).unwrap_err(),
        client.clear(&queue).unwrap_err(),
        client.delete_queue(&queue).unwrap_err(),
    ] {
        assert_eq!(*error.kind(), ErrorKind::Refused(Refusal::QueueNotFound));
        assert_eq!(error.fate(), Fate::Refused);
    }
    client.ping().unwrap();
}

fn a_message_that_comes_too_late_is_the_next_pulls<F: Face>(world: &World) {
    let (mut client, queue) = with_queue::<F>(world);
    let mut waits = false;
    while !waits {
        assert!(client.pull_within(&queue, Duration::from_millis(20)).unwrap().is_none());
        // On a busy machine its time may be over before it is sent.
        waits = world.server.as_ref().is_none_or(|server| server.view().waiting == 1);
    }
    client.rpush(&queue, "late".into()).unwrap();
    assert_eq!(client.count(&queue).unwrap(), 0, "the pull that was given up has it");
    let late = client.try_pull(&queue).unwrap().unwrap();
    assert_eq!((&late.body()[..], late.duplications()), (&b"late"[..], 1));
    client.delete(&late).unwrap();
    client.delete_queue(&queue).unwrap();
}

fn a_returned_message_wakes_no_pull<F: Face>(world: &World) {
    let (mut client, queue) = with_queue::<F>(world);
    client.rpush(&queue, "first".into()).unwrap();
    let first = client.pull(&queue).unwrap();
    assert!(client.pull_within(&queue, Duration::from_millis(20)).unwrap().is_none());
    client.lcancel(&first).unwrap();
    assert_eq!(client.count(&queue).unwrap(), 1, "a pull waits on the server");
    client.rpush(&queue, "second".into()).unwrap();
    let again = client.pull(&queue).unwrap();
    assert_eq!((&again.body()[..], again.duplications()), (&b"first"[..], 2));
    assert_eq!(client.clear(&queue).unwrap(), 1);
    client.delete(&again).unwrap();
    client.delete_queue(&queue).unwrap();
}

/// The next pull joined the one that was given up, and waited for a push.
fn a_message_that_woke_no_pull_goes_to_the_next<F: Face>(world: &World) {
    let (mut client, queue) = with_queue::<F>(world);
    client.rpush(&queue, "x".into()).unwrap();
    let mut pulled = client.pull(&queue).unwrap();
    for _ in 0..3 {
        assert!(client.pull_within(&queue, Duration::from_millis(20)).unwrap().is_none());
        client.rcancel(&pulled).unwrap();
        pulled = client.pull(&queue).unwrap();
    }
    assert_eq!(pulled.duplications(), 4);
    client.delete(&pulled).unwrap();
    client.delete_queue(&queue).unwrap();
}

fn a_message_belongs_to_the_connection_that_pulled_it<F: Face>(world: &World) {
    let (mut one, queue) = with_queue::<F>(world);
    let mut other = F::connect(world.options()).unwrap();
    one.rpush(&queue, "x".into()).unwrap();
    let pulled = one.pull(&queue).unwrap();
    let sent = other.metrics().commands;
    for error in [
        other.delete(&pulled).unwrap_err(),
        other.lcancel(&pulled).unwrap_err(),
        other.rcancel(&pulled).unwrap_err(),
    ] {
        assert_eq!((error.kind(), error.fate()), (&ErrorKind::JobLost, Fate::NotSent));
    }
    assert_eq!(other.metrics().commands, sent);
    let before = one.epoch();
    one.reconnect().unwrap();
    assert_ne!(one.epoch(), before);
    assert_eq!(*one.delete(&pulled).unwrap_err().kind(), ErrorKind::JobLost);
    let again = other.pull_within(&queue, PATIENCE).unwrap().unwrap();
    assert_eq!(again.duplications(), 2);
    other.delete(&again).unwrap();
    other.delete_queue(&queue).unwrap();
}

fn a_closed_client_returns_its_messages<F: Face>(world: &World) {
    let (mut stays, queue) = with_queue::<F>(world);
    let mut goes = F::connect(world.options()).unwrap();
    for body in ["a", "b"] {
        goes.rpush(&queue, body.into()).unwrap();
        goes.pull(&queue).unwrap();
    }
    drop(goes);
    // A waiting pull would get the message that goes back first, which is the newest.
    let started = Instant::now();
    while stays.count(&queue).unwrap() < 2 {
        assert!(started.elapsed() < PATIENCE, "they do not go back");
        thread::sleep(Duration::from_millis(1));
    }
    for body in ["a", "b"] {
        let pulled = stays.pull_within(&queue, PATIENCE).unwrap().unwrap();
        assert_eq!(pulled.body(), body, "in their order");
        stays.delete(&pulled).unwrap();
    }
    stays.delete_queue(&queue).unwrap();
}

fn a_request_can_have_an_id_of_the_callers_own<F: Face>(world: &World) {
    let queue = queue_name();
    let mut client = F::connect(world.options()).unwrap();
    let id: RequestId = "88bea088837d4743af67a2d49e6d08d1".parse().unwrap();
    let request = |made: fn(RequestId, QueueName) -> Request| made(id, queue.clone());
    assert_eq!(client.call(request(Request::create_queue)).unwrap(), Success::Done);
    let push = Request::rpush(id, queue.clone(), "x");
    assert_eq!(client.call(push).unwrap(), Success::Pushed(1.into()));
    assert_eq!(client.call(request(Request::count)).unwrap(), Success::Counted(1));
    let pulled = client.call(request(Request::pull)).unwrap();
    assert!(matches!(pulled, Success::Delivered(message) if message.body == "x"));
    assert_eq!(client.call(request(Request::delete)).unwrap(), Success::Done);
    let error = client.call(request(Request::delete)).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Refused(Refusal::NotPulled));
    assert_eq!((error.action(), error.request_id()), (Some(Action::Delete), Some(&id)));
    client.delete_queue(&queue).unwrap();
}

fn acting_by_id_is_refused_where_a_message_belongs_to_its_connection<F: Face>(world: &World) {
    let (queue, id) = (queue_name(), RequestId::new("1").unwrap());
    let mut client = F::connect(world.options()).unwrap();
    for error in [
        client.pull_with_id(&queue, id).unwrap_err(),
        client.delete_pulled(&queue, &id).unwrap_err(),
        client.lcancel_pulled(&queue, &id).unwrap_err(),
        client.rcancel_pulled(&queue, &id).unwrap_err(),
        client.recover(&queue, &id).unwrap_err(),
    ] {
        assert_eq!((error.kind(), error.fate()), (&ErrorKind::Unsupported, Fate::NotSent));
        assert!(error.to_string().contains("use an address with http://"), "{error}");
    }
}
