//! Jobs whose end the server lost: killed in the middle of a `put`, beanstalkd with a log serves unwritten bytes as
//! NULs, including the CRLF after the body.

use std::time::Duration;

use beanstalk_client::{
    ErrorKind, Fate, JobState, Reserved,
    protocol::{AnyCommand, ReserveWithTimeout, Response},
};

use crate::support::{Environment, Face, damaged::start, scenarios};

const NOW: Duration = Duration::ZERO;

scenarios!(
    a_damaged_job_error_names_it_and_keeps_the_connection,
    a_damaged_job_can_be_peeked_deleted_and_buried,
    a_damaged_job_in_a_pipeline_concerns_only_its_command,
);

fn a_damaged_job_error_names_it_and_keeps_the_connection<F: Face>(environment: Environment) {
    let (place, _folder) = start(environment);
    let mut client: F = place.connect();
    client.watch("a").unwrap();
    let epoch = client.epoch();
    let mut whole = Vec::new();
    let mut damaged = Vec::new();
    loop {
        match client.reserve_with_timeout(NOW) {
            Ok(Reserved::Job(job)) => whole.push(job.body.to_vec()),
            Ok(nothing) => break assert_eq!(nothing, Reserved::TimedOut),
            Err(error) => {
                assert_eq!((error.kind(), error.fate()), (ErrorKind::BodyDamaged, Fate::Refused));
                let job = error.job().unwrap();
                assert!(error.to_string().contains(&format!("job {}", job.id())), "{error}");
                client.touch(job).unwrap();
                damaged.push((job.id().get(), error.body().unwrap().to_vec()));
            }
        }
    }
    assert_eq!(whole, [b"first".to_vec(), b"last".to_vec()]);
    let half = b"half \0\0\0\0\0".to_vec();
    assert_eq!(damaged, [(2, vec![0; 13]), (3, half), (4, b"its end".to_vec())]);
    assert_eq!(client.epoch(), epoch);
}

fn a_damaged_job_can_be_peeked_deleted_and_buried<F: Face>(environment: Environment) {
    let (place, _folder) = start(environment);
    let mut client: F = place.connect();
    client.use_tube("a").unwrap();
    let error = client.peek(2).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BodyDamaged);
    // Only peeked at: it is not ours.
    assert_eq!(client.touch(error.job().unwrap()).unwrap_err().kind(), ErrorKind::NotFound);
    client.delete(error.job().unwrap()).unwrap();
    let error = client.reserve_job(3).unwrap_err();
    client.bury(error.job().unwrap(), 5).unwrap();
    assert_eq!(client.peek_buried().unwrap_err().job().unwrap().id().get(), 3);
    assert_eq!(client.stats_job(3).unwrap().unwrap().state, JobState::Buried);
    client.kick_job(3).unwrap();
    assert_eq!(client.peek_ready().unwrap_err().kind(), ErrorKind::BodyDamaged);
    assert_eq!(client.stats_tube("a").unwrap().unwrap().current_jobs_ready, 4);
}

fn a_damaged_job_in_a_pipeline_concerns_only_its_command<F: Face>(environment: Environment) {
    let (place, _folder) = start(environment);
    let mut client: F = place.connect();
    client.watch("a").unwrap();
    let reserve = ReserveWithTimeout::new(NOW).unwrap();
    let replies = client.call_some(8, 6, std::iter::repeat_n(AnyCommand::new(&reserve), 6));
    let came: Vec<(&str, u64)> = replies
        .into_iter()
        .map(|reply| match reply.unwrap() {
            Response::Reserved(job) => ("whole", job.id.get()),
            Response::BodyDamaged { job, .. } => ("damaged", job.id().get()),
            other => (other.word(), 0),
        })
        .collect();
    let expected = [("whole", 1), ("damaged", 2), ("damaged", 3), ("damaged", 4), ("whole", 5)];
    assert_eq!(came[..5], expected);
    assert_eq!(came[5], ("TIMED_OUT", 0));
    assert!(client.is_connected());
}
