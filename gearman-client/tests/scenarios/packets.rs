//! Single packets, and clients that connect on first use, in both faces.

use std::time::Duration;

use gearman_client::{
    Admin, ErrorKind, Packets, blocking,
    protocol::{Magic, Packet, PacketType},
};

use super::support::{PATIENCE, each_server, each_server_async};

each_server!(
    packets_of_the_blocking_face_are_answered_in_order,
    a_blocking_admin_client_connects_at_its_first_call,
);

each_server_async!(
    packets_of_the_async_face_are_answered_in_order,
    an_async_admin_client_connects_at_its_first_call,
);

fn echo(text: &str) -> Packet {
    Packet::new(Magic::Request, PacketType::EchoReq, &[text]).unwrap()
}

fn refused() -> Packet {
    Packet::new(Magic::Request, PacketType::GrabJob, &[""; 0]).unwrap()
}

fn packets_of_the_blocking_face_are_answered_in_order(address: &str) {
    let mut packets = blocking::Packets::new(address).unwrap();
    assert_eq!(packets.next(Duration::ZERO).unwrap(), None);
    packets.send(&echo("one")).unwrap();
    packets.send(&refused()).unwrap();
    packets.send(&echo(&"two".repeat(100_000))).unwrap();
    let mut answers = || packets.next(PATIENCE).unwrap().unwrap();
    assert_eq!(answers().body, "one");
    assert_eq!(answers().packet_type, PacketType::NoJob);
    assert_eq!(answers().body.len(), 300_000);
    assert_eq!(packets.next(Duration::from_millis(20)).unwrap(), None);
}

async fn packets_of_the_async_face_are_answered_in_order(address: String) {
    let mut packets = Packets::new(&*address).unwrap();
    assert_eq!(packets.next(Duration::ZERO).await.unwrap(), None);
    packets.send(&echo("one")).await.unwrap();
    packets.send(&refused()).await.unwrap();
    packets.send(&echo(&"two".repeat(100_000))).await.unwrap();
    assert_eq!(packets.next(PATIENCE).await.unwrap().unwrap().body, "one");
    let answer = packets.next(PATIENCE).await.unwrap().unwrap();
    assert_eq!(answer.packet_type, PacketType::NoJob);
    assert_eq!(packets.next(PATIENCE).await.unwrap().unwrap().body.len(), 300_000);
    assert_eq!(packets.next(Duration::from_millis(20)).await.unwrap(), None);
}

fn a_blocking_admin_client_connects_at_its_first_call(address: &str) {
    let mut admin = blocking::Admin::new(address).unwrap();
    assert!(format!("{admin:?}").contains("connected: false"));
    assert!(!admin.version().unwrap().is_empty());
    let error = blocking::Admin::new("nonsense:x").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

async fn an_async_admin_client_connects_at_its_first_call(address: String) {
    let mut admin = Admin::new(&*address).unwrap();
    assert!(format!("{admin:?}").contains("connected: false"));
    assert!(!admin.version().await.unwrap().is_empty());
    assert_eq!(Admin::new("nonsense:x").unwrap_err().kind(), ErrorKind::InvalidInput);
}
