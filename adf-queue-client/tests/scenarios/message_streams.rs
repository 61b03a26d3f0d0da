//! Messages and events as streams: what a dropped wait leaves behind, and how they end.

use std::time::Duration;

use adf_queue_client::{
    Client, JobLimit, Producer, ProducerEvent, ProducerEventKind, ProducerOptions, Worker,
    WorkerEvent, WorkerEventKind, WorkerOptions,
};
use futures_util::{StreamExt, TryStreamExt};
use queue_core::proof::drop_after_turns;
use queue_core::proof::runtime;

use crate::face::async_with_queue;
use crate::support::{World, on_each_server, on_servers, queue_name};

on_each_server!(
    a_stream_of_messages_dropped_at_any_turn_loses_no_message,
    a_stream_of_messages_ends_after_an_error_and_can_be_replaced,
);

// Producers and workers push and pull over WebSocket alone.
on_servers!(event_streams_end_with_their_source:
    ws_bin_in_memory = in_memory WsBin,
    ws_json_in_memory = in_memory WsJson,
    ws_bin_real = real WsBin,
);

/// As many turns as a message takes to arrive, and more.
const TURNS: usize = 24;

fn a_stream_of_messages_dropped_at_any_turn_loses_no_message(world: &World) {
    runtime().block_on(async {
        let (client, queue) = async_with_queue(world).await;
        for turns in 0..TURNS {
            for is_stream_kept in [true, false] {
                let body = format!("{turns} {is_stream_kept}");
                let mut messages = client.messages(&queue).unwrap();
                // Dropped before there is anything, and when it has arrived or is about to.
                assert!(drop_after_turns(turns, messages.next()).await.is_none());
                client.rpush(&queue, body.clone()).await.unwrap();
                let message = match drop_after_turns(turns, messages.next()).await {
                    Some(message) => message.unwrap().unwrap(),
                    None if is_stream_kept => messages.next().await.unwrap().unwrap(),
                    None => {
                        drop(messages);
                        client.pull(&queue).await.unwrap()
                    }
                };
                assert_eq!((&message.body()[..], message.duplications()), (body.as_bytes(), 1));
                client.delete(&message).await.unwrap();
            }
        }
        assert_eq!(client.count(&queue).await.unwrap(), 0);
        client.delete_queue(&queue).await.unwrap();
    });
}

fn a_stream_of_messages_ends_after_an_error_and_can_be_replaced(world: &World) {
    runtime().block_on(async {
        let client = Client::connect(world.options()).await.unwrap();
        let queue = queue_name();
        let mut messages = client.messages(&queue).unwrap();
        let error = messages.next().await.unwrap().unwrap_err();
        assert_eq!(error.kind().name(), "queue_not_found");
        assert!(messages.next().await.is_none() && messages.next().await.is_none());
        client.create_queue(&queue).await.unwrap();
        client.rpush(&queue, "x").await.unwrap();
        let message = client.messages(&queue).unwrap().try_next().await.unwrap().unwrap();
        client.delete(&message).await.unwrap();
        client.delete_queue(&queue).await.unwrap();
    });
}

fn event_streams_end_with_their_source(world: &World) {
    runtime().block_on(async {
        let queue = queue_name();
        let options = ProducerOptions::from(world.options()).create_queues(true);
        let (options, events) = options.event_stream(8);
        let producer = Producer::new(options).unwrap();
        producer.rpush(&queue, "x").await.unwrap();
        drop(producer);
        let told: Vec<ProducerEvent> = events.collect().await;
        assert!(matches!(told[0].what, ProducerEventKind::Connected), "{told:?}");
        assert!(matches!(&told[1].what, ProducerEventKind::Created(made) if *made == queue));

        let options = WorkerOptions::from(world.options()).limit(JobLimit::new(1));
        let (options, events) = options.event_stream(64);
        let mut worker = Worker::new(options).unwrap();
        worker.register(&queue, |_| async { Ok::<_, String>(()) }).unwrap();
        assert_eq!(worker.run().await.deleted, 1);
        let collected = tokio::time::timeout(Duration::from_secs(20), events.collect::<Vec<_>>());
        let told: Vec<WorkerEvent> = collected.await.expect("the stream does not end");
        assert!(matches!(told[0].what, WorkerEventKind::Connected), "{told:?}");
        let settled = |event: &WorkerEvent| matches!(event.what, WorkerEventKind::Settled { .. });
        assert!(told.iter().any(settled), "{told:?}");
        let client = Client::connect(world.options()).await.unwrap();
        client.delete_queue(&queue).await.unwrap();
    });
}
