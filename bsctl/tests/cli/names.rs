//! Tubes by position and by flag.

use fixtures::beanstalkd::{Listen, Server};

use crate::harness::*;

/// It is asked for only where a name is unknown.
#[test]
fn suggests_a_close_tube_name() {
    on_both(|address| {
        put(address, "mail", "x");
        for line in [
            &["pop", "mial"][..],
            &["peek", "-t", "mial"],
            &["kick", "mial"],
            &["pause", "mial", "1s"],
            &["jobs", "mial"],
            &["tubes", "mial"],
            &["export", "-t", "mial"],
            &["drain", "mial", "--yes"],
            &["clear", "mial", "--yes"],
            &["move", "--from", "mial", "--to", "sms", "--yes"],
            &["wait", "--for", "empty", "mial"],
            &["check", "tube", "mial"],
            &["work", "-t", "mial", "--max-idle", "0", "--exec", "true"],
        ] {
            let ran = bsctl(address, line);
            let said = format!("{}{}", ran.out(), ran.err);
            assert!(said.contains("did you mean mail?"), "{line:?}: {said}");
        }
        // Nothing resembles it.
        assert!(!bsctl(address, &["pop", "quite-different"]).exits(1).err.contains("did you mean"));
        // A pattern where a name is meant.
        let ran = bsctl(address, &["jobs", "ma*"]).exits(65);
        assert!(ran.err.contains("`tubes 'ma*'` lists what matches"), "{}", ran.err);
        assert_eq!(bsctl(address, &["jobs", "--columns", "body"]).exits(0).out(), "x\n");
    });
}

#[test]
fn accepts_the_server_flags_of_the_other_tools() {
    let server = Server::start().unwrap();
    for flag in ["-s", "--server", "-a", "--addr"] {
        bare(&[flag, server.address(), "tubes"]).exits(0);
    }
}

/// The value of `MESSENGER_TRANSPORT_DSN` is used as it is.
#[test]
fn accepts_symfony_addresses_with_a_tube() {
    on_both(|address| {
        let of = |query: &str| format!("beanstalkd://{address}?{query}");
        let mail = of("tube_name=mail&timeout=4&ttr=120");
        bare(&["-s", &mail, "put", "one"]).exits(0);
        bare(&["-s", &mail, "put", "-t", "sms", "two"]).exits(0);
        bare(&["-s", &mail, "repl", "-e", "put three"]).exits(0);
        let elsewhere = format!("connect '{}'", of("tube=fax"));
        bare(&["-s", &mail, "repl", "-e", &elsewhere, "-e", "put four"]).exits(0);
        assert_eq!(
            places(address),
            ["four fax ready", "one mail ready", "three mail ready", "two sms ready"]
        );
        let shown = bare(&["-s", &mail, "context", "show", "-o", "plain"]).exits(0);
        assert!(shown.out().contains("tube\tmail\tserver address"), "{}", shown.out());
        let unknown = bare(&["-s", &of("queue=mail"), "tubes"]).exits(2);
        assert!(unknown.err.contains("unknown parameter `queue`"), "{}", unknown.err);
    });
}

/// The system finds the interface by its name or number; the loopback interface is the first one.
#[test]
fn accepts_an_ipv6_zone() {
    let listen = Listen::parse("[::1]:0", 0).unwrap();
    let Ok(server) = Server::builder().listen(listen).start() else {
        return eprintln!("left out: this machine has no IPv6");
    };
    let zoned = server.address().replace("::1", "::1%1");
    put(server.address(), "mail", "x");
    assert_eq!(bsctl(&zoned, &["pop", "mail", "-o", "raw"]).exits(0).out(), "x");
}

#[test]
fn rejects_a_tube_given_twice() {
    in_memory(|address| {
        put(address, "mail", "x");
        assert_eq!(bsctl(address, &["pop", "mail", "-o", "raw"]).exits(0).out(), "x");
        let two = bsctl(address, &["kick", "mail", "-t", "sms"]).exits(2);
        assert!(two.err.contains("two tubes are given, mail and sms"), "{}", two.err);
        let none = bsctl(address, &["clear", "--yes"]).exits(2);
        assert!(none.err.contains("TUBE or -t TUBE"), "{}", none.err);
        let tip = bsctl(address, &["delete", "-t", "mail"]).exits(2);
        assert!(!tip.err.contains("-- -t"), "{}", tip.err);
    });
}

/// `bsctl put mail hello` would put two jobs into the default tube unnoticed.
#[test]
fn several_bodies_need_a_tube() {
    in_memory(|address| {
        for line in [&["put", "mail", "hello"][..], &["put", "mail", "@/no/such/file"]] {
            for more in [&[][..], &["-n"], &["-q"]] {
                let ran = bsctl(address, &[line, more].concat()).exits(2);
                let hints = ["put 2 bodies into which tube?", "-t mail", "-t default"];
                assert!(hints.iter().all(|hint| ran.err.contains(hint)), "{}", ran.err);
            }
        }
        let script = b"put mail hello\nuse mail\nput a b\n";
        let ran = bsctl_with(address, &["repl", "--keep-going"], script).exits(3);
        assert!(ran.err.contains("put 2 bodies into which tube?"), "{}", ran.err);
        assert_eq!(places(address), ["a mail ready", "b mail ready"]);
        bsctl(address, &["put", "mail"]).exits(0);
        bsctl(address, &["put", "-t", "default", "mail", "hello"]).exits(0);
    });
}
