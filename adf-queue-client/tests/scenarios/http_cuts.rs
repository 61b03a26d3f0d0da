//! Connections over HTTP that break at any byte of an answer.

use adf_queue_client::{ErrorKind, Fate, QueueName, Refusal, Transport};
use fixtures::adf_queue::Server;

use crate::{
    cuts::{break_each, client},
    face::{Face, both_faces},
    support::PATIENCE,
};

both_faces!(a_message_whose_answer_breaks_at_any_byte_is_recovered_by_its_id,);

const TRANSPORTS: [Transport; 2] = [Transport::HttpBin, Transport::HttpJson];

fn queue() -> QueueName {
    "/q".parse().unwrap()
}

/// Row 2: the server gives back no message on its own.
fn a_message_whose_answer_breaks_at_any_byte_is_recovered_by_its_id<F: Face>() {
    for transport in TRANSPORTS {
        let server = Server::builder().queue("/q").start().unwrap();
        let mut client: F = client(&server, transport);
        let broken = break_each(&server, "pull", |at| {
            client.rpush(&queue(), "the body".into()).unwrap();
            let error = match client.pull(&queue()) {
                Ok(pulled) => {
                    // The connection ends after its answer, or just now.
                    client.reconnect().unwrap();
                    client.delete(&pulled).unwrap();
                    return true;
                }
                Err(error) => error,
            };
            assert_eq!(error.fate(), Fate::Unknown, "{transport} after {at}: {error}");
            let id = *error.request_id().expect("the message is found by it");
            assert_eq!(client.count(&queue()).unwrap(), 0);
            client.recover(&queue(), &id).unwrap();
            let again = client.recover(&queue(), &id).unwrap_err();
            assert_eq!(*again.kind(), ErrorKind::Refused(Refusal::NotPulled));
            let pulled = client.try_pull(&queue()).unwrap().unwrap();
            assert_eq!((&pulled.body()[..], pulled.duplications()), (&b"the body"[..], 2));
            client.delete(&pulled).unwrap();
            false
        });
        assert!(broken > 100, "{broken}");
        assert!(server.wait_for(PATIENCE, |view| view.ready + view.pulled == 0));
    }
}
