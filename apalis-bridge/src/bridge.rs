//! Hands the tasks of a client's worker to an apalis worker.

use std::{
    sync::{Arc, OnceLock},
    task::{Context, Poll, ready},
};

use apalis_core::worker::context::WorkerContext;
use queue_core::Signal;
use tokio::{runtime::Handle, task::JoinHandle};

use crate::{
    Error, TaskSender,
    task_channel::{TaskReceiver, task_channel},
};

/// A client's worker in its own task, and the tasks of type `T` that it offers.
///
/// The worker keeps its jobs alive whether or not the apalis worker is polled, and however long its service is not
/// ready. Dropping it ends the worker: its jobs go back to the servers.
#[derive(Debug)]
pub struct Bridge<T> {
    worker: Arc<OnceLock<WorkerContext>>,
    closing: Arc<Signal>,
    running: Option<Running<T>>,
}

#[derive(Debug)]
struct Running<T> {
    offers: TaskReceiver<T>,
    driver: JoinHandle<()>,
}

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl<T> Default for Bridge<T> {
    fn default() -> Self {
        Bridge { worker: Arc::default(), closing: Arc::default(), running: None }
    }
}

impl<T: Send + 'static> Bridge<T> {
    /// The apalis worker that takes the tasks.
    pub fn set_worker(&self, worker: &WorkerContext) {
        // A backend has one worker.
        let _ = self.worker.set(worker.clone());
    }

    /// Starts the client's worker, once: the future from `drive` runs in a task. It ends soon after [`TaskSender::stopping`]
    /// is ready, and by then has given back what was not taken.
    ///
    /// # Errors
    ///
    /// `NoRuntime`, and those of `drive`.
    pub fn start<E, F>(
        &mut self,
        drive: impl FnOnce(TaskSender<T>) -> Result<F, Error<E>>,
    ) -> Result<(), Error<E>>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        if self.running.is_none() {
            let runtime = Handle::try_current().map_err(|_| Error::NoRuntime)?;
            let (tasks, offers) = task_channel(self.worker.clone(), self.closing.clone());
            let driver = runtime.spawn(drive(tasks)?);
            self.running = Some(Running { offers, driver });
        }
        Ok(())
    }

    /// The next task; `None` if the worker has ended on its own, or was never started.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        match &mut self.running {
            Some(running) => running.offers.poll_take(cx),
            None => Poll::Ready(None),
        }
    }

    /// Stops the client's worker, and waits for its end; by then, the decisions of tasks have reached the servers.
    pub fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.closing.set();
        if let Some(running) = &mut self.running {
            running.offers.close();
            // A worker that panicked has ended, too.
            let _ = ready!(std::pin::Pin::new(&mut running.driver).poll(cx));
            self.running = None;
        }
        Poll::Ready(())
    }
}
