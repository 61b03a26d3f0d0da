//! The producers of the two faces behind one trait.

use std::{sync::Arc, time::Duration};

use beanstalk_client::{
    ConnectionState, Delivery, Inserted, Producer, ProducerOptions, ProducerReport, PutOptions,
    Result, blocking,
};
use queue_core::proof::runtime;
use tokio::runtime::Runtime;

/// The async face, on its own multi-thread runtime.
#[derive(Clone, Debug)]
pub(crate) struct AsyncProducer {
    /// The producer itself.
    pub(crate) producer: Producer,
    /// Its driver.
    pub(crate) runtime: Arc<Runtime>,
}

/// The blocking face.
#[derive(Clone, Debug)]
pub(crate) struct BlockingProducer {
    /// The producer itself.
    pub(crate) producer: blocking::Producer,
}

/// What became of puts, in their order.
pub(crate) type Answers = Vec<Result<Inserted>>;

macro_rules! producing {
    (
        calls { $(fn $call:ident($($arg:ident: $type:ty),*) -> $reply:ty;)+ }
        handles { $(fn $with:ident($setting:ident: $setting_type:ty);)+ }
        looks { $(fn $look:ident() -> $value:ty;)+ }
    ) => {
        /// A producer, called from threads.
        pub(crate) trait Producing: Clone + Send + Sync + 'static {
            /// `Producer::connect`.
            fn connect(options: ProducerOptions) -> Result<Self>;

            /// `Producer::new`.
            fn new(options: ProducerOptions) -> Result<Self>;

            /// `Producer::put`, with the default options.
            fn put_plain(&self, tube: &str, body: &[u8]) -> Result<Inserted> {
                self.put(tube, body, PutOptions::default())
            }

            /// `Producer::enqueue` for all of them, and then every answer.
            fn put_all(&self, tube: &str, bodies: &[Vec<u8>]) -> Answers;

            /// `Producer::put_many`: the first `take` answers, and then it is dropped.
            fn put_some(&self, tube: &str, window: usize, take: usize, bodies: &[Vec<u8>]) -> Answers;

            /// `Producer::try_put` without waiting for the answer.
            fn try_put(&self, tube: &str, body: &[u8]) -> Result<()>;

            /// Its driver, if it needs one.
            fn runtime(&self) -> Option<Arc<Runtime>>;

            $(
                /// The method of that name.
                fn $call(&self, $($arg: $type),*) -> $reply;
            )+

            $(
                /// The method of that name, which gives another handle of the producer.
                #[must_use]
                fn $with(&self, $setting: $setting_type) -> Self;
            )+

            $(
                /// The method of that name.
                fn $look(&self) -> $value;
            )+
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

            fn put_all(&self, tube: &str, bodies: &[Vec<u8>]) -> Answers {
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

            fn put_some(&self, tube: &str, window: usize, take: usize, bodies: &[Vec<u8>]) -> Answers {
                self.runtime.block_on(async {
                    let answers = self.producer.put_many(tube, bodies, PutOptions::default());
                    let (mut answers, mut found) = (answers.unwrap().window(window), Vec::new());
                    while found.len() < take && let Some(answer) = answers.next().await {
                        found.push(answer);
                    }
                    found
                })
            }

            fn try_put(&self, tube: &str, body: &[u8]) -> Result<()> {
                self.producer.try_put(tube, body, PutOptions::default()).map(drop)
            }

            fn runtime(&self) -> Option<Arc<Runtime>> {
                Some(self.runtime.clone())
            }

            $(fn $call(&self, $($arg: $type),*) -> $reply {
                self.runtime.block_on(self.producer.$call($($arg),*))
            })+

            $(fn $with(&self, $setting: $setting_type) -> Self {
                let producer = self.producer.$with($setting);
                AsyncProducer { producer, runtime: self.runtime.clone() }
            })+

            $(fn $look(&self) -> $value {
                self.producer.$look()
            })+
        }

        impl Producing for BlockingProducer {
            fn connect(options: ProducerOptions) -> Result<Self> {
                blocking::Producer::connect(options).map(|producer| BlockingProducer { producer })
            }

            fn new(options: ProducerOptions) -> Result<Self> {
                blocking::Producer::new(options).map(|producer| BlockingProducer { producer })
            }

            fn put_all(&self, tube: &str, bodies: &[Vec<u8>]) -> Answers {
                let options = PutOptions::default();
                let receipts: Vec<Result<blocking::Receipt>> =
                    bodies.iter().map(|body| self.producer.enqueue(tube, body, options)).collect();
                receipts.into_iter().map(|receipt| receipt.and_then(blocking::Receipt::wait)).collect()
            }

            fn put_some(&self, tube: &str, window: usize, take: usize, bodies: &[Vec<u8>]) -> Answers {
                let answers = self.producer.put_many(tube, bodies, PutOptions::default());
                answers.unwrap().window(window).take(take).collect()
            }

            fn try_put(&self, tube: &str, body: &[u8]) -> Result<()> {
                self.producer.try_put(tube, body, PutOptions::default()).map(drop)
            }

            fn runtime(&self) -> Option<Arc<Runtime>> {
                None
            }

            $(fn $call(&self, $($arg: $type),*) -> $reply {
                self.producer.$call($($arg),*)
            })+

            $(fn $with(&self, $setting: $setting_type) -> Self {
                BlockingProducer { producer: self.producer.$with($setting) }
            })+

            $(fn $look(&self) -> $value {
                self.producer.$look()
            })+
        }
    };
}

producing! {
    calls {
        fn put(tube: &str, body: &[u8], options: PutOptions) -> Result<Inserted>;
        fn check() -> Result<()>;
        fn flush() -> ();
        fn close() -> ProducerReport;
    }
    handles {
        fn key(key: &[u8]);
        fn timeout(timeout: Duration);
        fn delivery(delivery: Delivery);
    }
    looks {
        fn report() -> ProducerReport;
        fn state() -> ConnectionState;
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
