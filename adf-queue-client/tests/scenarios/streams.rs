//! Streams provided by the caller.

use std::net::TcpStream;

use adf_queue_client::{
    Address, Client, ConnectOptions, ConnectionState, Error, ErrorKind, Fate, Transport, blocking,
};
use fixtures::adf_queue::Server;

use crate::{
    face::{Face, both_faces, runtime},
    support::PATIENCE,
};

both_faces!(
    a_connector_makes_every_connection,
    a_connector_that_fails_is_a_connection_that_could_not_be_made,
);

fn options(transport: Transport) -> ConnectOptions {
    // Nothing listens there: the stream counts.
    let address: Address = "queue.invalid:1".parse().unwrap();
    ConnectOptions::new(address.with_transport(transport)).reply_timeout(PATIENCE)
}

fn only_once(error: &Error) {
    assert_eq!((error.kind(), error.fate()), (&ErrorKind::ConnectionLost, Fate::NotSent));
    assert!(error.to_string().contains("made from a stream cannot reconnect"), "{error}");
}

#[test]
fn an_async_client_over_a_given_stream_does_not_connect_again() {
    let server = Server::builder().queue("/q").start().unwrap();
    runtime().block_on(async {
        let stream = || tokio::net::TcpStream::connect(server.socket_addr().unwrap());
        for transport in [Transport::WsBin, Transport::WsJson] {
            let stream = stream().await.unwrap();
            let client = Client::from_stream(stream, options(transport)).await.unwrap();
            client.rpush("/q", "x").await.unwrap();
            let pulled = client.pull("/q").await.unwrap();
            server.close_connections();
            // Waits for something that no longer arrives.
            assert!(client.pull("/q").await.is_err());
            only_once(&client.count("/q").await.unwrap_err());
            assert_eq!(*client.delete(&pulled).await.unwrap_err().kind(), ErrorKind::JobLost);
            only_once(&client.reconnect().await.unwrap_err());
            assert_eq!(client.connection_state(), ConnectionState::Closed);
            let cleared = Client::connect(server.address()).await.unwrap().clear("/q").await;
            assert_eq!(cleared.unwrap(), 1);
        }
        let over_http = Client::from_stream(stream().await.unwrap(), options(Transport::HttpBin));
        assert_eq!(*over_http.await.unwrap_err().kind(), ErrorKind::Unsupported);
    });
}

#[test]
fn a_blocking_client_over_a_given_stream_does_not_connect_again() {
    let server = Server::builder().queue("/q").start().unwrap();
    let stream = || TcpStream::connect(server.socket_addr().unwrap()).unwrap();
    for transport in [Transport::WsBin, Transport::WsJson] {
        let mut client = blocking::Client::from_stream(stream(), options(transport)).unwrap();
        client.rpush("/q", "x").unwrap();
        let pulled = client.pull("/q").unwrap();
        server.close_connections();
        assert!(client.pull("/q").is_err());
        only_once(&client.count("/q").unwrap_err());
        assert_eq!(*client.delete(&pulled).unwrap_err().kind(), ErrorKind::JobLost);
        only_once(&client.reconnect().unwrap_err());
        assert_eq!(client.connection_state(), ConnectionState::Closed);
        let mut other = blocking::Client::connect(server.address()).unwrap();
        assert_eq!(other.clear("/q").unwrap(), 1);
    }
    let error = blocking::Client::from_stream(stream(), options(Transport::HttpBin)).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Unsupported);
}

fn a_connector_makes_every_connection<F: Face>() {
    let server = Server::builder().queue("/q").start().unwrap();
    let there = server.socket_addr().unwrap();
    let options = options(Transport::WsBin)
        .connector(move |_| tokio::net::TcpStream::connect(there))
        .blocking_connector(move |_, _| TcpStream::connect(there));
    let mut client = F::connect(options).unwrap();
    let queue = "/q".parse().unwrap();
    client.rpush(&queue, "x".into()).unwrap();
    client.reconnect().unwrap();
    assert_eq!(client.count(&queue).unwrap(), 1);
    assert_eq!((client.metrics().connections, client.metrics().reconnects), (2, 1));
}

fn a_connector_that_fails_is_a_connection_that_could_not_be_made<F: Face>() {
    let failed = || std::io::Error::other("the tunnel is closed");
    let options = options(Transport::WsBin)
        .connector(move |_| async move { Err::<tokio::net::TcpStream, _>(failed()) })
        .blocking_connector(move |_, _| Err::<TcpStream, _>(failed()));
    let error = F::connect(options).err().unwrap();
    assert_eq!((error.kind(), error.fate()), (&ErrorKind::Connect, Fate::NotSent));
    assert!(error.to_string().contains("the tunnel is closed"), "{error}");
}
