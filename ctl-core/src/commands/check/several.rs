//! A check of several servers, which is as bad as the worst of them.

use super::measured::{Measured, Metric};
use crate::error::CliError;
use crate::link::Link;
use crate::system::at_once::at_once;

/// Measures all servers at the same time: their figures describe the server, or a queue on it, and failed servers are
/// named. Also returns whether there are several. With only one server, or a wrong address, `own` is measured, which
/// then reports the error.
pub(super) fn measure_all<L: Link>(
    servers: Result<Vec<(String, L)>, CliError>,
    own: &mut L,
    measure: impl Fn(&mut L) -> Measured + Sync,
) -> (bool, Measured) {
    let servers = match servers {
        Ok(servers) if servers.len() > 1 => servers,
        _ => return (false, measure(own)),
    };
    let measured = at_once(servers, |(address, link)| (address.clone(), measure(link)));
    let mut all = Measured::default();
    let mut alive = Vec::new();
    for (address, Measured { metrics, failure, absent, known, .. }) in measured {
        if failure.is_none() {
            alive.push(address.clone());
        }
        all.known.extend(known);
        all.metrics.extend(
            metrics.into_iter().map(|metric| Metric { server: Some(address.clone()), ..metric }),
        );
        if let Some(mut error) = failure {
            error.message = error.at(&address);
            all.failure = Some(match all.failure.take() {
                Some(first) => first.remark(format!("and {}", error.message)),
                None => error,
            });
        }
        if let Some(why) = absent {
            let why = format!("{why} on {address}");
            all.absent = Some(all.absent.map_or(why.clone(), |first| format!("{first}, {why}")));
        }
    }
    // An alert also says what still works.
    if let (Some(failure), false) = (&mut all.failure, alive.is_empty()) {
        let verb = if alive.len() == 1 { "answers" } else { "answer" };
        failure.message.push_str(&format!("; {} {verb}", alive.join(", ")));
    }
    (true, all)
}
