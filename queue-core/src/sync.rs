//! Locks, condition variables and threads of the clients: the standard library's. A build with `--cfg shuttle` takes
//! those of a model checker instead, which runs the blocking faces through many schedules
//! (the package `interleavings`).

#[cfg(shuttle)]
pub(crate) mod model;

#[cfg(shuttle)]
pub use self::model::{Condvar, Mutex, MutexGuard, thread};
#[cfg(shuttle)]
pub use shuttle::{sync::atomic, thread_local};
#[cfg(not(shuttle))]
pub use std::{
    sync::{Condvar, Mutex, MutexGuard, atomic},
    thread, thread_local,
};

use std::io;

/// Starts a detached thread.
///
/// # Errors
///
/// The operating system has no room for a thread.
pub fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    #[cfg(not(shuttle))]
    thread::Builder::new().name(name.to_owned()).spawn(work)?;
    #[cfg(shuttle)]
    {
        let _ = name;
        shuttle::thread::spawn(work);
    }
    Ok(())
}

/// Starts a thread of this scope, with a name where threads have one.
///
/// # Errors
///
/// The operating system has no room for a thread.
pub fn spawn_scoped<'scope, 'env, T: Send + 'scope>(
    scope: &'scope thread::Scope<'scope, 'env>,
    name: Option<&str>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<thread::ScopedJoinHandle<'scope, T>> {
    #[cfg(not(shuttle))]
    {
        let builder = thread::Builder::new();
        match name {
            Some(name) => builder.name(name.to_owned()),
            None => builder,
        }
        .spawn_scoped(scope, work)
    }
    #[cfg(shuttle)]
    {
        let _ = name;
        Ok(scope.spawn(work))
    }
}
