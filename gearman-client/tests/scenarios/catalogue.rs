//! Every request of the client role, with the answers that it may get.

use std::{
    fmt::Debug,
    time::{Duration, UNIX_EPOCH},
};

use gearman_client::{
    Priority, Result, UniqueId,
    protocol::{Echo, GetStatus, GetStatusUnique, PacketType, Request, SetExceptions, Submit},
};

use super::support::{function, options, wire};

/// Something to do with each request.
pub(crate) trait Visitor {
    fn visit<R>(&mut self, request: R, answers: &[Vec<u8>])
    where
        R: Request + Clone + Debug + Send + 'static,
        R::Reply: Debug + Send;
}

/// How many requests [`each`] visits.
pub(crate) const VISITED: usize = 13;

pub(crate) fn each(visitor: &mut impl Visitor) {
    let unique = UniqueId::try_from("u1").unwrap();
    let with = |priority| options().priority(priority).unique(unique);
    let created = [
        wire(PacketType::JobCreated, &["H:vm:1"]),
        wire(PacketType::Error, &["QUEUE_ERROR", "Job queue is full"]),
    ];
    for priority in [Priority::High, Priority::Normal, Priority::Low] {
        let submit = Submit::foreground(function("f"), "a\0b", with(priority)).unwrap();
        visitor.visit(submit, &created);
        let submit = Submit::background(function("f"), "a\0b", with(priority)).unwrap();
        visitor.visit(submit, &created);
    }
    let at = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let normal = with(Priority::Normal);
    visitor.visit(Submit::epoch(function("f"), "w", at, normal).unwrap(), &created);
    let sum = || function("sum");
    visitor.visit(Submit::reduce(function("f"), "w", sum(), normal).unwrap(), &created);
    visitor.visit(Submit::reduce_background(function("f"), "w", sum(), normal).unwrap(), &created);
    visitor.visit(
        GetStatus("H:vm:1".parse().unwrap()),
        &[
            wire(PacketType::StatusRes, &["H:vm:1", "1", "1", "3", "4"]),
            // As the Perl and the Python servers answer for an unknown job.
            wire(PacketType::StatusRes, &["H:vm:1", "0", "0", "", ""]),
        ],
    );
    visitor.visit(
        GetStatusUnique(unique),
        &[wire(PacketType::StatusResUnique, &["u1", "1", "0", "0", "0", "7"])],
    );
    visitor.visit(
        Echo("a\0b"),
        &[
            wire(PacketType::EchoRes, &["a\0b"]),
            wire(PacketType::Error, &["SERVER_ERROR", "line one\nline two"]),
        ],
    );
    visitor.visit(
        SetExceptions,
        &[
            wire(PacketType::OptionRes, &["exceptions"]),
            wire(PacketType::OptionRes, &["EXCEPTIONS\0"]),
            wire(PacketType::Error, &["UNKNOWN_OPTION", "Server does not recognize given option"]),
        ],
    );
}

/// The outcome of a call, as text for comparing two calls.
pub(crate) fn shown<T: Debug>(outcome: &Result<T>) -> String {
    let text = match outcome {
        Ok(reply) => format!("{reply:?}"),
        Err(error) => format!("{:?} {:?} {error}", error.kind(), error.fate()),
    };
    // The number of the connection differs from one to the next.
    let mut shown = String::new();
    let mut rest = &text[..];
    while let Some(at) = rest.find("Epoch(") {
        let (before, behind) = rest.split_at(at);
        shown += before;
        rest = behind.split_once(')').map_or("", |(_, rest)| rest);
    }
    shown + rest
}
