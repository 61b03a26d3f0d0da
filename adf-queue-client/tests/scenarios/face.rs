//! The two faces behind a trait, so that a scenario is written once.

use std::{sync::Arc, time::Duration};

use adf_queue_client::{
    Client, ConnectOptions, ConnectionState, Delivery, Epoch, MessageId, Metrics, Push, QueueName,
    QueueStats, RequestId, Result, Stats, blocking,
    protocol::{Request, Success},
};
use tokio::runtime::Runtime;

use crate::support::{World, queue_name};

/// The async face. Its runtime has its own thread, so that drivers continue while a test does not wait.
pub(crate) struct Async {
    pub(crate) client: Client,
    pub(crate) runtime: Arc<Runtime>,
}

/// The blocking face.
pub(crate) struct Blocking(pub(crate) blocking::Client);

pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// A client of this world's server, and its own queue.
pub(crate) fn with_queue<F: Face>(world: &World) -> (F, QueueName) {
    let (mut client, queue) = (F::connect(world.options()).unwrap(), queue_name());
    client.create_queue(&queue).unwrap();
    (client, queue)
}

/// The same without its own runtime.
pub(crate) async fn async_with_queue(world: &World) -> (Client, QueueName) {
    let (client, queue) = (Client::connect(world.options()).await.unwrap(), queue_name());
    client.create_queue(&queue).await.unwrap();
    (client, queue)
}

/// The clients of both faces, with these methods among others.
macro_rules! clients {
    ($($name:ident($($argument:ident: $type:ty),*) -> $output:ty;)+) => {
        /// A client.
        pub(crate) trait Face: Sized + Send + 'static {
            fn connect(options: ConnectOptions) -> Result<Self>;
            fn new(options: ConnectOptions) -> Result<Self>;
            /// All results of a pipeline.
            fn push_many(&mut self, pushes: impl Iterator<Item = Push>) -> Vec<Result<MessageId>>;
            /// The first result of a pipeline, which is then dropped.
            fn first_of_many(&mut self, pushes: impl Iterator<Item = Push>) -> Result<MessageId>;
            $(fn $name(&mut self, $($argument: $type),*) -> Result<$output>;)+
            fn connection_state(&self) -> ConnectionState;
            fn metrics(&self) -> Metrics;
            fn epoch(&self) -> Option<Epoch>;
        }

        impl Face for Blocking {
            fn connect(options: ConnectOptions) -> Result<Self> {
                blocking::Client::connect(options).map(Blocking)
            }

            fn new(options: ConnectOptions) -> Result<Self> {
                blocking::Client::new(options).map(Blocking)
            }

            fn push_many(&mut self, pushes: impl Iterator<Item = Push>) -> Vec<Result<MessageId>> {
                self.0.push_many(pushes).collect()
            }

            fn first_of_many(&mut self, pushes: impl Iterator<Item = Push>) -> Result<MessageId> {
                self.0.push_many(pushes).next().unwrap()
            }

            $(fn $name(&mut self, $($argument: $type),*) -> Result<$output> {
                self.0.$name($($argument),*)
            })+

            fn connection_state(&self) -> ConnectionState {
                self.0.connection_state()
            }

            fn metrics(&self) -> Metrics {
                self.0.metrics().clone()
            }

            fn epoch(&self) -> Option<Epoch> {
                self.0.epoch()
            }
        }

        impl Face for Async {
            fn connect(options: ConnectOptions) -> Result<Self> {
                let runtime = Arc::new(runtime());
                let client = runtime.block_on(Client::connect(options))?;
                Ok(Async { client, runtime })
            }

            fn new(options: ConnectOptions) -> Result<Self> {
                let client = Client::new(options)?;
                Ok(Async { client, runtime: Arc::new(runtime()) })
            }

            fn push_many(&mut self, pushes: impl Iterator<Item = Push>) -> Vec<Result<MessageId>> {
                self.runtime.block_on(async {
                    let (mut many, mut all) = (self.client.push_many(pushes), Vec::new());
                    while let Some(outcome) = many.next().await {
                        all.push(outcome);
                    }
                    all
                })
            }

            fn first_of_many(&mut self, pushes: impl Iterator<Item = Push>) -> Result<MessageId> {
                let mut many = self.client.push_many(pushes);
                self.runtime.block_on(many.next()).unwrap()
            }

            $(fn $name(&mut self, $($argument: $type),*) -> Result<$output> {
                self.runtime.block_on(self.client.$name($($argument),*))
            })+

            fn connection_state(&self) -> ConnectionState {
                self.client.connection_state()
            }

            fn metrics(&self) -> Metrics {
                self.client.metrics()
            }

            fn epoch(&self) -> Option<Epoch> {
                self.client.epoch()
            }
        }
    };
}

clients! {
    lpush(queue: &QueueName, body: bytes::Bytes) -> MessageId;
    rpush(queue: &QueueName, body: bytes::Bytes) -> MessageId;
    pull(queue: &QueueName) -> Delivery;
    pull_within(queue: &QueueName, time: Duration) -> Option<Delivery>;
    try_pull(queue: &QueueName) -> Option<Delivery>;
    delete(delivery: &Delivery) -> ();
    lcancel(delivery: &Delivery) -> ();
    rcancel(delivery: &Delivery) -> ();
    count(queue: &QueueName) -> u32;
    clear(queue: &QueueName) -> u32;
    create_queue(queue: &QueueName) -> ();
    ensure_queue(queue: &QueueName) -> bool;
    delete_queue(queue: &QueueName) -> ();
    ping() -> ();
    call(request: Request) -> Success;
    pull_with_id(queue: &QueueName, id: RequestId) -> Delivery;
    delete_pulled(queue: &QueueName, id: &RequestId) -> ();
    lcancel_pulled(queue: &QueueName, id: &RequestId) -> ();
    rcancel_pulled(queue: &QueueName, id: &RequestId) -> ();
    recover(queue: &QueueName, id: &RequestId) -> ();
    stats() -> Stats;
    queue_stats(queue: &QueueName) -> Option<QueueStats>;
    reconnect() -> ();
}

/// The tests of one function over a [`Face`] and a [`World`](crate::support::World), by one transport: {async,
/// blocking} x {in-memory, real}.
macro_rules! by_transport {
    ($name:ident, $module:ident, $transport:ident) => {
        mod $module {
            crate::face::in_memory!($name, $transport);

            #[test]
            fn async_real() {
                if let Some(world) = crate::support::World::real(TRANSPORT) {
                    super::super::$name::<crate::face::Async>(&world);
                }
            }

            #[test]
            fn blocking_real() {
                if let Some(world) = crate::support::World::real(TRANSPORT) {
                    super::super::$name::<crate::face::Blocking>(&world);
                }
            }
        }
    };
}

/// Those of them that leave the real server alone.
macro_rules! in_memory {
    ($name:ident, $transport:ident) => {
        const TRANSPORT: adf_queue_client::Transport = adf_queue_client::Transport::$transport;

        #[test]
        fn async_in_memory() {
            super::super::$name::<crate::face::Async>(&crate::support::World::in_memory(TRANSPORT));
        }

        #[test]
        fn blocking_in_memory() {
            super::super::$name::<crate::face::Blocking>(&crate::support::World::in_memory(
                TRANSPORT,
            ));
        }
    };
}

/// Tests over WebSocket.
macro_rules! over_websocket {
    ($($name:ident),+ $(,)?) => {$(
        mod $name {
            crate::face::by_transport!($name, ws_bin, WsBin);
            crate::face::by_transport!($name, ws_json, WsJson);
        }
    )+};
}

/// Tests over HTTP.
macro_rules! over_http {
    ($($name:ident),+ $(,)?) => {$(
        mod $name {
            crate::face::by_transport!($name, http_bin, HttpBin);
            crate::face::by_transport!($name, http_json, HttpJson);
        }
    )+};
}

/// Tests over any transport.
macro_rules! over_each_transport {
    ($($name:ident),+ $(,)?) => {$(
        mod $name {
            crate::face::by_transport!($name, ws_bin, WsBin);
            crate::face::by_transport!($name, ws_json, WsJson);
            crate::face::by_transport!($name, http_bin, HttpBin);
            crate::face::by_transport!($name, http_json, HttpJson);
        }
    )+};
}

/// The same without the real server.
macro_rules! in_memory_over_each_transport {
    ($name:ident) => {
        mod $name {
            mod ws_bin {
                crate::face::in_memory!($name, WsBin);
            }
            mod ws_json {
                crate::face::in_memory!($name, WsJson);
            }
            mod http_bin {
                crate::face::in_memory!($name, HttpBin);
            }
            mod http_json {
                crate::face::in_memory!($name, HttpJson);
            }
        }
    };
}

/// Two tests of each function over a [`Face`]: async and blocking.
macro_rules! both_faces {
    ($($name:ident),+ $(,)?) => {$(
        mod $name {
            #[test]
            fn async_face() {
                super::$name::<crate::face::Async>();
            }

            #[test]
            fn blocking_face() {
                super::$name::<crate::face::Blocking>();
            }
        }
    )+};
}

pub(crate) use {
    both_faces, by_transport, in_memory, in_memory_over_each_transport, over_each_transport,
    over_http, over_websocket,
};
