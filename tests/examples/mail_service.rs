//! A web service that puts jobs: health endpoints, and a stop on SIGTERM that loses no accepted request.
//!
//! `cargo run -p tests --example mail_service -- 127.0.0.1:8080 127.0.0.1:11300`

use std::{env, error::Error, time::Duration};

use axum::{
    Router,
    extract::State,
    http::StatusCode,
    routing::{get, post},
};
use beanstalk_client::{Fate, Producer, ProducerOptions, PutOptions, Servers, TubeName};
use tokio::time::timeout;

#[derive(Clone)]
struct Queue {
    producer: Producer,
    tube: TubeName,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let listen = arguments.next().unwrap_or_else(|| "127.0.0.1:8080".into());
    let servers: Servers = arguments.next().unwrap_or_else(|| "127.0.0.1:11300".into()).parse()?;

    let stop = stop_signal()?;
    // Connects with the first put, so the service starts whether or not the queue is reachable.
    let producer = Producer::new(ProducerOptions::from(servers).timeout(Duration::from_secs(10)))?;
    let queue = Queue { producer: producer.clone(), tube: "mail".try_into()? };
    let app = Router::new()
        .route("/health/live", get(|| async { "ok" }))
        .route("/health/ready", get(ready))
        .route("/mail", post(order))
        .with_state(queue);

    let listener = tokio::net::TcpListener::bind(&listen).await?;
    println!("listening on {}", listener.local_addr()?);
    // Accepts no new connection after the signal, and returns once the requests that arrived before it are answered.
    axum::serve(listener, app).with_graceful_shutdown(stop).await?;
    // By now, nothing is left to send, unless handlers used `enqueue`.
    println!("{}", producer.close().await);
    Ok(())
}

/// Answers once the server has the job.
async fn order(State(queue): State<Queue>, body: String) -> (StatusCode, String) {
    match queue.producer.put(&queue.tube, body, PutOptions::default()).await {
        Ok(job) => (StatusCode::ACCEPTED, job.id().to_string()),
        // The server cannot have it, so the caller may safely retry.
        Err(error) if error.fate() == Fate::NotSent => {
            (StatusCode::SERVICE_UNAVAILABLE, error.to_string())
        }
        Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()),
    }
}

/// Whether to send requests here: not while no server answers.
async fn ready(State(queue): State<Queue>) -> (StatusCode, String) {
    match timeout(Duration::from_secs(2), queue.producer.check()).await {
        Ok(Ok(())) => (StatusCode::OK, "ok".into()),
        Ok(Err(error)) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the queue does not answer".into()),
    }
}

/// Completes when a supervisor (SIGTERM) or a terminal (Ctrl-C) asks the process to stop.
#[cfg(unix)]
fn stop_signal() -> std::io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut interrupt) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Completes when Ctrl-C asks the process to stop.
#[cfg(not(unix))]
fn stop_signal() -> std::io::Result<impl Future<Output = ()>> {
    Ok(async { drop(tokio::signal::ctrl_c().await) })
}
