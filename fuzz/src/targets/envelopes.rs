//! What producers write into bodies.

use ctl_core::envelope::{Formats, short};

/// Whatever a body is, it is decoded, or one word says why not; what is shown is not longer than what came allows.
pub fn envelopes(data: &[u8]) {
    let formats = Formats::default();
    for name in formats.names() {
        let format = formats.named(name).expect("a format has no name");
        let Some(envelope) = formats.decode(&format, data) else {
            let is_silent = ["auto", "none", "utf8", "base64", "hex"].contains(&name);
            assert!(is_silent, "{name}: nothing is said of a body");
            continue;
        };
        let value = envelope.into_value();
        let why = value["why"].as_str().unwrap_or_default();
        assert!(why.bytes().all(|byte| byte.is_ascii_lowercase()));
        let line = short(&value);
        assert!(line.len() < 2048 + data.len(), "a line of {} bytes", line.len());
        let text = value.to_string();
        // Each byte may take six, and each value its punctuation.
        assert!(text.len() < 1024 + 16 * data.len(), "{} bytes became {}", data.len(), text.len());
    }
}
