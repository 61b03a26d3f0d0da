//! What a server may send to harm a terminal or a log.

use std::io::{Read, Write};
use std::net::TcpListener;

use gearman_client::FunctionName;
use gearman_client::blocking::Client;

use crate::harness::*;

/// Escapes, a bell, DEL, C1, and characters that turn or hide text.
const NAME: &str = "a\x1b[2J\x07\x7f\u{9b}\u{202e}\u{200b}b";

fn acts(c: char) -> bool {
    c.is_control() && c != '\n' && c != '\t' || "\u{202e}\u{200b}".contains(c)
}

#[test]
fn escapes_names_on_a_terminal_behind_a_pipe() {
    on_both(|server| {
        let address = server.address();
        let function = FunctionName::try_from(NAME).unwrap();
        let mut client = Client::connect(address).unwrap();
        client.submit_background(function, b"x", Default::default()).unwrap();
        for format in ["plain", "name", "table", "wide", "json", "ndjson", "yaml"] {
            let ran = gearctl(address, &["functions", "-o", format]).exits(0);
            assert!(!ran.out().is_empty() && !ran.out().contains(acts), "{format} {:?}", ran.out());
        }
        let json = gearctl(address, &["functions", "-o", "json"]).exits(0).json();
        let shown = json[0]["queue"].as_str().unwrap();
        assert_eq!(ctl_core::text::escape::unname(shown), NAME.as_bytes());
        for line in [["raw", "status"], ["job", NAME], ["cancel", NAME], ["functions", NAME]] {
            let ran = gearctl(address, &line);
            assert!(!ran.out().contains(acts) && !ran.err.contains(acts), "{line:?} {ran:?}");
        }
        // Text rejected by the grammar is quoted, too.
        let ran = gearctl(address, &["functions", &format!("--{NAME}")]).exits(2);
        assert!(!ran.err.contains(acts), "{:?}", ran.err);
    });
}

#[test]
fn truncates_long_error_texts_and_states_their_length() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let body = [&vec![b'E'; 1 << 20][..], b"\0", &vec![b't'; 1 << 20]].concat();
            let length = u32::try_from(body.len()).unwrap().to_be_bytes();
            let error = [b"\0RES\0\0\0\x13", &length[..], &body].concat();
            // An answer to the option, and one to the request.
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(&error).and_then(|()| stream.write_all(&error));
            let _ = stream.read_to_end(&mut Vec::new());
        }
    });
    for format in ["plain", "json"] {
        let ran = gearctl(&address, &["--timeout", "60s", "ping", "-o", format]);
        assert!(ran.code != Some(0) && ran.err.len() < 10_000, "{} bytes", ran.err.len());
        assert!(ran.err.contains("(the first 40"), "{}", ran.err);
    }
}
