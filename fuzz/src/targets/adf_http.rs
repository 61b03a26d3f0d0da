//! What an Adf.QueueServer answers over HTTP, and its status page.

use adf_queue_client::{
    QueueStats, Stats,
    protocol::{Encoding, http::Answer},
};

use super::pieces::{Cut, cuts};

/// The longest body that is read.
const MAX_BODY: usize = 4096;

/// The answer is the same however the bytes are cut, and no longer than allowed.
pub fn adf_http_answers(data: &[u8]) {
    for encoding in [Encoding::Binary, Encoding::Json] {
        let whole = outcome(data, Cut::Whole, encoding);
        for cut in cuts(data) {
            assert_eq!(outcome(data, cut, encoding), whole, "cut as {cut:?}");
        }
    }
}

/// What an answer comes to when its connection ends behind these bytes.
fn outcome(data: &[u8], cut: Cut, encoding: Encoding) -> String {
    match read(data, cut) {
        Ok(answer) => {
            let keeps_alive = answer.keeps_alive();
            match answer.finish(encoding) {
                Ok(response) => format!("{keeps_alive} {response:?}"),
                Err(error) => short(&error),
            }
        }
        Err(error) => short(&error),
    }
}

fn read(data: &[u8], cut: Cut) -> adf_queue_client::Result<Answer> {
    let mut answer = Answer::new(MAX_BODY);
    let (mut start, mut end) = (0, 0);
    for piece in cut.pieces(data) {
        end += piece.len();
        let taken = answer.read(&data[start..end])?;
        assert!(taken <= end - start, "more was taken than came");
        assert!(answer.missing() <= MAX_BODY, "more is waited for than is allowed");
        start += taken;
    }
    answer.end();
    Ok(answer)
}

/// How much of what is no answer is shown depends on how much was there.
fn short(error: &adf_queue_client::Error) -> String {
    let text = error.to_string();
    assert!(text.len() < 1024, "an error is short: {text}");
    format!("{:?} {:?}", error.kind(), error.fate())
}

/// Whatever the page is, what is read from it is in it.
pub fn adf_status_page(data: &[u8]) {
    match Stats::parse(data) {
        Ok(stats) => {
            let names: usize = stats.queues.iter().map(|queue| queue.name.len()).sum();
            // What is no UTF-8 becomes a sign of three bytes.
            assert!(names <= 3 * data.len(), "more names than bytes");
            for queue in &stats.queues {
                check_queue(data, queue);
            }
        }
        Err(error) => assert!(error.to_string().len() < 1024, "{error}"),
    }
}

/// Asked for by its name, each queue is found, unless that name cannot be asked for.
fn check_queue(data: &[u8], queue: &QueueStats) {
    let (Ok(name), false) = (queue.name.parse(), queue.name.contains('\u{fffd}')) else { return };
    let found = QueueStats::parse(data, &name).expect("the page was read before");
    assert_eq!(found.map(|found| found.name).as_deref(), Some(&*queue.name));
}
