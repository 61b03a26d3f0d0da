//! Pushes numbers and adds them up by an apalis worker, with a timeout and a limit by layers of tower.
//!
//! `cargo run --example apalis_beanstalk -- 127.0.0.1:11300 numbers 1000`

use std::{
    env,
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use apalis_beanstalk::BeanstalkBackend;
use apalis_core::{
    backend::TaskSink,
    task::data::Data,
    worker::{builder::WorkerBuilder, context::WorkerContext},
};
use tower::{limit::ConcurrencyLimitLayer, timeout::TimeoutLayer};

#[derive(Default)]
struct Sum {
    numbers: AtomicU64,
    sum: AtomicU64,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:11300".into());
    let tube = arguments.next().unwrap_or_else(|| "numbers".into());
    let numbers: u64 = arguments.next().map_or(Ok(1000), |count| count.parse())?;

    let backend = BeanstalkBackend::<u64>::new(address.as_str(), tube.as_str())?;
    let mut backend = backend.worker(|options| options.slots(8));
    backend.push_bulk((0..numbers).collect()).await?;
    println!("pushed {numbers} tasks");

    let sum = Arc::<Sum>::default();
    WorkerBuilder::new("adder")
        .backend(backend)
        .data(sum.clone())
        .layer(ConcurrencyLimitLayer::new(4))
        .layer(TimeoutLayer::new(Duration::from_secs(30)))
        .build(move |number: u64, sum: Data<Arc<Sum>>, worker: WorkerContext| async move {
            sum.sum.fetch_add(number, Ordering::Relaxed);
            if sum.numbers.fetch_add(1, Ordering::Relaxed) + 1 == numbers {
                worker.stop()?;
            }
            Ok::<(), Box<dyn Error + Send + Sync>>(())
        })
        .run()
        .await?;
    println!("their sum is {}", sum.sum.load(Ordering::Relaxed));
    Ok(())
}
