//! Pipelined puts from one task.

use std::{collections::VecDeque, fmt, future::poll_fn, iter::Fuse};

use queue_core::{BatchOperation, Operation};

use super::{Producer, Receipt, call::PutCall};
use crate::{Error, Inserted, PutOptions, Result, TubeName, protocol::Put, trace};

const WINDOW: usize = 256;

impl Producer {
    /// Puts many jobs into one tube without waiting for each answer, and returns the answers in order.
    ///
    /// It is lazy: it takes bodies as the window (256 puts in flight, see [`window`](PutMany::window)) has room, and
    /// writes many of them at once. It yields exactly one result for each body taken. Dropping it early is allowed:
    /// puts already taken are still carried out.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = fixtures::beanstalkd::Server::start()?;
    /// # let address = server.address();
    /// use beanstalk_client::{Producer, PutOptions};
    ///
    /// let producer = Producer::connect(address).await?;
    /// let bodies = (0..1000).map(|n| format!("job {n}"));
    /// let mut answers = producer.put_many("mail", bodies, PutOptions::default())?;
    /// while let Some(inserted) = answers.next().await {
    ///     assert!(!inserted?.is_buried());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid tube name.
    pub fn put_many<T, I>(
        &self,
        tube: T,
        bodies: I,
        options: PutOptions,
    ) -> Result<PutMany<'_, I::IntoIter>>
    where
        T: TryInto<TubeName>,
        Error: From<T::Error>,
        I: IntoIterator<Item: AsRef<[u8]>>,
    {
        Ok(PutMany {
            producer: self,
            tube: tube.try_into()?,
            bodies: bodies.into_iter().fuse(),
            options,
            window: WINDOW,
            under_way: VecDeque::new(),
            waiting: None,
            batch: BatchOperation::new(),
        })
    }
}

/// The answers to many puts, in order. See [`Producer::put_many`].
#[must_use = "nothing is put until the replies are requested"]
pub struct PutMany<'a, I: Iterator> {
    producer: &'a Producer,
    tube: TubeName,
    bodies: Fuse<I>,
    options: PutOptions,
    window: usize,
    under_way: VecDeque<Result<Receipt>>,
    /// The put that waits for room while other callers fill the queue.
    waiting: Option<Put<I::Item>>,
    batch: BatchOperation,
}

impl<I> PutMany<'_, I>
where
    I: Iterator<Item: AsRef<[u8]>>,
{
    /// Maximum number of puts in flight; at least 1.
    pub fn window(mut self, puts: usize) -> Self {
        self.window = puts.max(1);
        self
    }

    /// The next answer; `None` after the last one.
    ///
    /// # Errors
    ///
    /// Each result is that of its own put; see [`Producer::put`].
    ///
    /// # Cancel safety
    ///
    /// A dropped `next` loses nothing: the next call returns the answer.
    pub async fn next(&mut self) -> Option<Result<Inserted>> {
        self.batch.begin(|| self.producer.handle.shared.puts(&self.tube));
        let span = self.batch.span();
        let answer = span.follow(self.next_answer()).await?;
        self.batch.sent(trace::failure(&answer));
        Some(answer)
    }

    async fn next_answer(&mut self) -> Option<Result<Inserted>> {
        loop {
            self.fill();
            if let Some(oldest) = self.under_way.front_mut() {
                let answer = match oldest {
                    Ok(receipt) => Some(receipt.await),
                    Err(_) => None,
                };
                let oldest = self.under_way.pop_front()?;
                return answer.or_else(|| oldest.err().map(Err));
            }
            // Other callers fill the queue.
            let put = self.waiting.as_ref()?;
            let mut call = PutCall::new(&self.producer.handle.shared, &self.producer.policy);
            let room = poll_fn(|cx| call.poll_room(&self.tube, put, cx)).await;
            self.under_way.push_back(room.map(|()| self.producer.receipt(call, Operation::none())));
            self.waiting = None;
        }
    }

    /// Takes bodies once half of the window is free, so that many go out in one write while the server works on the
    /// other half.
    fn fill(&mut self) {
        if self.under_way.len() > self.window / 2 {
            return;
        }
        while self.under_way.len() < self.window {
            let put = match self.waiting.take() {
                Some(put) => Ok(put),
                None => match self.bodies.next() {
                    Some(body) => {
                        self.batch.takes(1);
                        Put::new(body, self.options)
                    }
                    None => return,
                },
            };
            let entered = put.and_then(|put| {
                let mut call = PutCall::new(&self.producer.handle.shared, &self.producer.policy);
                let is_in = call.try_enter(&self.tube, &put)?;
                let receipt = |call| self.producer.receipt(call, Operation::none());
                Ok(if is_in { Ok(receipt(call)) } else { Err(put) })
            });
            match entered {
                Ok(Ok(receipt)) => self.under_way.push_back(Ok(receipt)),
                Ok(Err(put)) => {
                    self.waiting = Some(put);
                    return;
                }
                Err(error) => self.under_way.push_back(Err(error)),
            }
        }
    }
}

impl<I: Iterator> fmt::Debug for PutMany<'_, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PutMany").field("tube", &self.tube).finish_non_exhaustive()
    }
}
