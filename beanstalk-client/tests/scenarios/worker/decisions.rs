//! What handlers may return, and where they may run.

use std::{
    fmt,
    sync::{Arc, Barrier, Mutex},
};

use beanstalk_client::{
    Decision, JobContext, Outcome, PutOptions, Worker, WorkerEventKind, WorkerOptions, blocking,
};
use fixtures::beanstalkd::Server;
use queue_core::proof::runtime;

enum Refused {
    Malformed,
    Busy,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refused::Malformed => "malformed",
            Refused::Busy => "busy",
        })
    }
}

fn work(body: &[u8]) -> Result<(), Refused> {
    match body {
        b"good" => Ok(()),
        b"bad" => Err(Refused::Malformed),
        _ => Err(Refused::Busy),
    }
}

fn decide(body: &[u8]) -> Decision {
    if body == b"odd" {
        return Outcome::bury().because("nobody knows it");
    }
    Decision::classify(work(body), |refused| match refused {
        Refused::Malformed => Outcome::bury(),
        Refused::Busy => Outcome::defer(std::time::Duration::from_secs(100)),
    })
}

/// The reported reasons, in order.
type Told = Arc<Mutex<Vec<String>>>;

fn options(server: &Server) -> (WorkerOptions, Told) {
    let told = Told::default();
    let heard = told.clone();
    let options = WorkerOptions::new(server.address()).unwrap().until_empty();
    let options = options.on_event(move |event| {
        if let WorkerEventKind::Failed { error, .. } = &event.what {
            heard.lock().unwrap().push(error.clone());
        }
    });
    (options, told)
}

fn server_with(bodies: &[&str]) -> Server {
    let server = Server::start().unwrap();
    let mut client = blocking::Client::connect(server.address()).unwrap();
    for body in bodies {
        let _id = client.put(*body, PutOptions::default()).unwrap().id();
    }
    server
}

#[test]
fn handler_errors_decide_the_outcome_and_give_reasons() {
    let bodies = ["good", "bad", "odd", "busy"];
    for is_async in [true, false] {
        let server = server_with(&bodies);
        let (options, told) = options(&server);
        let report = if is_async {
            let mut worker = Worker::new(options).unwrap();
            let handler = |job: JobContext| async move { decide(&job.body) };
            worker.register("default", handler).unwrap();
            runtime().block_on(worker.run())
        } else {
            let mut worker = blocking::Worker::new(options).unwrap();
            worker.register("default", |job| decide(&job.body)).unwrap();
            worker.run()
        };
        assert_eq!((report.finished, report.buried, report.released), (1, 2, 1), "{report}");
        assert_eq!(*told.lock().unwrap(), ["malformed", "nobody knows it", "busy"]);
    }
}

/// In one thread of a runtime, two handlers that wait for each other would wait forever.
#[test]
fn handlers_that_block_run_beside_each_other_in_an_async_worker() {
    let server = server_with(&["one", "two", "panic"]);
    let (options, told) = options(&server);
    let mut worker = Worker::new(options.slots(2)).unwrap();
    let both = Barrier::new(2);
    let handler = move |job: JobContext| {
        assert!(*job.body != *b"panic", "as reported");
        both.wait();
    };
    worker.register_blocking("default", handler).unwrap();
    let report = runtime().block_on(worker.run());
    assert_eq!((report.finished, report.released, report.total()), (2, 1, 3), "{report}");
    let told = told.lock().unwrap();
    assert!(told.len() == 1 && told[0].contains("as reported"), "{told:?}");
}
