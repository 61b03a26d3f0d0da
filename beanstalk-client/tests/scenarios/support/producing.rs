//! The producers of the two faces behind one trait.

use std::{sync::Arc, time::Duration};

use beanstalk_client::{
    ConnectionState, Delivery, Inserted, Producer, ProducerOptions, ProducerReport, PutOptions,
    Result, blocking,
};
use queue_core::proof::runtime;
use tokio::runtime::Runtime;

/// A producer, called from threads.
pub(crate) trait Producing: Clone + Send + Sync + 'static {
    /// `Producer::connect`.
    fn connect(options: ProducerOptions) -> Result<Self>;

    /// `Producer::new`.
    fn new(options: ProducerOptions) -> Result<Self>;

    /// `Producer::put`.
    fn put(&self, tube: &str, body: &[u8], options: PutOptions) -> Result<Inserted>;

    /// `Producer::put`, with the default options.
    fn put_plain(&self, tube: &str, body: &[u8]) -> Result<Inserted> {
        self.put(tube, body, PutOptions::default())
    }

    /// `Producer::enqueue` for all of them, and then every answer.
    fn put_all(&self, tube: &str, bodies: &[Vec<u8>]) -> Vec<Result<Inserted>>;

    /// `Producer::put_many`: the first `take` answers, and then it is dropped.
    fn put_some(
        &self,
        tube: &str,
        window: usize,
        take: usize,
        bodies: &[Vec<u8>],
    ) -> Vec<Result<Inserted>>;

    /// `Producer::try_put` without waiting for the answer.
    fn try_put(&self, tube: &str, body: &[u8]) -> Result<()>;

    /// `Producer::key`.
    #[must_use]
    fn key(&self, key: &[u8]) -> Self;

    /// `Producer::timeout`.
    #[must_use]
    fn timeout(&self, timeout: Duration) -> Self;

    /// `Producer::delivery`.
    #[must_use]
    fn delivery(&self, delivery: Delivery) -> Self;

    /// `Producer::check`.
    fn check(&self) -> Result<()>;

    /// `Producer::flush`.
    fn flush(&self);

    /// `Producer::close`.
    fn close(&self) -> ProducerReport;

    /// `Producer::report`.
    fn report(&self) -> ProducerReport;

    /// `Producer::state`.
    fn state(&self) -> ConnectionState;

    /// Its driver, if it needs one.
    fn runtime(&self) -> Option<Arc<Runtime>>;
}

/// The async face, on its own multi-thread runtime.
#[derive(Clone, Debug)]
pub(crate) struct AsyncProducer {
    /// The producer itself.
    pub(crate) producer: Producer,
    /// Its driver.
    pub(crate) runtime: Arc<Runtime>,
}

impl Producing for AsyncProducer {
    fn connect(options: ProducerOptions) -> Result<Self> {
        let runtime = multi();
        let producer = runtime.block_on(Producer::connect(options))?;
        Ok(AsyncProducer { producer, runtime })
    }

    fn new(options: ProducerOptions) -> Result<Self> {
        let runtime = multi();
        let producer = runtime.block_on(async { Producer::new(options) })?;
        Ok(AsyncProducer { producer, runtime })
    }

    fn put(&self, tube: &str, body: &[u8], options: PutOptions) -> Result<Inserted> {
        self.runtime.block_on(self.producer.put(tube, body, options))
    }

    fn put_all(&self, tube: &str, bodies: &[Vec<u8>]) -> Vec<Result<Inserted>> {
        self.runtime.block_on(async {
            let mut receipts = Vec::new();
            for body in bodies {
                receipts.push(self.producer.enqueue(tube, body, PutOptions::default()).await);
            }
            let mut answers = Vec::new();
            for receipt in receipts {
                answers.push(match receipt {
                    Ok(receipt) => receipt.await,
                    Err(error) => Err(error),
                });
            }
            answers
        })
    }

    fn put_some(
        &self,
        tube: &str,
        window: usize,
        take: usize,
        bodies: &[Vec<u8>],
    ) -> Vec<Result<Inserted>> {
        self.runtime.block_on(async {
            let answers = self.producer.put_many(tube, bodies, PutOptions::default());
            let mut answers = answers.unwrap().window(window);
            let mut found = Vec::new();
            while found.len() < take {
                match answers.next().await {
                    Some(answer) => found.push(answer),
                    None => break,
                }
            }
            found
        })
    }

    fn try_put(&self, tube: &str, body: &[u8]) -> Result<()> {
        self.producer.try_put(tube, body, PutOptions::default()).map(drop)
    }

    fn key(&self, key: &[u8]) -> Self {
        AsyncProducer { producer: self.producer.key(key), runtime: self.runtime.clone() }
    }

    fn timeout(&self, timeout: Duration) -> Self {
        AsyncProducer { producer: self.producer.timeout(timeout), runtime: self.runtime.clone() }
    }

    fn delivery(&self, delivery: Delivery) -> Self {
        AsyncProducer { producer: self.producer.delivery(delivery), runtime: self.runtime.clone() }
    }

    fn check(&self) -> Result<()> {
        self.runtime.block_on(self.producer.check())
    }

    fn flush(&self) {
        self.runtime.block_on(self.producer.flush());
    }

    fn close(&self) -> ProducerReport {
        self.runtime.block_on(self.producer.close())
    }

    fn report(&self) -> ProducerReport {
        self.producer.report()
    }

    fn state(&self) -> ConnectionState {
        self.producer.state()
    }

    fn runtime(&self) -> Option<Arc<Runtime>> {
        Some(self.runtime.clone())
    }
}

/// The blocking face.
#[derive(Clone, Debug)]
pub(crate) struct BlockingProducer {
    /// The producer itself.
    pub(crate) producer: blocking::Producer,
}

impl Producing for BlockingProducer {
    fn connect(options: ProducerOptions) -> Result<Self> {
        blocking::Producer::connect(options).map(|producer| BlockingProducer { producer })
    }

    fn new(options: ProducerOptions) -> Result<Self> {
        blocking::Producer::new(options).map(|producer| BlockingProducer { producer })
    }

    fn put(&self, tube: &str, body: &[u8], options: PutOptions) -> Result<Inserted> {
        self.producer.put(tube, body, options)
    }

    fn put_all(&self, tube: &str, bodies: &[Vec<u8>]) -> Vec<Result<Inserted>> {
        let receipts: Vec<Result<blocking::Receipt>> = bodies
            .iter()
            .map(|body| self.producer.enqueue(tube, body, PutOptions::default()))
            .collect();
        receipts.into_iter().map(|receipt| receipt.and_then(blocking::Receipt::wait)).collect()
    }

    fn put_some(
        &self,
        tube: &str,
        window: usize,
        take: usize,
        bodies: &[Vec<u8>],
    ) -> Vec<Result<Inserted>> {
        let answers = self.producer.put_many(tube, bodies, PutOptions::default());
        answers.unwrap().window(window).take(take).collect()
    }

    fn try_put(&self, tube: &str, body: &[u8]) -> Result<()> {
        self.producer.try_put(tube, body, PutOptions::default()).map(drop)
    }

    fn key(&self, key: &[u8]) -> Self {
        BlockingProducer { producer: self.producer.key(key) }
    }

    fn timeout(&self, timeout: Duration) -> Self {
        BlockingProducer { producer: self.producer.timeout(timeout) }
    }

    fn delivery(&self, delivery: Delivery) -> Self {
        BlockingProducer { producer: self.producer.delivery(delivery) }
    }

    fn check(&self) -> Result<()> {
        self.producer.check()
    }

    fn flush(&self) {
        self.producer.flush();
    }

    fn close(&self) -> ProducerReport {
        self.producer.close()
    }

    fn report(&self) -> ProducerReport {
        self.producer.report()
    }

    fn state(&self) -> ConnectionState {
        self.producer.state()
    }

    fn runtime(&self) -> Option<Arc<Runtime>> {
        None
    }
}

fn multi() -> Arc<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    Arc::new(builder.worker_threads(2).enable_all().build().unwrap())
}

/// Runs a test of the async face alone, on a current-thread runtime.
pub(crate) fn run<T>(test: impl Future<Output = T>) -> T {
    runtime().block_on(test)
}
