//! One or more servers.

use crate::{ConnectOptions, Error, ErrorKind, Fate, Selection, address::Beanstalkd};

/// The servers of a producer or a worker.
///
/// beanstalkd has no clustering: each server is a separate queue, and clients choose. A producer puts each job on one
/// of them; a worker serves all. Created from one [`ConnectOptions`], an [`Address`](crate::Address), a list of them,
/// or comma-separated addresses:
///
/// ```
/// use std::time::Duration;
/// use beanstalk_client::{Selection, Servers};
///
/// let servers: Servers = "one:11300,two:11300".parse()?;
/// let servers = servers.selection(Selection::RoundRobin).each(|server| server.reply_timeout(Duration::from_secs(2)));
/// # Ok::<(), beanstalk_client::Error>(())
/// ```
///
/// Its methods: [`new`](queue_core::Servers::new), [`selection`](queue_core::Servers::selection),
/// [`selected`](queue_core::Servers::selected), [`each`](queue_core::Servers::each),
/// [`addresses`](queue_core::Servers::addresses), [`options`](queue_core::Servers::options) and
/// [`check`](queue_core::Servers::check).
pub type Servers = queue_core::Servers<ConnectOptions>;

impl queue_core::OneServer for ConnectOptions {
    type System = Beanstalkd;
    type Selection = Selection;
}

/// The error of the only server, or one that names all of them and why; `None` without an error.
pub(crate) fn none_can_be_reached(errors: Vec<Error>, command: &'static str) -> Option<Error> {
    let all = queue_core::failure_of_all(errors, |_, each| {
        let what = "none of the servers can be reached";
        Error::new(ErrorKind::Connect, Fate::NotSent, what).with_detail(each)
    })?;
    Some(all.with_command(command))
}
