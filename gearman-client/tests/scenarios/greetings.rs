//! The request for exceptions, which not every server answers.

use std::thread;

use fixtures::gearmand::{Flavour, Server};
use gearman_client::{ConnectOptions, Outcome, WorkerOptions};

use super::{
    face::{Face, WorkFace, both_faces},
    support::options,
};

both_faces!(every_server_of_the_field_takes_jobs,);

/// As imitated, without telling the client what they are.
fn every_server_of_the_field_takes_jobs<F: Face>() {
    for flavour in Flavour::ALL {
        let server = Server::builder().flavour(flavour).start().unwrap();
        let to: ConnectOptions = server.address().parse().unwrap();
        let mut worker = F::Worker::of("f", WorkerOptions::from(to).barrier(false));
        let mut client = F::to(server.address());
        let queued = client.submit_background("f", b"queued", options()).unwrap();
        assert!(client.status(&queued.handle).unwrap().is_known, "{flavour}");
        let waits = thread::spawn(move || client.run("f", b"waited for", options()).unwrap());
        for _ in 0..2 {
            worker.completes_next("done");
        }
        assert_eq!(waits.join().unwrap(), Outcome::Complete("done".into()), "{flavour}");
    }
}
