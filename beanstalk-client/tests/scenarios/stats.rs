//! Statistics of every server version, typed and serialized.

use beanstalk_client::{JobStats, PutOptions, ServerStats, TubeStats};
use fixtures::beanstalkd::{Server, Version};

use crate::support::{Environment, Face, both_faces, place::with_client, scenarios};

scenarios!(statistics_count_what_was_done);

fn statistics_count_what_was_done<F: Face>(environment: Environment) {
    let (_place, mut client) = environment.with_client::<F>();
    client.use_tube("1e5").unwrap();
    client.watch("1e5").unwrap();
    for priority in [0, 1023, 1024] {
        let options = PutOptions::default().priority(priority);
        let _ = client.put(b"x", options).unwrap();
    }
    let job = client.reserve().unwrap().job().unwrap();
    let server = client.stats().unwrap();
    assert_eq!(server.entries().len(), ServerStats::KEYS.len());
    assert_eq!((server.cmd_put, server.cmd_reserve_with_timeout, server.cmd_stats), (3, 1, 1));
    assert_eq!((server.current_jobs_ready, server.current_jobs_urgent), (2, 1));
    assert_eq!((server.current_producers, server.current_workers), (1, 1));
    assert_eq!((server.max_job_size, server.draining), (65_535, Some(false)));
    assert_eq!(server.version_numbers(), Some((1, 12)));
    assert!(server.os.is_some() && server.platform.is_some() && server.pid > 0);
    assert_eq!(server.id.len(), 16);
    let tube = client.stats_tube("1e5").unwrap().unwrap();
    assert_eq!(tube.entries().len(), TubeStats::KEYS.len());
    assert_eq!((tube.current_using, tube.current_watching), (1, 1));
    assert_eq!((tube.current_jobs_reserved, tube.total_jobs, tube.name.as_str()), (1, 3, "1e5"));
    let stats = client.stats_job(job.id).unwrap().unwrap();
    assert_eq!(stats.entries().len(), JobStats::KEYS.len());
    assert_eq!((stats.tube.as_str(), stats.reserves, stats.file), ("1e5", 1, 0));
    assert!((55..60).contains(&stats.time_left), "{}", stats.time_left);
}

both_faces!(every_version_is_read_the_same);

fn every_version_is_read_the_same<F: Face>() {
    for version in Version::ALL {
        let (_server, mut client) =
            with_client::<F>(Server::builder().version(version).start().unwrap());
        for tube in ["123", "true", "1e5", "null", "0.5"] {
            client.use_tube(tube).unwrap();
            let id = client.put(b"x", PutOptions::default()).unwrap().id();
            assert_eq!(client.stats_job(id).unwrap().unwrap().tube, tube, "{version}");
            assert_eq!(client.stats_tube(tube).unwrap().unwrap().name, tube, "{version}");
            assert!(client.list_tubes().unwrap().iter().any(|name| name == tube), "{version}");
        }
        let stats = client.stats().unwrap();
        let new = version >= Version::V1_12;
        assert_eq!(stats.version, version.as_str());
        assert_eq!(stats.entries().len(), if new { 51 } else { 48 }, "{version}");
        assert_eq!(stats.draining, new.then_some(false), "{version}");
        assert_eq!((stats.os.is_some(), stats.platform.is_some()), (new, new), "{version}");
        assert_eq!(stats.cmd_put, 5);
    }
}

#[cfg(feature = "serde")]
mod serialized {
    use serde_json::Value;

    use super::*;

    both_faces!(statistics_are_typed);

    fn statistics_are_typed<F: Face>() {
        for version in Version::ALL {
            let (_server, mut client) = with_client::<F>(
                Server::builder().version(version).instance(0x1e5).start().unwrap(),
            );
            client.use_tube("1e5").unwrap();
            let id = client.put(b"x", PutOptions::default()).unwrap().id();
            let stats = serde_json::to_value(client.stats().unwrap()).unwrap();
            assert_eq!(stats["version"], version.as_str());
            assert_eq!(stats["id"], "00000000000001e5");
            assert_eq!(stats["current-jobs-ready"], 1);
            assert!(stats["rusage-utime"].is_f64(), "{version}");
            let stats = client.stats_job(id).unwrap().unwrap();
            assert_keys(&serde_json::to_string(&stats).unwrap(), JobStats::KEYS);
            let job = serde_json::to_value(stats).unwrap();
            assert_eq!((&job["tube"], &job["pri"]), (&Value::from("1e5"), &Value::from(1024)));
            let tube = client.stats_tube("1e5").unwrap().unwrap();
            assert_keys(&serde_json::to_string(&tube).unwrap(), TubeStats::KEYS);
        }
    }

    /// Exactly these keys in this order. Only the text has it: a `Value` keeps it with a feature of serde_json.
    fn assert_keys(text: &str, keys: &[&str]) {
        let object: Value = serde_json::from_str(text).unwrap();
        assert_eq!(object.as_object().unwrap().len(), keys.len(), "{text}");
        let place = |key: &&str| text.find(&format!("\"{key}\":")).expect(key);
        assert!(keys.iter().map(place).is_sorted(), "{text}");
    }
}
