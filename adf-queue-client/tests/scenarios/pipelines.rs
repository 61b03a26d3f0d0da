//! Many pushes in flight on one connection.

use std::{cell::Cell, thread};

use adf_queue_client::{
    Client, ConnectOptions, Error, ErrorKind, Fate, MessageId, Push, QueueName, Refusal, Result,
    RetryPolicy, Transport, blocking,
};
use fixtures::{adf_queue::Server, fault::Fault};

use crate::{
    face::{Face, both_faces, over_each_transport, over_websocket, with_queue},
    support::{LATE, PATIENCE, World, on_each_server, queue_name},
};

over_each_transport! {
    many_messages_are_pushed_in_order_and_their_numbers_come_in_order,
    a_push_that_is_refused_or_cannot_be_sent_harms_no_other,
}

on_each_server!(a_push_pipeline_stays_ended);

over_websocket! {
    a_pipeline_is_lazy_and_bounded,
}

both_faces! {
    a_connection_that_breaks_at_any_answer_leaves_each_push_its_fate,
    a_pipeline_that_is_dropped_leaves_the_next_call_its_own_answer,
    answers_that_came_while_the_caller_was_busy_are_in_time,
}

/// The blocking face reads only within calls, and found their time over.
fn answers_that_came_while_the_caller_was_busy_are_in_time<F: Face>() {
    let world = World::in_memory(Transport::WsBin);
    let mut client = F::connect(world.options().total_timeout(Some(LATE))).unwrap();
    let queue = queue_name();
    client.create_queue(&queue).unwrap();
    let pushes = (0..400).map(|n| {
        if n == 300 {
            thread::sleep(LATE + LATE / 10);
        }
        Push::right(queue.clone(), n.to_string())
    });
    let numbers = numbers(client.push_many(pushes));
    assert!(numbers.into_iter().eq(1..=400));
}

fn numbers(outcomes: Vec<Result<MessageId>>) -> Vec<u64> {
    outcomes.into_iter().map(|outcome| outcome.unwrap().get()).collect()
}

fn many_messages_are_pushed_in_order_and_their_numbers_come_in_order<F: Face>(world: &World) {
    let mut client = F::connect(world.options()).unwrap();
    let queues = [queue_name(), queue_name()];
    for queue in &queues {
        client.create_queue(queue).unwrap();
    }
    let most = if world.address.transport().is_http() { 20 } else { 700 };
    let pushes = (0..most).map(|n| match n {
        4 => Push::left(queues[0].clone(), "first"),
        n => Push::right(queues[n % 2].clone(), n.to_string()),
    });
    let numbers = numbers(client.push_many(pushes));
    let expected: Vec<u64> = (0..most as u64).map(|n| n / 2 + 1).collect();
    assert_eq!(numbers, expected);
    assert_eq!(client.pull(&queues[0]).unwrap().body(), "first");
    for n in (0..most).filter(|n| *n != 4) {
        let pulled = client.pull(&queues[n % 2]).unwrap();
        assert_eq!(pulled.body(), n.to_string().as_bytes());
        client.delete(&pulled).unwrap();
    }
    for queue in &queues {
        client.delete_queue(queue).unwrap();
    }
}

fn a_push_that_is_refused_or_cannot_be_sent_harms_no_other<F: Face>(world: &World) {
    let (mut client, queue) = with_queue::<F>(world);
    // Over JSON, only text can be sent; over the others, whatever fits its length field.
    let unfit = match world.is_json() {
        true => b"\xff".to_vec(),
        false => vec![b'x'; 11 << 20],
    };
    let pushes = [
        Push::right(queue.clone(), "a"),
        Push::right(queue_name(), "b"),
        Push::right(queue.clone(), unfit),
        Push::right(queue.clone(), "c"),
    ];
    let outcomes = client.push_many(pushes.into_iter());
    if world.address.transport().is_http() && world.is_json() {
        // Bodies are bytes there, whatever the answers.
        assert_eq!(outcomes.len(), 4);
    } else {
        assert_eq!(outcomes[2].as_ref().unwrap_err().fate(), Fate::NotSent);
    }
    assert_eq!(outcomes[0].as_ref().unwrap().get(), 1);
    let refused = ErrorKind::Refused(Refusal::QueueNotFound);
    assert_eq!(*outcomes[1].as_ref().unwrap_err().kind(), refused);
    assert!(outcomes[3].is_ok(), "{outcomes:?}");
    client.delete_queue(&queue).unwrap();
}

/// Unanswered pushes never exceed the window.
fn a_pipeline_is_lazy_and_bounded<F: Face>(world: &World) {
    let (mut client, queue) = with_queue::<F>(world);
    let taken = Cell::new(0_u32);
    let pushes = (0..600).map(|_| {
        taken.set(taken.get() + 1);
        Push::right(queue.clone(), "x")
    });
    let outcomes = client.push_many(pushes.take(300));
    assert_eq!((outcomes.len(), taken.get()), (300, 300));
    // Large ones are sent a few at a time.
    let large = (0..40).map(|_| Push::right(queue.clone(), vec![b'x'; 60_000]));
    assert_eq!(client.push_many(large).into_iter().filter(Result::is_ok).count(), 40);
    assert_eq!(client.count(&queue).unwrap(), 340);
    client.delete_queue(&queue).unwrap();
}

fn client<F: Face>(server: &Server) -> F {
    let options: ConnectOptions = server.address().parse().unwrap();
    F::connect(options.retry(RetryPolicy::new(0)).reply_timeout(PATIENCE)).unwrap()
}

fn a_connection_that_breaks_at_any_answer_leaves_each_push_its_fate<F: Face>() {
    for at in [1, 2, 100, 255, 256, 257, 300] {
        let server = Server::builder().queue("/q").start().unwrap();
        let mut client: F = client(&server);
        let queue: QueueName = "/q".parse().unwrap();
        server.faults().add(Fault::nth(at).of("rpush").reset_after(3));
        let outcomes =
            client.push_many((0..400).map(|n| Push::right(queue.clone(), n.to_string())));
        let before = outcomes.iter().take_while(|outcome| outcome.is_ok()).count();
        // A reset may overtake answers before it.
        assert!(before < at as usize, "{at}: {before}");
        assert!(outcomes.len() - before <= 256, "{at}: {before} of {}", outcomes.len());
        // What was not yet sent goes over the next connection.
        let pushed = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        let fates = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).map(Error::fate);
        let perhaps = fates.filter(|fate| *fate == Fate::Unknown).count();
        assert!(perhaps > 0, "{at}");
        let there = client.count(&queue).unwrap() as usize;
        assert!((pushed..=pushed + perhaps).contains(&there), "{at}: {pushed} {perhaps} {there}");
        let mut last = None;
        while let Some(message) = client.try_pull(&queue).unwrap() {
            let number: u64 = std::str::from_utf8(message.body()).unwrap().parse().unwrap();
            assert!(last < Some(number), "{at}: {number} comes behind {last:?}");
            last = Some(number);
            client.delete(&message).unwrap();
        }
    }
}

fn a_pipeline_that_is_dropped_leaves_the_next_call_its_own_answer<F: Face>() {
    let server = Server::builder().queue("/q").queue("/r").start().unwrap();
    let mut client: F = client(&server);
    let (queue, other): (QueueName, QueueName) = ("/q".parse().unwrap(), "/r".parse().unwrap());
    for _ in 0..20 {
        let first = client.first_of_many((0..200).map(|_| Push::right(queue.clone(), "x")));
        first.unwrap();
        assert_eq!(client.count(&other).unwrap(), 0);
    }
    assert!(client.count(&queue).unwrap() >= 20);
}

/// An iterator may have more behind its end, which a pipeline that has ended must not yield.
fn a_push_pipeline_stays_ended(world: &World) {
    let mut client = blocking::Client::connect(world.options()).unwrap();
    let queue = queue_name();
    client.create_queue(queue.clone()).unwrap();
    let pushes = || {
        let (mut taken, queue) = (0, queue.clone());
        std::iter::from_fn(move || {
            taken += 1;
            (taken % 3 != 0).then(|| Push::right(queue.clone(), "x"))
        })
    };
    let mut many = client.push_many(pushes());
    let answers = (0..9).filter(|_| many.next().is_some()).count();
    assert_eq!(answers, 2, "blocking");
    drop(many);
    crate::face::runtime().block_on(async {
        let client = Client::connect(world.options()).await.unwrap();
        let (mut many, mut answers) = (client.push_many(pushes()), 0);
        for _ in 0..9 {
            answers += usize::from(many.next().await.is_some());
        }
        assert_eq!(answers, 2, "async");
    });
    client.delete_queue(queue).unwrap();
}
