//! Jobs whose end was lost in a crash of the server: what killing it in the middle of a `put` occasionally leaves.

use std::{fs, path::Path, time::Duration};

use beanstalk_client::{Error, ErrorKind, Job, PutOptions, Reserved, Result};
use fixtures::{
    beanstalkd::{Seed, Server},
    real::Beanstalkd,
};
use tempfile::TempDir;

use crate::support::{Blocking, Environment, Face, Place, place::connect};

/// The next job that is ready and whole. Damaged ones are deleted: no `put` of theirs was acknowledged.
pub(crate) fn next_whole<F: Face>(client: &mut F) -> Option<Job> {
    loop {
        match client.reserve_with_timeout(Duration::ZERO) {
            Ok(reserved) => return Reserved::job(reserved),
            Err(error) => delete_damaged(client, &error).unwrap(),
        }
    }
}

/// Deletes the buried jobs that are damaged, where a worker puts them, from the head of the used tube's list.
pub(crate) fn delete_buried<F: Face>(client: &mut F) {
    while let Err(error) = client.peek_buried() {
        delete_damaged(client, &error).unwrap();
    }
}

fn delete_damaged<F: Face>(client: &mut F, error: &Error) -> Result<()> {
    assert_eq!(error.kind(), ErrorKind::BodyDamaged, "{error}");
    client.delete(error.job().unwrap())
}

/// What is put, and from which byte on it is lost: the two after its body are those of the CRLF.
const JOBS: [(&str, Option<usize>); 5] = [
    ("first", None),
    ("nothing of it", Some(0)),
    ("half of it", Some(5)),
    ("its end", Some(7)),
    ("last", None),
];

/// A server whose tube `a` has five jobs of the priority 77, with the ids 1 to 5: "first" and "last" are whole, and
/// of those between all, half, or the second byte of the CRLF was lost.
#[must_use]
pub(crate) fn start(environment: Environment) -> (Place, Option<TempDir>) {
    match environment {
        Environment::InMemory => {
            let server = Server::start().unwrap();
            for (body, lost) in JOBS {
                let mut bytes = body.as_bytes().to_vec();
                bytes.iter_mut().skip(lost.unwrap_or(body.len())).for_each(|byte| *byte = 0);
                let seed = Seed::new(bytes).tube("a").priority(77);
                server.seed(if lost.is_some() { seed.damaged() } else { seed }).unwrap();
            }
            (Place::InMemory(server), None)
        }
        Environment::Real => {
            let folder = tempfile::tempdir().unwrap();
            let log = Beanstalkd::builder().arg("-b").arg(folder.path()).arg("-f").arg("0");
            let mut server = log.start().unwrap();
            let mut client: Blocking = connect(server.address());
            client.use_tube("a").unwrap();
            for (body, _) in JOBS {
                let _ = client.put(body.as_bytes(), PutOptions::default().priority(77)).unwrap();
            }
            server.kill();
            for (body, lost) in JOBS {
                if let Some(from) = lost {
                    lose(folder.path(), body, from);
                }
            }
            server.restart().unwrap();
            (Place::Real(server), Some(folder))
        }
    }
}

/// Overwrites a job's end in the server's log with what the file has where nothing was written.
fn lose(folder: &Path, body: &str, from: usize) {
    let whole = format!("{body}\r\n");
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if !path.file_name().unwrap().to_string_lossy().starts_with("binlog.") {
            continue;
        }
        let mut log = fs::read(&path).unwrap();
        let found = log.windows(whole.len()).position(|bytes| bytes == whole.as_bytes());
        if let Some(at) = found {
            log[at + from..at + whole.len()].fill(0);
            return fs::write(&path, log).unwrap();
        }
    }
    panic!("no log in {} has {body:?}", folder.display());
}
