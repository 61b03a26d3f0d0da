//! The three SDKs speak one language in both faces: these programs are written once, and compiled for each. What differs
//! is passed in, and stands below with its reason.

use std::time::Duration;

use fixtures::Port;

/// A service that serves one queue, from its options to its report.
macro_rules! worker {
    ($name:ident, $sdk:ident, $server:ident, $queue:literal, [$($face:ident)?], [$($asy:ident $mov:ident)?],
     [$($end:tt)*], $done:ty, $fill:expr, [$($report:tt)*], [$($deferrals:ident)?]) => {
        #[test]
        fn $name() {
            use $sdk::{JobLimit, Servers, WorkerEvent, WorkerHandle, WorkerOptions, $($face::)? Worker};
            let server = fixtures::$server::Server::start().unwrap();
            $fill(server.address());
            let dead = Port::take().unwrap();
            let dead = dead.address().to_string();
            let program = $($asy $mov)? {
                let options = |servers: &str| {
                    WorkerOptions::new(servers)
                        .unwrap()
                        .slots(4)
                        .slots_for($queue, 1)
                        .unwrap()
                        .grace(Duration::from_secs(60))
                        .limit(JobLimit::new(10))
                        .until_empty()
                        .log_errors(false)
                        .on_event(|_: &WorkerEvent| ())
                };
                assert!(WorkerOptions::new("a host").is_err());
                let one: Servers = WorkerOptions::from(server.address().parse::<Servers>().unwrap()).servers().clone();
                assert_eq!(one.addresses().len(), 1);
                let refused = Worker::connect(options(&dead))$($end)*.map(drop).unwrap_err();
                assert!(refused.to_string().contains(&dead), "{refused}");

                let servers = format!("{},{dead}", server.address());
                let mut worker = Worker::new(options(&servers)).unwrap();
                worker.check()$($end)*.unwrap();
                let registered = worker.register($queue, |job| $($asy $mov)? {
                    let _ = (job.is_stopping(), job.is_lost());
                    $(let _: u64 = job.$deferrals();)?
                    Err::<$done, &str>("any error that can be displayed")
                });
                registered.unwrap();
                let handle: WorkerHandle = worker.handle();
                let report = worker.run()$($end)*$($report)*;
                assert_eq!((report.given_up > 0, report.never_connected), (true, 1), "{report:?}");
                assert_eq!((report.abandoned, report.unknown, report.dead_lettered), (0, 0, 0));
                assert_eq!(handle.report(), report);
                assert!(handle.metrics().connections > 0);
                handle.stop();
                handle.stop_now();
            };
            sdk_vocabulary_run!(program $(, $asy)?);
        }
    };
}

/// Runs what is a future in one face, and has run already in the other.
macro_rules! sdk_vocabulary_run {
    ($program:ident, $asy:ident) => {
        tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on($program)
    };
    ($program:ident) => {
        let () = $program;
    };
}

/// A producer from its options to its report. Gearman has none: its clients are no outbox.
macro_rules! producer {
    ($name:ident, $sdk:ident, $server:ident, $queue:literal, [$($face:ident)?], [$($asy:ident $mov:ident)?],
     [$($end:tt)*], $fill:expr, [$($options:tt)*]) => {
        #[test]
        fn $name() {
            use $sdk::{ConnectionState, ProducerOptions, ProducerReport, $($face::)? Producer};
            let server = fixtures::$server::Server::start().unwrap();
            $fill(server.address());
            let dead = Port::take().unwrap();
            let dead = dead.address().to_string();
            let program = $($asy $mov)? {
                let refused = Producer::connect(dead.as_str())$($end)*.map(drop).unwrap_err();
                assert!(refused.to_string().contains(&dead), "{refused}");

                assert!(ProducerOptions::new("a host").is_err());
                let options = ProducerOptions::new(server.address()).unwrap();
                assert_eq!(options.servers().addresses().len(), 1);
                let producer = Producer::new(options).unwrap();
                producer.check()$($end)*.unwrap();
                let receipt = producer.enqueue($queue, b"body" $($options)*)$($end)*.unwrap();
                producer.flush()$($end)*;
                drop(receipt);
                assert_eq!(producer.state(), ConnectionState::Ready);
                let sent: ProducerReport = producer.report();
                let closed: ProducerReport = producer.close()$($end)*;
                let failed = |report: &ProducerReport| report.refused + report.not_sent + report.unknown;
                assert_eq!((failed(&sent), failed(&closed)), (0, 0), "{closed:?}");
                assert_eq!(producer.state(), ConnectionState::Closed);
            };
            sdk_vocabulary_run!(program $(, $asy)?);
        }
    };
}

fn nothing(_: &str) {}

/// Adf.QueueServer creates no queue by itself.
fn queue(address: &str) {
    adf_queue_client::blocking::Client::connect(address).unwrap().create_queue("/q").unwrap();
}

/// Both faces of a worker, whose blocking one returns its report by `$blocking`.
macro_rules! workers {
    ($name:ident, $sdk:ident, $server:ident, $queue:literal, $done:ty, $fill:expr, [$($blocking:tt)*], $deferrals:tt) => {
        mod $name {
            use super::*;

            worker!(async_face, $sdk, $server, $queue, [], [async move], [.await], $done, $fill, [], $deferrals);
            worker!(blocking_face, $sdk, $server, $queue, [blocking], [], [], $done, $fill, [$($blocking)*], $deferrals);
        }
    };
}

// A job's result is a protocol's own, and gearmand has no deferrals. The blocking worker of Gearman refuses to run if it
// has no function.
workers!(beanstalk_worker, beanstalk_client, beanstalkd, "q", (), nothing, [], [deferrals]);
workers!(gearman_worker, gearman_client, gearmand, "q", Vec<u8>, nothing, [.unwrap()], []);
workers!(adf_queue_worker, adf_queue_client, adf_queue, "/q", (), queue, [], [deferrals]);

/// Both faces of a producer.
macro_rules! producers {
    ($name:ident, $sdk:ident, $server:ident, $queue:literal, $fill:expr, $options:tt) => {
        mod $name {
            use super::*;

            producer!(async_face, $sdk, $server, $queue, [], [async move], [.await], $fill, $options);
            producer!(blocking_face, $sdk, $server, $queue, [blocking], [], [], $fill, $options);
        }
    };
}

// A put has options; a push has none.
producers!(beanstalk_producer, beanstalk_client, beanstalkd, "q", nothing,
    [, beanstalk_client::PutOptions::default()]);
producers!(adf_queue_producer, adf_queue_client, adf_queue, "/q", queue, []);
