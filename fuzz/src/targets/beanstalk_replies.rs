//! What a beanstalkd sends, read by the client's session.

use beanstalk_client::{
    Error,
    protocol::{RawCommand, Response, Session},
};

use super::pieces::{Cut, copy, cuts};

/// The replies are the same however the bytes are cut, and never longer than what came.
pub fn beanstalk_replies(data: &[u8]) {
    for max_body in [16, 1 << 16] {
        let whole = replies(data, Cut::Whole, max_body);
        for cut in cuts(data) {
            assert_eq!(replies(data, cut, max_body), whole, "cut as {cut:?}, bodies to {max_body}");
        }
    }
}

/// The replies as text, the last of them what made the session give up.
fn replies(data: &[u8], cut: Cut, max_body: usize) -> Vec<String> {
    let command = RawCommand::new("anything").expect("it is a line");
    let mut session = Session::new(max_body);
    let mut ticket = session.send(&command).expect("it is open");
    session.sent(session.outgoing().len());
    let mut found = Vec::new();
    let mut size = 0;
    for piece in cut.pieces(data) {
        let outcome = copy(&mut session, piece, Session::space, Session::received, |session| {
            while let Some(response) = session.reply(ticket)? {
                size += length(&response);
                found.push(describe(&response));
                ticket = session.send(&command)?;
                session.sent(session.outgoing().len());
            }
            Ok(())
        });
        if let Err(error) = outcome {
            found.push(refusal(&session, &error));
            break;
        }
    }
    assert!(size <= data.len(), "{size} bytes of bodies came out of {} bytes", data.len());
    found
}

fn refusal(session: &Session, error: &Error) -> String {
    assert!(!session.is_open(), "a session that has failed takes no command");
    let text = error.to_string();
    assert!(text.len() < 1024, "an error is short: {text}");
    format!("{:?} {text}", error.kind())
}

/// The reply without the number of its connection.
fn describe(response: &Response) -> String {
    match response {
        Response::Reserved(job) => format!("RESERVED {} {:?}", job.id, job.body),
        Response::Found(job) => format!("FOUND {} {:?}", job.id, job.body),
        Response::BodyTooLarge { job, size, limit } => {
            format!("{} bytes of job {} over {limit}", size, job.id())
        }
        Response::BodyDamaged { job, body } => format!("damaged job {} {body:?}", job.id()),
        other => format!("{other:?}"),
    }
}

fn length(response: &Response) -> usize {
    match response {
        Response::Reserved(job) | Response::Found(job) => job.body.len(),
        Response::BodyDamaged { body, .. } => body.len(),
        Response::Ok(text) | Response::Using(text) | Response::Other(text) => text.len(),
        _ => 0,
    }
}
