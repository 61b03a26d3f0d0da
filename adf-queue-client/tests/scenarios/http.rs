//! A client over HTTP, on healthy servers.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use adf_queue_client::{Client, ErrorKind, Fate, Refusal, RequestId, Transport, protocol::Request};
use queue_core::Random;
use tokio::{task::JoinSet, time::timeout};

use crate::{
    face::{Face, over_each_transport, over_http, runtime, with_queue},
    support::{PATIENCE, World, queue_name},
};

over_http!(
    pulled_messages_are_not_bound_to_a_client,
    a_pull_with_a_deadline_leaves_nothing_on_the_server,
    a_message_is_acted_on_by_the_id_of_its_pull,
    a_body_that_the_server_would_not_take_is_refused,
    a_name_that_makes_too_long_a_line_is_refused,
    a_large_body_round_trips,
    a_pull_by_its_id_of_a_missing_queue_leaves_the_server_alive,
);

over_each_transport!(the_status_page_lists_queues,);

/// Row 7.
fn pulled_messages_are_not_bound_to_a_client<F: Face>(world: &World) {
    let (mut client, queue) = with_queue::<F>(world);
    client.rpush(&queue, "a".into()).unwrap();
    let pulled = client.pull(&queue).unwrap();
    assert_eq!((pulled.epoch(), client.epoch()), (None, None));
    drop(client);
    let mut other = F::connect(world.options()).unwrap();
    assert_eq!(other.count(&queue).unwrap(), 0, "it is not given back");
    other.delete(&pulled).unwrap();
    let gone = other.lcancel(&pulled).unwrap_err();
    assert_eq!(*gone.kind(), ErrorKind::Refused(Refusal::NotPulled));
    other.delete_queue(&queue).unwrap();
}

/// Row 2.
fn a_pull_with_a_deadline_leaves_nothing_on_the_server<F: Face>(world: &World) {
    let (mut client, queue) = with_queue::<F>(world);
    let time = Duration::from_millis(300);
    assert!(client.pull_within(&queue, time).unwrap().is_none());
    assert!(client.try_pull(&queue).unwrap().is_none());
    let stats = client.queue_stats(&queue).unwrap().unwrap();
    assert_eq!((stats.waiting, stats.pulled, stats.ready), (0, 0, 0));
    client.rpush(&queue, "a".into()).unwrap();
    assert_eq!(client.count(&queue).unwrap(), 1, "nobody has swallowed it");
    let pulled = client.pull_within(&queue, PATIENCE).unwrap().unwrap();
    client.delete(&pulled).unwrap();
    client.delete_queue(&queue).unwrap();
}

/// Row 2: `recover` brings back what an abandoned pull took.
fn a_message_is_acted_on_by_the_id_of_its_pull<F: Face>(world: &World) {
    let (mut client, queue) = with_queue::<F>(world);
    let mut other = F::connect(world.options()).unwrap();
    client.rpush(&queue, "a".into()).unwrap();
    client.rpush(&queue, "b".into()).unwrap();
    let [first, second, third] = [(); 3].map(|()| RequestId::unique());
    let pulled = client.pull_with_id(&queue, first).unwrap();
    assert_eq!((pulled.request_id(), &pulled.body()[..]), (&first, &b"a"[..]));
    other.recover(&queue, &first).unwrap();
    let again = client.pull_with_id(&queue, second).unwrap();
    assert_eq!((again.duplications(), &again.body()[..]), (2, &b"a"[..]));
    other.rcancel_pulled(&queue, &second).unwrap();
    let next = client.pull_with_id(&queue, third).unwrap();
    assert_eq!(&next.body()[..], b"b");
    other.delete_pulled(&queue, &third).unwrap();
    let gone = other.lcancel_pulled(&queue, &third).unwrap_err();
    assert_eq!(*gone.kind(), ErrorKind::Refused(Refusal::NotPulled));
    assert_eq!((gone.request_id(), gone.fate()), (Some(&third), Fate::Refused));
    assert_eq!(client.clear(&queue).unwrap(), 1);
    client.delete_queue(&queue).unwrap();
}

/// Row 17: the server answers 411 to an empty body, and 413 over 10 MiB.
fn a_body_that_the_server_would_not_take_is_refused<F: Face>(world: &World) {
    let queue = queue_name();
    let mut client = F::new(world.options()).unwrap();
    for body in [Vec::new(), vec![b'x'; (10 << 20) + 1]] {
        let length = body.len().to_string();
        let error = client.rpush(&queue, body.into()).unwrap_err();
        assert_eq!((error.kind(), error.fate()), (&ErrorKind::InvalidInput, Fate::NotSent));
        assert!(error.to_string().contains(&length), "{error}");
    }
    assert_eq!(client.metrics().connections, 0);
}

/// Row 12: the server closes silently at a line of over 512 bytes.
fn a_name_that_makes_too_long_a_line_is_refused<F: Face>(world: &World) {
    let mut client = F::connect(world.options()).unwrap();
    let line = "GET /queue/createqueue.json?queue=&requestid= HTTP/1.1".len();
    let longest = 512 - line - RequestId::MAX + usize::from(!world.is_json());
    // Each slash takes two bytes more.
    let plain = queue_name().as_str().replace('/', "-");
    let name = |length: usize| format!("{plain:q<length$}").replace('-', "q").try_into().unwrap();
    client.create_queue(&name(longest)).unwrap();
    client.delete_queue(&name(longest)).unwrap();
    let error = client.create_queue(&name(longest + 1)).unwrap_err();
    assert_eq!((error.kind(), error.fate()), (&ErrorKind::InvalidInput, Fate::NotSent));
    assert!(error.to_string().contains("lines of up to 512"), "{error}");
}

/// Row 16.
fn a_large_body_round_trips<F: Face>(world: &World) {
    let (mut client, queue) = with_queue::<F>(world);
    let top = if world.is_json() { 0x7f } else { 0xff };
    let body: Vec<u8> = (0..1_u32 << 20).map(|n| (n % 251) as u8 & top).collect();
    client.rpush(&queue, body.clone().into()).unwrap();
    let pulled = client.pull(&queue).unwrap();
    assert!(pulled.body() == &body[..], "{} bytes", pulled.body().len());
    client.delete(&pulled).unwrap();
    client.delete_queue(&queue).unwrap();
}

/// Row 4.
fn a_pull_by_its_id_of_a_missing_queue_leaves_the_server_alive<F: Face>(world: &World) {
    let queue = queue_name();
    let mut client = F::connect(world.options()).unwrap();
    for error in [
        client.pull_with_id(&queue, RequestId::unique()).unwrap_err(),
        client.call(Request::pull(RequestId::unique(), queue)).unwrap_err(),
    ] {
        assert_eq!(*error.kind(), ErrorKind::Refused(Refusal::QueueNotFound));
    }
    client.ping().unwrap();
}

/// Row 25.
fn the_status_page_lists_queues<F: Face>(world: &World) {
    let queue = queue_name();
    let mut client = F::connect(world.options()).unwrap();
    assert_eq!(client.queue_stats(&queue).unwrap(), None);
    client.create_queue(&queue).unwrap();
    client.rpush(&queue, "a".into()).unwrap();
    client.rpush(&queue, "b".into()).unwrap();
    let pulled = client.pull(&queue).unwrap();
    let stats = client.queue_stats(&queue).unwrap().unwrap();
    assert_eq!((stats.name.as_str(), stats.waiting), (queue.as_str(), 0));
    assert_eq!((stats.pulled, stats.ready), (1, 1));
    let all = client.stats().unwrap();
    assert_eq!(all.version, "2.0.0");
    assert!(all.queue_count >= 1 && !all.host.is_empty());
    // A real server may have more of them than the page shows.
    let is_listed = all.queues.iter().any(|listed| listed.name == queue.as_str());
    assert!(is_listed || !all.is_complete(), "{all:?}");
    client.delete(&pulled).unwrap();
    client.clear(&queue).unwrap();
    client.delete_queue(&queue).unwrap();
}

/// Both transports over HTTP, on every available server.
fn worlds() -> impl Iterator<Item = World> {
    [Transport::HttpBin, Transport::HttpJson].into_iter().flat_map(|transport| {
        [Some(World::in_memory(transport)), World::real(transport)].into_iter().flatten()
    })
}

/// A queue that is deleted never answers its pulls, so their ids have to be known.
#[test]
fn a_pull_that_was_dropped_with_its_client_is_recovered_by_its_id() {
    for world in worlds() {
        runtime().block_on(async {
            let (queue, id) = (queue_name(), RequestId::unique());
            let client = Client::connect(world.options()).await.unwrap();
            client.create_queue(&queue).await.unwrap();
            tokio::select! {
                pulled = client.pull_with_id(&queue, id) => panic!("{pulled:?}"),
                () = waits(&client, &queue, 1) => {}
            }
            drop(client);
            let client = Client::connect(world.options()).await.unwrap();
            client.rpush(&queue, "a").await.unwrap();
            assert_eq!(client.count(&queue).await.unwrap(), 0, "nobody has it");
            client.recover(&queue, &id).await.unwrap();
            let pulled = client.pull(&queue).await.unwrap();
            assert_eq!((pulled.duplications(), &pulled.body()[..]), (2, &b"a"[..]));
            client.delete(&pulled).await.unwrap();
            client.delete_queue(&queue).await.unwrap();
        });
    }
}

/// Row 2: every message reaches a caller, once, however many of them give up, and whenever they do.
#[test]
fn no_message_is_lost_by_pulls_that_are_dropped_at_any_time() {
    for transport in [Transport::HttpBin, Transport::HttpJson] {
        let world = World::in_memory(transport);
        let (queue, messages) = (queue_name(), 200);
        let pulled = runtime().block_on(async {
            let client = Client::connect(world.options()).await.unwrap();
            client.create_queue(&queue).await.unwrap();
            let pulled = Arc::new(Mutex::new(Vec::new()));
            let mut callers = JoinSet::new();
            for seed in 0..8 {
                let (client, queue, pulled) = (client.clone(), queue.clone(), pulled.clone());
                callers.spawn(async move {
                    // On a busy machine, it may take long until it pulls.
                    let (mut random, mut most) = (Random::new(seed), 6_000);
                    while pulled.lock().unwrap().len() < messages {
                        let patience = Duration::from_micros(random.below(most) as u64);
                        most = (2 * most).min(1_000_000);
                        if let Ok(message) = timeout(patience, client.pull(&queue)).await {
                            let message = message.unwrap();
                            client.delete(&message).await.unwrap();
                            pulled.lock().unwrap().push(message.into_body());
                            most = 6_000;
                        }
                    }
                });
            }
            for n in 0..messages {
                client.rpush(&queue, n.to_string()).await.unwrap();
            }
            timeout(3 * PATIENCE, callers.join_all()).await.expect("all messages come");
            Arc::into_inner(pulled).unwrap().into_inner().unwrap()
        });
        let bodies: HashSet<_> = pulled.iter().collect();
        assert_eq!((pulled.len(), bodies.len()), (messages, messages), "{transport}");
        let server = world.server.as_ref().unwrap();
        assert!(server.wait_for(PATIENCE, |view| view.ready + view.pulled == 0));
    }
}

/// Waits until this number of pulls wait on the server.
async fn waits(client: &Client, queue: &adf_queue_client::QueueName, pulls: u64) {
    let waiting = async {
        while client.queue_stats(queue).await.unwrap().unwrap().waiting != pulls {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, waiting).await.expect("the pull gets to the server");
}
