//! Properties over random input: encoding, names, and the mirror of a connection's state. Junk is for the fuzz targets.

use std::time::Duration;

use beanstalk_client::{ErrorKind, PutOptions, TubeName, protocol::Put};
use fixtures::beanstalkd::{
    Version,
    command::{self, Command as Parsed, PutLine},
    decode::{Decoder, Input},
};
use proptest::prelude::*;

use crate::support::{Async, Blocking, Face, catalogue::frame, place::start};

fn seconds() -> impl Strategy<Value = Duration> {
    any::<u32>().prop_map(|seconds| Duration::from_secs(seconds.into()))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_put_is_a_line_and_exactly_its_body(
        pri: u32, delay in seconds(), ttr in seconds(), body: Vec<u8>,
    ) {
        let options = PutOptions::default().priority(pri).delay(delay).ttr(ttr);
        let put = frame(&Put::new(&body, options).unwrap());
        let mut decoder = Decoder::new(Version::V1_12);
        decoder.feed(&put);
        let Some(Input::Line(line)) = decoder.next_input() else { panic!("no line") };
        let expected = PutLine {
            priority: pri,
            delay: delay.as_secs() as u32,
            ttr: ttr.as_secs() as u32,
            bytes: body.len() as u32,
            trailing_garbage: false,
        };
        prop_assert_eq!(command::parse(line, Version::V1_12), Ok(Parsed::Put(expected)));
        decoder.expect_body(body.len());
        prop_assert_eq!(decoder.next_input(), Some(Input::Body { body: &body, terminated: true }));
        prop_assert_eq!(decoder.next_input(), None);
    }

    /// S1.
    #[test]
    fn only_legal_names_become_tube_names(name in prop_oneof![any::<Vec<u8>>(), "[ -~]{0,210}".prop_map(String::into_bytes)]) {
        let legal = (1..=200).contains(&name.len())
            && name[0] != b'-'
            && name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-+/;.$_()".contains(byte));
        prop_assert_eq!(TubeName::try_from(&name[..]).is_ok(), legal);
    }
}

/// A step that changes what a connection uses and watches.
#[derive(Clone, Debug)]
enum Step {
    Use(u8),
    Watch(u8),
    Ignore(u8),
    Reconnect,
    Lose,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0_u8..4).prop_map(Step::Use),
        4 => (0_u8..4).prop_map(Step::Watch),
        4 => (0_u8..4).prop_map(Step::Ignore),
        1 => Just(Step::Reconnect),
        1 => Just(Step::Lose),
    ]
}

fn name(number: u8) -> &'static str {
    ["default", "a", "b", "c"][usize::from(number)]
}

/// B22: what the client believes is what the server says, whatever was done before, also over reconnects.
fn mirror<F: Face>(steps: &[Step]) {
    let (server, mut client) = start::<F>();
    for step in steps {
        match step {
            Step::Use(tube) => client.use_tube(name(*tube)).unwrap(),
            Step::Watch(tube) => {
                let count = client.watch(name(*tube)).unwrap();
                assert_eq!(count, client.watched_tubes().len() as u64);
            }
            Step::Ignore(tube) => {
                let only = client.watched_tubes() == [TubeName::try_from(name(*tube)).unwrap()];
                match client.ignore(name(*tube)) {
                    Ok(count) => assert!(!only && count == client.watched_tubes().len() as u64),
                    Err(error) => assert!(only && error.kind() == ErrorKind::NotIgnored),
                }
            }
            Step::Reconnect => client.reconnect().unwrap(),
            Step::Lose => {
                server.close_connections();
                let _ = client.list_tube_used();
            }
        }
        assert_eq!(client.list_tube_used().unwrap(), *client.used_tube(), "{step:?}");
        let mut watched = client.list_tubes_watched().unwrap();
        let mut mirrored = client.watched_tubes().to_vec();
        watched.sort();
        mirrored.sort();
        assert_eq!(watched, mirrored, "{step:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_mirror_of_tube_and_watch_list_is_the_servers_own(steps in prop::collection::vec(step(), 1..25)) {
        mirror::<Async>(&steps);
        mirror::<Blocking>(&steps);
    }
}
