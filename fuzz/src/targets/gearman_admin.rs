//! The text replies of a gearmand to its administrators.

use gearman_client::{
    FunctionPriorities, FunctionStatus, JobInfo, Listing, Row, UniqueJob, WorkerInfo,
    protocol::{AdminReply, ReplyShape, TextDecoder},
};

use super::pieces::{Cut, cuts};

const MAX: usize = 1 << 16;

/// The reply is the same however the bytes are cut, unless it forges its own end; it and the rows that are read from it
/// are never more than what came.
pub fn gearman_admin(data: &[u8]) {
    for shape in [ReplyShape::Line, ReplyShape::List] {
        let whole = reply(data, Cut::Whole, shape);
        if !forges_its_end(data) {
            for cut in cuts(data) {
                assert_eq!(reply(data, cut, shape), whole, "cut as {cut:?}");
            }
        }
        let Ok(Some(reply)) = whole else { continue };
        if let AdminReply::List { lines, .. } = &reply {
            assert!(lines.iter().map(|line| line.len() + 1).sum::<usize>() < data.len());
            rows::<FunctionStatus>(&reply, lines.len());
            rows::<FunctionPriorities>(&reply, lines.len());
            rows::<WorkerInfo>(&reply, lines.len());
            rows::<JobInfo>(&reply, lines.len());
            rows::<UniqueJob>(&reply, lines.len());
        }
        // A value that is none is an error.
        let _ = reply.clone().value();
        let _ = reply.clone().number();
        let _ = reply.ok();
    }
}

/// A dot alone on a line before the end: whether it ends the list depends on the earlier lines.
fn forges_its_end(data: &[u8]) -> bool {
    let lines =
        || data.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    lines().filter(|line| line == b".").count() > 1
        || lines().position(|line| line == b".").is_some_and(|at| {
            // Something follows the line.
            data.split(|byte| *byte == b'\n').skip(at + 1).any(|rest| !rest.is_empty())
                || data.split(|byte| *byte == b'\n').count() > at + 2
        })
}

/// The first reply, or what kept it from being one.
fn reply(data: &[u8], cut: Cut, shape: ReplyShape) -> Result<Option<AdminReply>, String> {
    let mut decoder = TextDecoder::new(MAX);
    let mut found = None;
    for piece in cut.pieces(data) {
        decoder.push(piece);
        found = decoder.reply(shape).map_err(|error| {
            let text = error.to_string();
            assert!(text.len() < 1024, "an error is short: {text}");
            text
        })?;
        if found.is_some() {
            break;
        }
    }
    Ok(found)
}

fn rows<T: Row>(reply: &AdminReply, lines: usize) {
    let listing: Listing<T> = Listing::parse(reply.clone()).expect("it is a list");
    assert_eq!(listing.rows().len() + listing.rejected().len(), lines, "a line is missing");
}
