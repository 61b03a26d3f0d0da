//! Decides a job by the outcome of its task.

use std::any::Any;

use apalis_bridge::{Leave, Once, Settle};
use apalis_core::error::{AbortError, BoxDynError, DeferredError, RetryAfterError};
use beanstalk_client::{Decision, Outcome};
use futures_util::future::BoxFuture;
use tokio::sync::oneshot;

/// The end of a task's reservation, in the data of the task; for the backend's own layer.
#[derive(Clone, Debug)]
pub struct Reservation(Once<oneshot::Sender<Decision>>);

impl Reservation {
    /// A reservation, and its decision; none if it is left.
    pub(crate) fn new() -> (Self, oneshot::Receiver<Decision>) {
        let (sender, decided) = oneshot::channel();
        (Reservation(Once::new(sender)), decided)
    }
}

impl Leave for Reservation {
    fn leave(&self) {
        drop(self.0.take());
    }
}

impl<R: Send + Sync + 'static> Settle<R> for Reservation {
    fn settle<'a>(&'a self, ended: &'a Result<R, BoxDynError>) -> BoxFuture<'a, ()> {
        if let Some(sender) = self.0.take() {
            // If nobody waits for it, the worker has ended.
            let _ = sender.send(decision(ended));
        }
        Box::pin(std::future::ready(()))
    }
}

fn decision<R: 'static>(ended: &Result<R, BoxDynError>) -> Decision {
    match ended {
        Ok(value) => {
            let value: &dyn Any = value;
            value.downcast_ref::<Decision>().cloned().unwrap_or_else(|| {
                value.downcast_ref::<Outcome>().copied().unwrap_or(Outcome::Delete).into()
            })
        }
        Err(error) => outcome(error).because(format!("{error:#}")),
    }
}

/// The decision for apalis's own errors; any other error is a failure.
fn outcome(error: &BoxDynError) -> Outcome {
    if error.is::<AbortError>() {
        Outcome::bury()
    } else if error.is::<DeferredError>() {
        Outcome::release()
    } else if let Some(later) = error.downcast_ref::<RetryAfterError>() {
        Outcome::retry_after(later.get_duration())
    } else {
        Outcome::Retry
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_task_settles_by_its_value_or_error() {
        assert_eq!(decision(&Ok(7)).outcome, Outcome::Delete);
        assert_eq!(decision(&Ok(Outcome::bury())).outcome, Outcome::bury());
        let busy = Outcome::release().because("busy");
        assert_eq!(decision(&Ok(busy.clone())), busy);
        let later = RetryAfterError::new("later", Duration::from_secs(9));
        for (error, outcome) in [
            (BoxDynError::from("bad"), Outcome::Retry),
            (AbortError::new("never").into(), Outcome::bury()),
            (DeferredError::new("again").into(), Outcome::release()),
            (later.into(), Outcome::retry_after(Duration::from_secs(9))),
        ] {
            let text = error.to_string();
            assert_eq!(decision(&Err::<(), _>(error)), outcome.because(text));
        }
    }
}
