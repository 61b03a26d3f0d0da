//! What a client does on a server that is well.

use std::time::Duration;

use adf_queue_client::{ConnectionState, ErrorKind, Fate, Refusal};

use crate::{
    face::{Face, over_websocket},
    support::{World, queue_name},
};

over_websocket! {
    messages_are_pulled_from_the_left_and_deleted,
    what_was_put_back_is_pulled_again,
}

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

fn what_was_put_back_is_pulled_again<F: Face>(world: &World) {
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
