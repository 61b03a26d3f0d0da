//! The tests that every SDK has, for its sender, its handler and its report.

/// Makes a test of each face: what `$send` sends in a trace is handled in the same trace, and measured.
macro_rules! passes {
    ($server:expr, $sender:ident, $options:ident: |$by:ident, $body:ident| $send:expr,
     $queue:literal: $context:ty, [$($unwrap:tt)*], |$job:ident, $envelope:ident| $handle:expr,
     |$report:ident| $counts:expr, $metric:literal) => {
        fn sender_options(server: &Server, meters: &Meters) -> $options {
            let options: $options = server.address().parse().unwrap();
            options.on_measurement(meters.observer())
        }

        #[test]
        fn a_trace_passes_through_an_async_sender_and_worker() {
            let _one = lock(&ONE);
            for $envelope in ALL {
                let (server, meters, order) = ($server, Meters::new(), order());
                let $report = runtime().block_on(async {
                    let $by = $sender::connect(sender_options(&server, &meters)).await.unwrap();
                    let sending = async {
                        for payload in ["joe@example.com", "fail"] {
                            let $body = $envelope.seal(payload);
                            let _ = $send.await.unwrap();
                        }
                    };
                    sending.instrument(order.clone()).await;
                    let mut worker = Worker::new(worker_options(&server, &meters, $envelope)).unwrap();
                    let handler = move |$job: JobContext| async move { $handle };
                    worker.register($queue, handler).unwrap();
                    worker.run().await
                });
                assert!($counts, "{:?}", $report);
                TOLD.check_trace(order);
                meters.check(&TOLD, $metric);
            }
        }

        #[test]
        fn a_trace_passes_through_a_blocking_sender_and_worker() {
            let _one = lock(&ONE);
            for $envelope in ALL {
                let (server, meters, order) = ($server, Meters::new(), order());
                #[allow(unused_mut)]
                let mut $by = blocking::$sender::connect(sender_options(&server, &meters)).unwrap();
                order.in_scope(|| {
                    for payload in ["joe@example.com", "fail"] {
                        let $body = $envelope.seal(payload);
                        let _ = $send.unwrap();
                    }
                });
                let options = worker_options(&server, &meters, $envelope);
                let mut worker = blocking::Worker::new(options).unwrap();
                worker.register($queue, move |$job: $context| $handle).unwrap();
                let $report = worker.run()$($unwrap)*;
                assert!($counts, "{:?}", $report);
                TOLD.check_trace(order);
                meters.check(&TOLD, $metric);
            }
        }
    };
}

pub(crate) use passes;
