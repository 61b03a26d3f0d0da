//! The layer that ends a job by the outcome of its task.

use std::{
    any::Any,
    error, fmt,
    marker::PhantomData,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use apalis_core::{error::BoxDynError, task::Task};
use futures_util::future::BoxFuture;
use queue_core::{contain, lock, panic_text};
use tower_layer::Layer;
use tower_service::Service;

/// How to leave the job of a task; each task has its own in its data.
pub trait Leave: Clone + Send + Sync + 'static {
    /// Leaves the job, unless it was ended: its task will have no outcome, because its worker was dropped.
    fn leave(&self);
}

/// How to end the job of a task that returns an `R`.
pub trait Settle<R>: Leave {
    /// Ends the job by the outcome of its task. A panic is an error of type [`Panicked`].
    fn settle<'a>(&'a self, ended: &'a Result<R, BoxDynError>) -> BoxFuture<'a, ()>;
}

/// Something that is used once, by the first clone that takes it.
pub struct Once<T>(Arc<Mutex<Option<T>>>);

impl<T> Once<T> {
    /// Of this value.
    pub fn new(value: T) -> Self {
        Once(Arc::new(Mutex::new(Some(value))))
    }

    /// The value, unless it was already taken.
    #[must_use]
    pub fn take(&self) -> Option<T> {
        lock(&self.0).take()
    }
}

impl<T> Clone for Once<T> {
    fn clone(&self) -> Self {
        Once(self.0.clone())
    }
}

impl<T> fmt::Debug for Once<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once").field("is_there", &lock(&self.0).is_some()).finish()
    }
}

/// The error of a task that panicked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panicked(String);

impl Panicked {
    fn of(panic: &(dyn Any + Send)) -> BoxDynError {
        Box::new(Panicked(panic_text(panic).to_owned()))
    }

    /// Its message.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the task panicked: {}", self.0)
    }
}

impl error::Error for Panicked {}

/// The outermost layer of a worker's services, which ends jobs by `S`, a [`Settle`]. It contains panics, so that a
/// panic fails its job and does not end the worker.
pub struct SettleLayer<S>(PhantomData<fn() -> S>);

impl<S> SettleLayer<S> {
    /// The layer.
    #[must_use]
    pub fn new() -> Self {
        SettleLayer(PhantomData)
    }
}

impl<S> Default for SettleLayer<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> Clone for SettleLayer<S> {
    fn clone(&self) -> Self {
        Self::new()
    }
}

impl<S> fmt::Debug for SettleLayer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SettleLayer").finish()
    }
}

impl<S, I> Layer<I> for SettleLayer<S> {
    type Service = SettleService<S, I>;

    fn layer(&self, inner: I) -> Self::Service {
        SettleService { inner, settle: PhantomData }
    }
}

/// The service of a [`SettleLayer`] around another.
pub struct SettleService<S, I> {
    inner: I,
    settle: PhantomData<fn() -> S>,
}

impl<S, I: fmt::Debug> fmt::Debug for SettleService<S, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SettleService").field("inner", &self.inner).finish()
    }
}

impl<S, I: Clone> Clone for SettleService<S, I> {
    fn clone(&self) -> Self {
        SettleService { inner: self.inner.clone(), settle: PhantomData }
    }
}

impl<S, I, A> Service<Task<A>> for SettleService<S, I>
where
    S: Settle<I::Response>,
    I: Service<Task<A>>,
    I::Response: Send + Sync + 'static,
    I::Error: Into<BoxDynError>,
    I::Future: Send + 'static,
{
    type Response = I::Response;
    type Error = BoxDynError;
    type Future = BoxFuture<'static, Result<I::Response, BoxDynError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxDynError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, task: Task<A>) -> Self::Future {
        let settle = Left(task.data().get::<S>().cloned());
        // The service has to deal with what a panic leaves half done in it.
        let running = catch_unwind(AssertUnwindSafe(|| self.inner.call(task)));
        Box::pin(async move {
            let ended = match running {
                Ok(running) => match contain(|| running).await {
                    Ok(ended) => ended.map_err(Into::into),
                    Err(panic) => Err(Panicked::of(&*panic)),
                },
                Err(panic) => Err(Panicked::of(&*panic)),
            };
            if let Some(settle) = &settle.0 {
                Settle::<I::Response>::settle(settle, &ended).await;
            }
            ended
        })
    }
}

/// Leaves a job when dropped, which has no effect on one that was ended.
struct Left<S: Leave>(Option<S>);

impl<S: Leave> Drop for Left<S> {
    fn drop(&mut self) {
        self.0.iter().for_each(S::leave);
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use apalis_core::task::builder::TaskBuilder;

    use super::*;

    /// Records what it was told.
    #[derive(Clone, Default)]
    struct Notes(Arc<Mutex<Vec<String>>>);

    impl Leave for Notes {
        fn leave(&self) {
            lock(&self.0).push("left".into());
        }
    }

    impl Settle<u32> for Notes {
        fn settle<'a>(&'a self, ended: &'a Result<u32, BoxDynError>) -> BoxFuture<'a, ()> {
            Box::pin(async move { lock(&self.0).push(format!("{ended:?}")) })
        }
    }

    /// The record of a service that is called by `run`.
    async fn noted<I>(service: I, is_dropped: bool) -> Vec<String>
    where
        I: Service<Task<u32>, Response = u32>,
        I::Error: Into<BoxDynError>,
        I::Future: Send + 'static,
    {
        let notes = Notes::default();
        let task = TaskBuilder::new(7).data(notes.clone()).build();
        let running = SettleLayer::<Notes>::new().layer(service).call(task);
        if is_dropped {
            drop(running);
        } else {
            let _ = running.await;
        }
        std::mem::take(&mut *lock(&notes.0))
    }

    /// A service of a function.
    struct Calls<F>(F);

    impl<F, T> Service<Task<u32>> for Calls<F>
    where
        F: FnMut(u32) -> T,
        T: Future<Output = Result<u32, Infallible>>,
    {
        type Response = u32;
        type Error = Infallible;
        type Future = T;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, task: Task<u32>) -> T {
            (self.0)(task.args)
        }
    }

    #[tokio::test]
    async fn the_task_settles_the_job_in_every_case() {
        let fine = Calls(|args| async move { Ok(args + 1) });
        assert_eq!(noted(fine, false).await, ["Ok(8)", "left"]);
        let later = Calls(|_| async { panic!("later") });
        assert_eq!(noted(later, false).await, ["Err(Panicked(\"later\"))", "left"]);
        let at_once = Calls(|_| -> std::future::Ready<_> { panic!("at once") });
        assert_eq!(noted(at_once, false).await, ["Err(Panicked(\"at once\"))", "left"]);
        let endless = Calls(|_| std::future::pending());
        assert_eq!(noted(endless, true).await, ["left"]);
    }
}
