//! Connectors that reach servers under names that only a test knows.

use std::{io, net::SocketAddr, sync::Arc};

use beanstalk_client::{Address, ConnectOptions};

/// Connects both faces by a resolver of the test's own, which is asked at every attempt.
#[must_use]
pub fn resolved_by(
    options: ConnectOptions,
    resolve: impl Fn(&Address) -> io::Result<SocketAddr> + Send + Sync + 'static,
) -> ConnectOptions {
    let resolve = Arc::new(resolve);
    let resolve_async = Arc::clone(&resolve);
    options
        .connector(move |address| {
            let found = resolve_async(&address);
            async move { tokio::net::TcpStream::connect(found?).await }
        })
        .blocking_connector(move |address, _| std::net::TcpStream::connect(resolve(address)?))
}
