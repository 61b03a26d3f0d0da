//! Every client over the in-memory servers on tokio's clock, as a test under a paused clock uses them.

use std::time::Duration;

use fixtures::{adf_queue, beanstalkd, fault::Fault, gearmand};
use tokio::time::Instant;

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test(start_paused = true)]
async fn a_beanstalkd_delay_follows_the_tokio_clock() {
    use beanstalk_client::{Client, ConnectOptions, PutOptions};
    let server = beanstalkd::Server::builder().on_tokio_clock();
    let options = "in-memory".parse::<ConnectOptions>().unwrap().connector(server.connector());
    let mut consumer = Client::connect(options.clone()).await.unwrap();
    let mut producer = Client::connect(options).await.unwrap();

    let start = Instant::now();
    let (job, put) = tokio::join!(consumer.reserve(), async {
        tokio::time::sleep(HOUR).await;
        producer.put("later", PutOptions::default().delay(HOUR)).await
    });
    assert_eq!(job.unwrap().job().unwrap().id, put.unwrap().id());
    assert_eq!(start.elapsed().as_secs(), 2 * 3600);
}

#[tokio::test(start_paused = true)]
async fn a_gearman_job_follows_the_tokio_clock() {
    use gearman_client::{Client, ConnectOptions, SubmitOptions, Worker};
    let server = gearmand::Server::builder().on_tokio_clock();
    let options = "in-memory".parse::<ConnectOptions>().unwrap().connector(server.connector());
    let mut worker = Worker::new(options.clone()).unwrap();
    worker
        .register("slow", async |job: gearman_client::JobContext| {
            tokio::time::sleep(HOUR).await;
            Ok::<_, gearman_client::Failure>(job.workload.to_vec())
        })
        .unwrap();
    tokio::spawn(worker.run());

    let client = Client::connect(options).await.unwrap();
    let start = Instant::now();
    let job = client.submit("slow", "x", SubmitOptions::default()).await.unwrap();
    assert_eq!(job.outcome().await.unwrap(), gearman_client::Outcome::Complete("x".into()));
    assert_eq!(start.elapsed().as_secs(), 3600);
}

#[tokio::test(start_paused = true)]
async fn an_adf_queue_pull_follows_the_tokio_clock() {
    use adf_queue_client::{Client, ConnectOptions};
    let server = adf_queue::Server::builder().queue("/q").on_tokio_clock();
    let options = "in-memory".parse::<ConnectOptions>().unwrap().connector(server.connector());
    let client = Client::connect(options).await.unwrap();

    let start = Instant::now();
    assert!(client.pull_within("/q", HOUR).await.unwrap().is_none());
    assert_eq!(start.elapsed().as_secs(), 3600);
    client.rpush("/q", "x").await.unwrap();
    assert_eq!(client.pull("/q").await.unwrap().body(), "x".as_bytes());
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_meets_the_deadline_and_a_reset_closes_the_connection() {
    use beanstalk_client::{Client, ConnectOptions, Deadline, ErrorKind};
    let server = beanstalkd::Server::builder().on_tokio_clock();
    server.faults().add(Fault::nth(1).of("stats").delay(HOUR));
    server.faults().add(Fault::nth(2).of("stats").reset_after(3));
    let options = "in-memory".parse::<ConnectOptions>().unwrap().connector(server.connector());
    let options = options.reply_timeout(HOUR / 2);
    let mut client = Client::connect(options).await.unwrap();

    let start = Instant::now();
    let late = client.stats().await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Timeout(Deadline::Reply));
    assert_eq!(start.elapsed().as_secs(), 1800);
    assert_eq!(client.stats().await.unwrap_err().kind(), ErrorKind::ConnectionLost);
    client.stats().await.unwrap();
    assert_eq!(server.faults().struck(), 2);
}
