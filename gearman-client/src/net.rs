//! Streams of the async face, and how to connect one.

use std::{io, net::SocketAddr};

use socket2::SockRef;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, lookup_host},
    time::{Instant, timeout_at},
};

use crate::{
    Address, ConnectOptions, Error,
    deadline::Limit,
    socket::{cannot_connect, no_address_answered, prepare},
};

/// A connected stream that a [`Client`](crate::Client) can use: anything that reads, writes, and can be sent.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Connects to the server: every address that the name stands for is tried, within one limit.
pub(crate) async fn connect(
    options: &ConnectOptions,
    limit: Limit,
) -> Result<Box<dyn Stream>, Error> {
    options.check()?;
    within(limit, open(options, limit)).await?
}

/// Runs a step until its limit.
pub(crate) async fn within<F: Future>(limit: Limit, step: F) -> Result<F::Output, Error> {
    match limit.at {
        Some(at) => timeout_at(Instant::from_std(at), step).await.map_err(|_| limit.error()),
        None => Ok(step.await),
    }
}

async fn open(options: &ConnectOptions, limit: Limit) -> Result<Box<dyn Stream>, Error> {
    Ok(match &options.address {
        Address::Tcp { host, port } => Box::new(tcp(host, *port, limit).await?),
        #[cfg(feature = "tls")]
        Address::Tls { host, port } => {
            let (config, name) = options.tls.prepare(host)?;
            let socket = tcp(host, *port, limit).await?;
            let connector = tokio_rustls::TlsConnector::from(config);
            let handshake = within(limit, connector.connect(name, socket)).await;
            let handshake = handshake.map_err(|late| late.with_source(crate::tls::NO_ANSWER))?;
            Box::new(handshake.map_err(crate::tls::handshake_failed)?)
        }
        #[cfg(not(feature = "tls"))]
        Address::Tls { .. } => {
            return Err(Error::invalid("this build has no TLS: enable the feature `tls`"));
        }
        #[cfg(unix)]
        Address::Unix(path) => Box::new(
            tokio::net::UnixStream::connect(path)
                .await
                .map_err(|error| cannot_connect(&format!("unix:{}", path.display()), error))?,
        ),
        #[cfg(not(unix))]
        Address::Unix(_) => {
            return Err(Error::invalid("unix sockets exist on Unix only: write host:port"));
        }
    })
}

async fn tcp(host: &str, port: u16, limit: Limit) -> Result<TcpStream, Error> {
    let addresses: Vec<SocketAddr> = lookup_host((host, port))
        .await
        .map_err(|error| cannot_connect(&format!("{host}:{port}"), error))?
        .collect();
    let mut causes = Vec::new();
    for (tried, address) in addresses.iter().enumerate() {
        let left_to_try = u32::try_from(addresses.len() - tried).unwrap_or(u32::MAX);
        match connect_one(*address, limit, left_to_try).await {
            Ok(stream) => return Ok(stream),
            Err(error) => causes.push(format!("{address}: {error}")),
        }
    }
    Err(no_address_answered(host, port, &causes))
}

async fn connect_one(address: SocketAddr, limit: Limit, left_to_try: u32) -> io::Result<TcpStream> {
    // An equal share each, so that one address that swallows packets leaves time for the next. The last one has all
    // that is left, and is ended by the limit around all of them.
    let share = match limit.remaining() {
        Some(left) if left_to_try > 1 => limit.shorter(left / left_to_try),
        _ => Limit::never(),
    };
    let stream = within(share, TcpStream::connect(address))
        .await
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    prepare(SockRef::from(&stream))?;
    Ok(stream)
}
