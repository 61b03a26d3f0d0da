//! The tests that every SDK has, for what stands beside each client, server and queue.

/// A worker in each face: its handlers, observers and subscribers call `$seen` on its handle and `$touched` on its jobs.
/// Half-way, a job fails and all connections are lost.
macro_rules! workers {
    ($queue:literal, $held:expr, $done:ty, [$($unwrap:tt)*], |$handle:ident| $seen:expr, async job: $touched:expr,
     job: $context:ty, $keep:expr, $blocking_touched:expr) => {
        fn worker_options(server: &Server, limit: &JobLimit) -> WorkerOptions {
            let options = WorkerOptions::new(server.address()).unwrap();
            options
                .slots(2)
                .limit(limit.clone())
                .on_measurement(|_| call_back("measurement"))
                .on_event(|_| call_back("event"))
        }

        fn reach_worker($handle: WorkerHandle, limit: &JobLimit) {
            let limit = limit.clone();
            reach(move || {
                let _ = ($handle.report(), $handle.metrics(), $handle.is_stopping(), $seen);
                let _ = (format!("{:?}", $handle), limit.left(), limit.is_reached());
            });
        }

        fn decide(server: &Server, limit: &JobLimit) -> Result<$done, &'static str> {
            match limit.left() {
                4 => {
                    server.close_connections();
                    Err("it failed")
                }
                _ => Ok(Default::default()),
            }
        }

        #[test]
        fn async_worker_code_may_reenter() {
            scenario($held, || {
                let (server, limit) = (Arc::new(filled(8)), JobLimit::new(6));
                runtime().block_on(async {
                    let mut worker = Worker::new(worker_options(&server, &limit)).unwrap();
                    reach_worker(worker.handle(), &limit);
                    let jobs = Stash::new($touched);
                    let handler = move |job: JobContext| {
                        let (server, limit) = (server.clone(), limit.clone());
                        // Now the span of the next handler can see it.
                        jobs.add(job);
                        async move { decide(&server, &limit) }
                    };
                    worker.register($queue, handler).unwrap();
                    worker.run().await;
                });
            });
        }

        #[test]
        fn blocking_worker_code_may_reenter() {
            scenario($held, || {
                let (server, limit) = (filled(8), JobLimit::new(6));
                let mut worker = blocking::Worker::new(worker_options(&server, &limit)).unwrap();
                reach_worker(worker.handle(), &limit);
                let (jobs, keep) = (Stash::new($blocking_touched), $keep);
                let handler = move |job: $context| {
                    jobs.add(keep(job));
                    decide(&server, &limit)
                };
                worker.register($queue, handler).unwrap();
                let _ = worker.run()$($unwrap)*;
            });
        }
    };
}

/// A producer in each face, whose connections are lost again and again.
macro_rules! producers {
    ($options:expr, $put:ident($($argument:expr),*), async |$producer:ident, $may:ident| $reached:expr,
     |$blocking:ident, $may_put:ident| $blocking_reached:expr) => {
        #[test]
        fn async_producer_code_may_reenter() {
            scenario(&[], || {
                let server = filled(0);
                runtime().block_on(async {
                    let producer = Producer::connect($options(&server)).await.unwrap();
                    let ($producer, $may) = (producer.clone(), few());
                    reach(move || {
                        let _ = ($producer.report(), $producer.state(), format!("{:?}", $producer));
                        $reached
                    });
                    for _ in 0..3 {
                        let _ = producer.$put($($argument),*).await.unwrap();
                        server.close_connections();
                    }
                    let _ = producer.$put($($argument),*).await.unwrap();
                    producer.close().await;
                });
            });
        }

        #[test]
        fn blocking_producer_code_may_reenter() {
            scenario(&[], || {
                let server = filled(0);
                let producer = blocking::Producer::connect($options(&server)).unwrap();
                let ($blocking, $may_put) = (producer.clone(), few());
                reach(move || {
                    let _ = ($blocking.report(), $blocking.state(), format!("{:?}", $blocking));
                    $blocking_reached
                });
                for _ in 0..3 {
                    let _ = producer.$put($($argument),*).unwrap();
                    server.close_connections();
                }
                let _ = producer.$put($($argument),*).unwrap();
                producer.close();
            });
        }
    };
}

pub(crate) use {producers, workers};
