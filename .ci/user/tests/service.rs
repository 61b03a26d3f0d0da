//! Each part of the service, producer and worker, against the in-memory server.
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::sync::oneshot;

/// Fails the first attempt at `fails`, and keeps what was tried.
#[derive(Clone, Default)]
struct Attempts(Arc<Mutex<Vec<String>>>);

impl Attempts {
    fn attempt(&self, fails: &str, what: String) -> Result<(), String> {
        let mut tried = self.0.lock().unwrap();
        let is_first = !tried.contains(&what);
        tried.push(what.clone());
        if what == fails && is_first { Err("not now".into()) } else { Ok(()) }
    }

    fn sorted(&self) -> Vec<String> {
        let mut tried = self.0.lock().unwrap().clone();
        tried.sort();
        tried
    }
}

#[tokio::test]
async fn each_mail_is_sent_once_and_a_failure_is_tried_again() {
    use beanstalk_client::{Producer, ProducerOptions};

    // The delay of the release takes no time.
    let server = fixtures::beanstalkd::Server::builder().virtual_clock().start().unwrap();
    let address = server.address().to_owned();
    let options = ProducerOptions::new(address.as_str()).unwrap();
    let producer = Producer::new(options).unwrap();
    for recipient in ["ann", "bob"] {
        user::mail::order(&producer, recipient).await.unwrap();
    }
    assert!(producer.close().await.is_complete());

    let (attempts, (done, stop)) = (Attempts::default(), oneshot::channel::<()>());
    let send = {
        let attempts = attempts.clone();
        move |recipient| attempts.attempt("bob", recipient)
    };
    let serve = tokio::spawn(async move { user::mail::serve(&address, stop, send).await.unwrap() });
    while !server.jobs().is_empty() {
        server.advance(Duration::from_secs(1));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    done.send(()).unwrap();
    let report = serve.await.unwrap();
    assert_eq!((report.finished, report.released, report.buried), (2, 1, 0), "{report}");
    assert_eq!(attempts.sorted(), ["ann", "bob", "bob"]);
}

#[tokio::test]
async fn a_thumbnail_is_a_result_and_a_failure_reaches_the_client() {
    use gearman_client::{Client, Outcome};

    let server = fixtures::gearmand::Server::start().unwrap();
    let address = server.address().to_owned();
    let client = Client::connect(address.as_str()).await.unwrap();
    let (done, stop) = oneshot::channel::<()>();
    let make = |picture: String| match picture.as_str() {
        "" => Err("an empty picture".to_owned()),
        _ => Ok(picture.to_lowercase()),
    };
    let serve =
        tokio::spawn(async move { user::thumbnails::serve(&address, stop, make).await.unwrap() });
    let made = user::thumbnails::request(&client, "CAT").await.unwrap();
    assert_eq!(made, Outcome::Complete("cat".into()));
    let failed = user::thumbnails::request(&client, "").await.unwrap();
    assert!(matches!(failed, Outcome::Exception(_)), "{failed}");
    assert!(server.jobs().is_empty());
    done.send(()).unwrap();
    let report = serve.await.unwrap();
    assert_eq!((report.completed, report.failed), (1, 1), "{report}");
}

#[tokio::test]
async fn each_order_is_shipped_once_and_a_failure_is_tried_again() {
    let server = fixtures::adf_queue::Server::builder().queue("/orders").start().unwrap();
    let address = server.address().to_owned();
    let producer = adf_queue_client::Producer::connect(address.as_str()).await.unwrap();
    for article in ["ink", "pen"] {
        user::orders::order(&producer, article).await.unwrap();
    }
    assert_eq!(server.messages("/orders").len(), 2);

    let (attempts, (done, stop)) = (Attempts::default(), oneshot::channel::<()>());
    let ship = {
        let attempts = attempts.clone();
        move |article| attempts.attempt("pen", article)
    };
    let serve =
        tokio::spawn(async move { user::orders::serve(&address, stop, ship).await.unwrap() });
    while attempts.sorted().len() < 3
        || server.queues().iter().any(|queue| queue.ready + queue.pulled > 0)
    {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    done.send(()).unwrap();
    let report = serve.await.unwrap();
    assert_eq!((report.deleted, report.returned), (2, 1), "{report}");
    assert_eq!(attempts.sorted(), ["ink", "pen", "pen"]);
}

#[test]
fn the_blocking_faces_reach_their_servers() {
    let beanstalkd = fixtures::beanstalkd::Server::start().unwrap();
    beanstalk_client::blocking::Client::connect(beanstalkd.address()).unwrap();
    let gearmand = fixtures::gearmand::Server::start().unwrap();
    gearman_client::blocking::Client::connect(gearmand.address()).unwrap();
    let adf = fixtures::adf_queue::Server::start().unwrap();
    adf_queue_client::blocking::Client::connect(adf.address()).unwrap();
}
