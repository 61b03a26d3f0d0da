//! The text of beanstalkd's stats replies.

use std::collections::HashSet;

use beanstalk_client::{
    JobStats, ServerStats, TubeStats,
    protocol::{Command, ListTubes, Response},
};
use bytes::Bytes;

/// Whatever the text is, what is read from it is in it, no key stands twice, and an error is short.
pub fn beanstalk_stats(data: &[u8]) {
    let server = ServerStats::parse(data);
    let tube = TubeStats::parse(data);
    let job = JobStats::parse(data);
    let readings = [
        server.as_ref().map(|stats| stats.entries().collect::<Vec<_>>()),
        tube.as_ref().map(|stats| stats.entries().collect()),
        job.as_ref().map(|stats| stats.entries().collect()),
    ];
    for reading in &readings {
        match reading {
            Ok(entries) => check_entries(entries, data),
            Err(error) => assert!(error.to_string().len() < 1024, "{error}"),
        }
    }
    // Which keys there are does not depend on what is read from them.
    let kept: HashSet<_> = readings.iter().flatten().collect();
    assert!(kept.len() <= 1, "three types read three maps: {kept:?}");
    match ListTubes.decode(Response::Ok(Bytes::copy_from_slice(data))) {
        Ok(tubes) => {
            let size: usize = tubes.iter().map(|tube| tube.as_str().len()).sum();
            assert!(size <= data.len());
        }
        Err(error) => assert!(error.to_string().len() < 1024, "{error}"),
    }
}

fn check_entries(entries: &[(&str, &str)], data: &[u8]) {
    let text = std::str::from_utf8(data).expect("only text is accepted");
    let mut seen = HashSet::new();
    for (key, value) in entries {
        assert!(seen.insert(*key), "{key} stands twice");
        assert!(text.contains(*key) && text.contains(*value), "{key}: {value} was never sent");
        assert!(!value.contains('\n'), "{value:?} holds a line end");
    }
    // The same text, written again, is read as the same.
    let lines = entries.iter().map(|(key, value)| format!("{key}: {value}\n"));
    let again = format!("---\n{}", lines.collect::<String>());
    if let Ok(stats) = ServerStats::parse(again.as_bytes()) {
        let keys = stats.entries().map(|(key, _)| key);
        assert!(keys.eq(entries.iter().map(|(key, _)| *key)));
    }
}
