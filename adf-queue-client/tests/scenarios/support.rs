//! Servers to test against, and helpers of several tests.

use std::{
    process,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use adf_queue_client::{Address, ConnectOptions, QueueName, Transport};
use fixtures::adf_queue::Server;

/// How long a test waits for an expected event before it fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A deadline that passes while the server is silent, but that every answer meets, even if a busy machine stops its
/// thread for two seconds.
pub(crate) const LATE: Duration = Duration::from_secs(3);

/// A server, and a transport to speak to it.
pub(crate) struct World {
    pub(crate) address: Address,
    /// The in-memory server, unless the real one is used.
    pub(crate) server: Option<Server>,
}

impl World {
    /// A server in this process.
    pub(crate) fn in_memory(transport: Transport) -> Self {
        let server = Server::start().unwrap();
        let address: Address = server.address().parse().unwrap();
        World { address: address.with_transport(transport), server: Some(server) }
    }

    /// The real server, if there is one: `ADF_QUEUE_SERVER` has its address.
    pub(crate) fn real(transport: Transport) -> Option<Self> {
        let Ok(address) = std::env::var("ADF_QUEUE_SERVER") else {
            eprintln!("left out: ADF_QUEUE_SERVER does not say where the real server is");
            return None;
        };
        let address: Address = address.parse().unwrap();
        Some(World { address: address.with_transport(transport), server: None })
    }

    pub(crate) fn options(&self) -> ConnectOptions {
        ConnectOptions::new(self.address.clone()).reply_timeout(PATIENCE)
    }

    pub(crate) fn is_json(&self) -> bool {
        matches!(self.address.transport(), Transport::WsJson | Transport::HttpJson)
    }
}

/// A name that no other test uses, also in another process.
pub(crate) fn queue_name() -> QueueName {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let number = LAST.fetch_add(1, Ordering::Relaxed);
    format!("/sdk/{}/{number}", process::id()).try_into().unwrap()
}

/// A test of a function over a [`World`] for each of these servers and transports.
macro_rules! on_servers {
    ($name:ident: $($case:ident = $server:ident $transport:ident,)+) => {
        mod $name {
            use crate::support::World;

            $(#[test]
            fn $case() {
                let world = World::$server(adf_queue_client::Transport::$transport);
                Option::<World>::from(world).iter().for_each(super::$name);
            })+
        }
    };
}

/// Tests of each function over a [`World`], on both servers.
macro_rules! on_each_server {
    ($($name:ident),+ $(,)?) => {$(
        crate::support::on_servers!($name:
            ws_bin_in_memory = in_memory WsBin,
            ws_json_in_memory = in_memory WsJson,
            http_bin_in_memory = in_memory HttpBin,
            http_json_in_memory = in_memory HttpJson,
            ws_bin_real = real WsBin,
            ws_json_real = real WsJson,
        );
    )+};
}

pub(crate) use {on_each_server, on_servers};
