//! Replies that are not those to the commands before them: a server that cut a line, or one that reports something
//! else.

use std::time::Duration;

use beanstalk_client::{
    ErrorKind, Fate, TubeName,
    protocol::{AnyCommand, ListTubeUsed, Reserve},
};
use fixtures::{
    beanstalkd::{Server, Version},
    fault::Fault,
};

use crate::support::{
    Face, both_faces,
    place::{connect, options, start, with_client},
};

both_faces!(
    a_line_that_an_old_server_cuts_costs_its_connection_and_nothing_else,
    a_reply_about_another_job_or_tube_is_rejected,
    a_server_that_has_kicked_more_than_it_was_asked_for_is_not_believed,
    an_error_of_a_wrapped_command_names_the_command_inside,
);

/// A name whose `stats-tube` is the longest line that version 1.10 takes whole, or one byte longer.
fn long_name(over: usize) -> TubeName {
    "t".repeat(195 + over).try_into().unwrap()
}

fn a_line_that_an_old_server_cuts_costs_its_connection_and_nothing_else<F: Face>() {
    let (_server, mut client) =
        with_client::<F>(Server::builder().version(Version::V1_10).start().unwrap());
    client.use_tube("mine").unwrap();
    let epoch = client.epoch();
    assert!(client.stats_tube(long_name(0).as_str()).unwrap().is_none());
    assert_eq!(client.epoch(), epoch);
    for over in 1..=5 {
        let name = long_name(over);
        let refusals = [
            client.stats_tube(name.as_str()).map(drop),
            client.pause_tube(name.as_str(), Duration::from_secs(1)),
        ];
        for refusal in refusals {
            let error = refusal.unwrap_err();
            assert_eq!((error.kind(), error.fate()), (ErrorKind::BadFormat, Fate::Refused));
        }
        assert!(!client.is_connected());
        assert_eq!(client.list_tube_used().unwrap(), "mine", "on a new connection");
    }
}

fn a_reply_about_another_job_or_tube_is_rejected<F: Face>() {
    let (server, mut client) = start::<F>();
    let id = client.put(b"x", Default::default()).unwrap().id();
    let ok = |text: &str| format!("OK {}\r\n{text}\r\n", text.len());
    let mut check = |verb: &str, reply: String, call: fn(&mut F, u64) -> Option<ErrorKind>| {
        server.faults().add(Fault::nth(1).of(verb).reply_bytes(reply));
        assert_eq!(call(&mut client, id.get()), Some(ErrorKind::Protocol), "{verb}");
        assert!(!client.is_connected(), "{verb}");
        assert_eq!(call(&mut client, id.get()), None, "{verb}, on a new connection");
    };
    check("stats-tube", ok("---\nname: other\n"), |client, _| {
        client.stats_tube("default").err().map(|error| error.kind())
    });
    check("stats-job", ok("---\nid: 77\n"), |client, id| {
        client.stats_job(id).err().map(|error| error.kind())
    });
    check("peek", "FOUND 77 1\r\nx\r\n".to_owned(), |client, id| {
        client.peek(id).err().map(|error| error.kind())
    });
    check("reserve-job", "RESERVED 77 1\r\nx\r\n".to_owned(), |client, id| {
        client.reserve_job(id).err().map(|error| error.kind())
    });
}

fn a_server_that_has_kicked_more_than_it_was_asked_for_is_not_believed<F: Face>() {
    for (asked, kicked, good) in [
        (1, 1, true),
        (1, 2, false),
        (u64::MAX, u64::from(u32::MAX), true),
        (u64::MAX, u64::MAX, false),
    ] {
        let server = Server::start().unwrap();
        server.faults().add(Fault::nth(1).of("kick").reply(&format!("KICKED {kicked}")));
        let mut client: F = connect(server.address());
        match client.kick(asked) {
            Ok(count) => assert!(good && count == kicked),
            Err(error) => {
                assert!(!good && error.kind() == ErrorKind::Protocol, "{error}");
                assert!(error.to_string().contains(&kicked.to_string()), "{error}");
            }
        }
        assert_eq!(client.is_connected(), good);
    }
}

fn an_error_of_a_wrapped_command_names_the_command_inside<F: Face>() {
    let server = Server::start().unwrap();
    let mut client = F::connect(options(server.address())).unwrap();
    let reserve = AnyCommand::new(&Reserve);
    for (bytes, kind) in
        [("RESERVED x y\r\n", ErrorKind::Protocol), ("", ErrorKind::ConnectionLost)]
    {
        let fault = Fault::nth(1).of("reserve").reply_bytes(bytes);
        server.faults().add(if bytes.is_empty() { fault.cut_after(0) } else { fault });
        let error = client.call(&reserve).unwrap_err();
        assert_eq!((error.kind(), error.command()), (kind, Some("reserve")));
        let start = format!("reserve to {}: ", server.address());
        assert!(error.to_string().starts_with(&start), "{error}");
        // Its own pipeline names each.
        let fault = Fault::nth(1).of("reserve").reply_bytes(bytes);
        server.faults().add(if bytes.is_empty() { fault.cut_after(0) } else { fault });
        let replies = client.call_many([reserve.clone(), AnyCommand::new(&ListTubeUsed)]);
        let names: Vec<_> = replies.iter().map(|r| r.as_ref().unwrap_err().command()).collect();
        assert_eq!(names, [Some("reserve"), Some("list-tube-used")]);
    }
}
