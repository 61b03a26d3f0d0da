//! Pipelined puts from one thread.

use std::{collections::VecDeque, fmt, iter::Fuse};

use queue_core::{BatchOperation, Operation};

use super::{Producer, Receipt};
use crate::{Error, Inserted, PutOptions, Result, TubeName, protocol::Put, trace};

const WINDOW: usize = 256;

impl Producer {
    /// Puts many jobs into one tube without waiting for each answer, and returns the answers in order.
    ///
    /// The iterator is lazy: it takes bodies as the window (256 puts in flight, see [`window`](PutMany::window)) has
    /// room, and writes many of them at once. It yields exactly one result for each body taken. Dropping it early is
    /// allowed: the puts already taken are still carried out.
    ///
    /// ```
    /// # let server = fixtures::beanstalkd::Server::start()?;
    /// # let address = server.address();
    /// use beanstalk_client::{PutOptions, blocking::Producer};
    ///
    /// let producer = Producer::connect(address)?;
    /// let bodies = (0..1000).map(|n| format!("job {n}"));
    /// for inserted in producer.put_many("mail", bodies, PutOptions::default())? {
    ///     assert!(!inserted?.is_buried());
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
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

    /// Takes bodies once half of the window is free, so that many go out in one write while the server works on the
    /// other half.
    fn fill(&mut self) {
        if self.under_way.len() > self.window / 2 {
            return;
        }
        while self.under_way.len() < self.window
            && let Some(body) = self.bodies.next()
        {
            self.batch.takes(1);
            let accepted = Put::new(body, self.options)
                .and_then(|put| self.producer.accept(&self.tube, &put, Operation::none()));
            self.under_way.push_back(accepted);
        }
    }
}

impl<I> Iterator for PutMany<'_, I>
where
    I: Iterator<Item: AsRef<[u8]>>,
{
    type Item = Result<Inserted>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batch.begin(|| self.producer.handle.shared.outbox.puts(&self.tube));
        let span = self.batch.span();
        let answer = span.run(|| {
            self.fill();
            Some(self.under_way.pop_front()?.and_then(Receipt::wait))
        })?;
        self.batch.sent(trace::failure(&answer));
        Some(answer)
    }
}

impl<I: Iterator> Drop for PutMany<'_, I> {
    /// Writes the puts without a waiter.
    fn drop(&mut self) {
        if !std::mem::take(&mut self.under_way).is_empty() {
            self.producer.handle.shared.push();
        }
    }
}

impl<I: Iterator> fmt::Debug for PutMany<'_, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PutMany").field("tube", &self.tube).finish_non_exhaustive()
    }
}
