//! What producers write into bodies.

use ctl_core::envelope::{Decode, decode, short};

const ALL: [Decode; 7] = [
    Decode::Auto,
    Decode::Laravel,
    Decode::Symfony,
    Decode::Backburner,
    Decode::Stalker,
    Decode::ModGearman,
    Decode::Json,
];

/// Whatever a body is, it is decoded, or one word says why not; what is shown is not longer than what came allows.
pub fn envelopes(data: &[u8]) {
    for format in ALL {
        let Some(envelope) = decode(format, data) else {
            assert_eq!(format, Decode::Auto, "nothing is said of a body");
            continue;
        };
        if let Some(why) = envelope.why {
            assert!(why.word().bytes().all(|byte| byte.is_ascii_lowercase()));
        }
        let value = envelope.into_value();
        let line = short(&value);
        assert!(line.len() < 2048 + data.len(), "a line of {} bytes", line.len());
        let text = value.to_string();
        // Each byte may take six, and each value its punctuation.
        assert!(text.len() < 1024 + 16 * data.len(), "{} bytes became {}", data.len(), text.len());
    }
}
