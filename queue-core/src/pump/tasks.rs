//! The tasks of async workers.

use std::{
    future::poll_fn,
    mem,
    panic::resume_unwind,
    pin::pin,
    task::{Context, Poll, Waker},
};

use tokio::task::{AbortHandle, JoinError, JoinSet, spawn, spawn_blocking};

use crate::{lock, sync::Mutex};

/// Waits until all tasks have ended. Calls `on_stop`, which asks them to, as soon as `stop` is ready.
///
/// # Cancel safety
///
/// Dropping it leaves the tasks running.
pub async fn join_until(tasks: &mut JoinSet<()>, stop: impl Future, on_stop: impl FnOnce()) {
    let (mut stop, mut on_stop) = (pin!(stop), Some(on_stop));
    poll_fn(|cx| {
        if on_stop.is_some() && stop.as_mut().poll(cx).is_ready() {
            on_stop.take().into_iter().for_each(|on_stop| on_stop());
        }
        loop {
            match tasks.poll_join_next(cx) {
                Poll::Ready(Some(_)) => {}
                other => return other.map(|_| ()),
            }
        }
    })
    .await;
}

/// Runs a blocking step on tokio's blocking thread pool; `None` if the runtime shuts down before it starts.
///
/// # Panics
///
/// When `step` does.
pub async fn in_thread<T: Send + 'static>(step: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    match spawn_blocking(step).await.map_err(JoinError::try_into_panic) {
        Ok(done) => Some(done),
        Err(Ok(panic)) => resume_unwind(panic),
        Err(Err(_)) => None,
    }
}

/// The tasks of handlers, which end when this is [closed](Self::close) or dropped.
#[derive(Debug, Default)]
pub struct HandlerTasks(Mutex<Tasks>);

#[derive(Debug, Default)]
struct Tasks {
    /// Includes some that have ended.
    running: Vec<AbortHandle>,
    is_closed: bool,
}

impl HandlerTasks {
    /// Runs a handler in its own task, unless it has proved quick and ends at once.
    pub fn start(&self, is_quick: bool, handler: impl Future<Output = ()> + Send + 'static) {
        if lock(&self.0).is_closed {
            return;
        }
        let mut handler = Box::pin(handler);
        let mut cx = Context::from_waker(Waker::noop());
        if is_quick && handler.as_mut().poll(&mut cx).is_ready() {
            return;
        }
        // Outside the lock, because a runtime that is shutting down drops the handler at once.
        let task = spawn(handler).abort_handle();
        let mut tasks = lock(&self.0);
        if tasks.is_closed {
            drop(tasks);
            return task.abort();
        }
        tasks.add(task);
    }

    /// Ends running handlers at their next await, and starts no more.
    pub fn close(&self) {
        let mut tasks = lock(&self.0);
        tasks.is_closed = true;
        let running = mem::take(&mut tasks.running);
        drop(tasks);
        running.iter().for_each(AbortHandle::abort);
    }
}

impl Drop for HandlerTasks {
    fn drop(&mut self) {
        self.close();
    }
}

impl Tasks {
    fn add(&mut self, task: AbortHandle) {
        if self.running.len() == self.running.capacity() {
            self.running.retain(|task| !task.is_finished());
            // At least as many tasks are added before the next time.
            self.running.reserve(self.running.len().max(8));
        }
        self.running.push(task);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::{pending, ready},
        sync::Arc,
    };

    use tokio::{runtime::Builder, sync::oneshot, task::yield_now};

    use super::*;

    /// Starts another handler when it is dropped.
    struct StartsAnother(Arc<HandlerTasks>);

    impl Drop for StartsAnother {
        fn drop(&mut self) {
            self.0.start(false, ready(()));
        }
    }

    #[test]
    fn a_quick_handler_that_ends_at_once_needs_no_task() {
        let (tasks, (ended, mut has_ended)) = (HandlerTasks::default(), oneshot::channel());
        // A task could not be started here: there is no runtime.
        tasks.start(true, async { ended.send(()).unwrap() });
        assert_eq!(has_ended.try_recv(), Ok(()));
    }

    #[tokio::test]
    async fn a_quick_handler_that_waits_continues_in_a_task() {
        let (tasks, (ended, has_ended)) = (HandlerTasks::default(), oneshot::channel());
        tasks.start(true, async {
            yield_now().await;
            ended.send(()).unwrap();
        });
        assert_eq!(has_ended.await, Ok(()));
    }

    #[tokio::test]
    async fn closing_or_dropping_ends_running_handlers() {
        for is_dropped in [false, true] {
            let (tasks, (held, is_held)) = (HandlerTasks::default(), oneshot::channel::<()>());
            tasks.start(false, async {
                let _held = held;
                pending::<()>().await;
            });
            yield_now().await;
            let closed = if is_dropped {
                drop(tasks);
                None
            } else {
                Some(tasks).inspect(HandlerTasks::close)
            };
            assert!(is_held.await.is_err());
            drop(closed);
        }
    }

    #[tokio::test]
    async fn a_closed_set_runs_no_handler() {
        let tasks = HandlerTasks::default();
        tasks.close();
        for is_quick in [false, true] {
            let (started, has_started) = oneshot::channel();
            tasks.start(is_quick, async { started.send(()).unwrap() });
            assert!(has_started.await.is_err());
        }
    }

    #[tokio::test]
    async fn handles_of_ended_tasks_do_not_pile_up() {
        let tasks = HandlerTasks::default();
        for _ in 0..100 {
            let (ended, has_ended) = oneshot::channel();
            tasks.start(false, async { ended.send(()).unwrap() });
            has_ended.await.unwrap();
        }
        assert!(lock(&tasks.0).running.len() < 20);
    }

    #[test]
    fn a_runtime_that_shuts_down_drops_handlers_outside_the_lock() {
        let runtime = Builder::new_current_thread().build().unwrap();
        let handle = runtime.handle().clone();
        drop(runtime);
        let _entered = handle.enter();
        let tasks = Arc::new(HandlerTasks::default());
        let dropped = StartsAnother(tasks.clone());
        tasks.start(false, async {
            let _dropped = dropped;
            pending::<()>().await;
        });
        assert_eq!(Arc::strong_count(&tasks), 1);
    }
}
