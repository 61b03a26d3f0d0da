//! The channel through which jobs become tasks: an offered task waits until it is taken, or is withdrawn.

use std::{
    pin::{Pin, pin},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use apalis_core::worker::context::WorkerContext;
use queue_core::Signal;
use tokio::{sync::mpsc, time::sleep};

/// How often a pending offer checks whether the apalis worker stops, which informs a backend only once its tasks are
/// done.
const LOOK: Duration = Duration::from_millis(200);

/// The sending side: the worker of a client offers its jobs as tasks of type `T`.
///
/// Each offer is of a job that its worker holds, so the worker's slots bound their number.
#[derive(Debug)]
pub struct TaskSender<T> {
    offers: mpsc::UnboundedSender<Offer<T>>,
    worker: Arc<OnceLock<WorkerContext>>,
    closing: Arc<Signal>,
}

/// Why a task was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotTaken {
    /// The apalis worker stops, or has ended, so the job is for others.
    Stopped,
    /// It was no longer useful.
    InVain,
}

#[derive(Debug)]
struct Offer<T> {
    task: T,
    claim: Arc<Claim>,
}

/// Who has a task: whoever claims it first.
#[derive(Debug, Default)]
struct Claim {
    is_decided: AtomicBool,
    taken: Signal,
}

impl Claim {
    fn decide(&self) -> bool {
        !self.is_decided.swap(true, Ordering::SeqCst)
    }
}

/// The receiving side.
#[derive(Debug)]
pub(crate) struct TaskReceiver<T> {
    offers: mpsc::UnboundedReceiver<Offer<T>>,
}

/// Both sides of the channel to this apalis worker, which is set once it is known.
pub(crate) fn task_channel<T>(
    worker: Arc<OnceLock<WorkerContext>>,
    closing: Arc<Signal>,
) -> (TaskSender<T>, TaskReceiver<T>) {
    let (sender, offers) = mpsc::unbounded_channel();
    (TaskSender { offers: sender, worker, closing }, TaskReceiver { offers })
}

impl<T> TaskSender<T> {
    /// Offers a task, and waits until it is taken. A task that is not taken is withdrawn, so that it is never run.
    ///
    /// # Errors
    ///
    /// [`NotTaken`].
    ///
    /// # Cancel safety
    ///
    /// If dropped before it is ready, it withdraws the task, unless it has been taken.
    pub async fn offer(&self, task: T, in_vain: impl Future) -> Result<(), NotTaken> {
        let claim = Arc::<Claim>::default();
        if self.offers.send(Offer { task, claim: claim.clone() }).is_err() {
            return Err(NotTaken::Stopped);
        }
        let withdrawn = Withdrawn(claim.clone());
        let (mut taken, mut in_vain) = (pin!(claim.taken.wait()), pin!(in_vain));
        let mut stopping = pin!(self.stopping());
        let waited = std::future::poll_fn(|cx| {
            if taken.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Ok(()));
            }
            if in_vain.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Err(NotTaken::InVain));
            }
            stopping.as_mut().poll(cx).map(|()| Err(NotTaken::Stopped))
        })
        .await;
        // If it is taken at this very moment, it counts as taken.
        let is_withdrawn = withdrawn.0.decide();
        waited.or_else(|why| if is_withdrawn { Err(why) } else { Ok(()) })
    }

    /// Waits until the apalis worker stops, or has ended. A stop is noticed within a fifth of a second.
    ///
    /// # Cancel safety
    ///
    /// Dropping it does no harm.
    pub async fn stopping(&self) {
        let mut closing = pin!(self.closing.wait());
        loop {
            if self.worker.get().is_some_and(WorkerContext::is_shutting_down) {
                return;
            }
            let mut look = pin!(sleep(LOOK));
            let is_closing = std::future::poll_fn(|cx| {
                if closing.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(true);
                }
                look.as_mut().poll(cx).map(|()| false)
            });
            if is_closing.await {
                return;
            }
        }
    }
}

/// Withdraws an offer when dropped.
struct Withdrawn(Arc<Claim>);

impl Drop for Withdrawn {
    fn drop(&mut self) {
        let _ = self.0.decide();
    }
}

impl<T> TaskReceiver<T> {
    /// The next task; `None` when there will be none.
    pub(crate) fn poll_take(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        loop {
            match Pin::new(&mut self.offers).poll_recv(cx) {
                Poll::Ready(Some(offer)) if offer.claim.decide() => {
                    offer.claim.taken.set();
                    return Poll::Ready(Some(offer.task));
                }
                Poll::Ready(Some(_)) => {}
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Takes no more tasks.
    pub(crate) fn close(&mut self) {
        self.offers.close();
        while self.offers.try_recv().is_ok() {}
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    fn new() -> (TaskSender<u32>, TaskReceiver<u32>, Arc<Signal>) {
        let closing = Arc::<Signal>::default();
        let (tasks, offers) = task_channel(Arc::default(), closing.clone());
        (tasks, offers, closing)
    }

    async fn take(offers: &mut TaskReceiver<u32>) -> Option<u32> {
        std::future::poll_fn(|cx| offers.poll_take(cx)).await
    }

    #[tokio::test]
    async fn an_offer_waits_until_it_is_taken() {
        let (tasks, mut offers, _closing) = new();
        let offering = tokio::spawn(async move { tasks.offer(1, pending::<()>()).await });
        assert_eq!(take(&mut offers).await, Some(1));
        assert_eq!(offering.await.unwrap(), Ok(()));
        assert_eq!(take(&mut offers).await, None);
    }

    #[tokio::test]
    async fn a_withdrawn_offer_is_not_delivered() {
        let (tasks, mut offers, closing) = new();
        assert_eq!(tasks.offer(1, ready(())).await, Err(NotTaken::InVain));
        let mut dropped = Box::pin(tasks.offer(2, pending::<()>()));
        assert!(futures_util::poll!(dropped.as_mut()).is_pending());
        drop(dropped);
        closing.set();
        assert_eq!(tasks.offer(3, pending::<()>()).await, Err(NotTaken::Stopped));
        drop(tasks);
        assert_eq!(take(&mut offers).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn notices_that_the_worker_stopped() {
        let worker = Arc::<OnceLock<WorkerContext>>::default();
        let (tasks, _offers) = task_channel::<u32>(worker.clone(), Arc::default());
        let mut context = WorkerContext::new("a-test");
        context.start().unwrap();
        worker.set(context.clone()).unwrap();
        let offering = tokio::spawn(async move { tasks.offer(1, pending::<()>()).await });
        sleep(LOOK * 3).await;
        assert!(!offering.is_finished());
        context.stop().unwrap();
        assert_eq!(offering.await.unwrap(), Err(NotTaken::Stopped));
    }

    #[tokio::test]
    async fn a_closed_channel_accepts_nothing() {
        let (tasks, mut offers, _closing) = new();
        offers.close();
        assert_eq!(tasks.offer(1, pending::<()>()).await, Err(NotTaken::Stopped));
    }
}
