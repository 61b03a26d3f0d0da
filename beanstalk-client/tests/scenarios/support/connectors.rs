//! Connectors that reach servers under names that only a test knows, or over sockets of a test's own making.

use std::{
    io,
    net::{SocketAddr, TcpStream},
    sync::Arc,
};

use beanstalk_client::{Address, Client, ConnectOptions, Duplex, blocking};
use queue_core::proof::Choppy;
use socket2::{Domain, Socket, Type};

use super::place;

/// Connects both faces by a resolver of the test's own, which is asked at every attempt.
#[must_use]
pub(crate) fn resolved_by(
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

/// Connects both faces over streams of the test's own.
#[must_use]
pub(crate) fn over<S: Duplex + blocking::Duplex + 'static>(
    options: ConnectOptions,
    stream: impl Fn() -> S + Clone + Send + Sync + 'static,
) -> ConnectOptions {
    let stream_async = stream.clone();
    options
        .connector(move |_| {
            let stream = stream_async();
            async move { Ok(stream) }
        })
        .blocking_connector(move |_, _| Ok(stream()))
}

/// An async client over a stream that moves at most so many bytes at a time, so that there are many places to drop a
/// call at.
pub(crate) async fn choppy_client(address: &str, most: usize) -> Client {
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    Client::from_stream(Choppy::new(stream, most), place::options(address))
}

/// Approximately how much the operating system buffers for a [`narrow`] connection in each direction.
pub(crate) const NARROW: usize = 256 * 1024;

/// Connects both faces by sockets with small buffers, however large or small the machine's own are: what is larger than
/// a few [`NARROW`] and is not read cannot be written whole.
#[must_use]
pub(crate) fn narrow(options: ConnectOptions) -> ConnectOptions {
    let address: SocketAddr = options.address().to_string().parse().unwrap();
    let connect = move || -> io::Result<TcpStream> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        narrowed(&socket)?;
        socket.connect(&address.into())?;
        socket.set_tcp_nodelay(true)?;
        Ok(socket.into())
    };
    options
        .connector(move |_| async move {
            let stream = connect()?;
            stream.set_nonblocking(true)?;
            tokio::net::TcpStream::from_std(stream)
        })
        .blocking_connector(move |_, _| connect())
}

/// Makes the buffers of a socket small.
///
/// # Errors
///
/// Errors of the operating system.
pub(crate) fn narrowed(socket: &Socket) -> io::Result<()> {
    socket.set_send_buffer_size(NARROW / 2)?;
    socket.set_recv_buffer_size(NARROW / 2)
}
