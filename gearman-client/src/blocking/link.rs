//! The connection to one server, which is made again when it is lost.

use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use queue_core::{WRITE_STEP, blocking::Transport, now};

use crate::{
    Address, ConnectOptions, ConnectionState, Deadline, Error, ErrorKind, Fate, Metrics, Origin,
    Result,
    deadline::Limit,
    error::{closed, lost},
    protocol::{
        Backoff, Decoder, Delivery, Lost, Magic, PacketType, Request, Session,
        client::{Inbox, Mail},
        request::refusal,
    },
    trace,
};

/// The client role towards one server.
pub(super) struct Link {
    pub(super) options: ConnectOptions,
    address: Arc<Address>,
    transport: Option<Transport>,
    session: Session<u64>,
    decoder: Decoder,
    /// What came and was not asked for yet.
    inbox: Inbox<u64>,
    can_reconnect: bool,
    backoff: Backoff,
    /// Connections made or tried since the last healthy exchange.
    unproven: u32,
    /// Not to be tried before.
    quarantine: Option<Instant>,
    used_at: Instant,
    /// Since when the oldest request in flight is the oldest.
    head_since: Instant,
    /// It was told that the server passes on the packets of workers as they came.
    is_noted: bool,
}

/// After so long without use, the connection is looked at before it is used again.
const IDLE: Duration = Duration::from_secs(1);

/// How long a write may be stuck before the link looks for packets: server and client must not both wait for the
/// other to read.
const STUCK: Duration = Duration::from_millis(10);

/// How often the link reads before it judges that an answer is overdue.
const MAX_READS: usize = 64;

impl Link {
    pub(super) fn new(options: ConnectOptions) -> Self {
        let address = Arc::new(options.address.clone());
        Link {
            session: Session::new(address.clone()),
            address,
            transport: None,
            decoder: Decoder::new(Magic::Response, options.max_packet_size),
            inbox: Inbox::default(),
            can_reconnect: true,
            backoff: options.retry.delays(),
            unproven: 0,
            quarantine: None,
            used_at: now(),
            head_since: now(),
            is_noted: false,
            options,
        }
    }

    /// Uses a stream that is connected, and no other.
    pub(super) fn over(transport: Transport, options: ConnectOptions) -> Self {
        let mut link = Link::new(options);
        link.can_reconnect = false;
        link.transport = Some(transport);
        link.greet();
        link
    }

    pub(super) fn origin(&self) -> &Origin {
        self.session.origin()
    }

    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    pub(super) fn is_connected(&self) -> bool {
        self.transport.is_some()
    }

    pub(super) fn connection_state(&self) -> ConnectionState {
        match self.quarantine() {
            _ if self.is_connected() => ConnectionState::Ready,
            _ if !self.can_reconnect => ConnectionState::Closed,
            Some(_) => ConnectionState::Backoff,
            None => ConnectionState::Idle,
        }
    }

    pub(super) fn metrics(&self) -> &Metrics {
        self.session.metrics()
    }

    /// How long the server is not to be tried yet.
    pub(super) fn quarantine(&self) -> Option<Duration> {
        let left = self.quarantine?.checked_duration_since(now())?;
        (!left.is_zero() && !self.is_connected()).then_some(left)
    }

    /// Makes sure that there is a connection, with one attempt to make one.
    pub(super) fn make_ready(&mut self, total: Limit) -> Result<()> {
        let idle_since = std::mem::replace(&mut self.used_at, now());
        if self.used_at.duration_since(idle_since) > IDLE {
            self.check();
        }
        if self.is_connected() {
            return Ok(());
        }
        self.connect(total)
    }

    /// Looks, without waiting, whether the server has closed the connection while nobody used it.
    pub(super) fn check(&mut self) {
        if self.transport.as_mut().is_some_and(Transport::is_stale) {
            // A server may also have sent something; only the end of the stream ends the connection.
            self.look();
        }
    }

    /// Reads once what is there, without waiting.
    pub(super) fn look(&mut self) {
        if let Err(error) = self.glance() {
            self.fail(error);
        }
    }

    /// Whether something was there.
    fn glance(&mut self) -> Result<bool> {
        let has_read =
            self.read_once(Limit::of(Deadline::Reply, Some(Duration::from_millis(1))))?;
        self.sort()?;
        Ok(has_read)
    }

    /// Connects now, whatever there was before.
    pub(super) fn connect(&mut self, total: Limit) -> Result<()> {
        self.close();
        if !self.can_reconnect {
            let why = "the connection is closed, and this client has only the stream it was given";
            return Err(Error::new(ErrorKind::ConnectionLost, Fate::NotSent, why));
        }
        let limit = self.options.connect_limit(total);
        self.unproven = self.unproven.saturating_add(1);
        let outcome = self.options.connect_blocking(limit).map(|transport| {
            self.transport = Some(transport);
            self.greet();
        });
        if outcome.is_err() || self.unproven > 1 {
            let delay = self.backoff.next_delay();
            trace::backing_off(&self.address, delay);
            self.quarantine = now().checked_add(delay);
        }
        outcome
    }

    /// Starts the session of a new connection. What it asks for goes out with the first request.
    fn greet(&mut self) {
        let mut session = Session::new(self.address.clone());
        session.follow(self.session.metrics());
        if self.options.exceptions {
            session.ask_for_exceptions();
        }
        self.session = session;
        self.decoder = Decoder::new(Magic::Response, self.options.max_packet_size);
    }

    /// Sends a request and waits for its answer, with one attempt to connect.
    pub(super) fn call<R: Request>(
        &mut self,
        request: &R,
        token: u64,
        total: Limit,
    ) -> Result<R::Reply> {
        let outcome = self.make_ready(total).and_then(|()| {
            self.send(request, token);
            // A failure to write comes as mail, with what became of this request.
            let _ = self.flush(total);
            let mail = self.wait_for(token, total)?;
            self.decode(request, mail)
        });
        outcome.map_err(|error| error.with_command(request.packet_type().name()))
    }

    /// The answer to a request, read. One that cannot be its answer ends the connection.
    pub(super) fn decode<R: Request>(&mut self, request: &R, mail: Mail) -> Result<R::Reply> {
        match mail {
            Mail::Answer(packet) if packet.packet_type == PacketType::Error => {
                trace::answer(&self.address, &packet);
                Err(refusal(&packet))
            }
            Mail::Answer(packet) => {
                trace::answer(&self.address, &packet);
                request.decode(packet, self.session.origin()).inspect_err(|error| {
                    self.fail(error.share());
                })
            }
            Mail::Lost(error) => Err(error),
            Mail::Event(_) => Err(Error::protocol("an event came before its job was created")),
        }
    }

    /// Waits for mail; what is for somebody else is of callers that have gone.
    pub(super) fn wait_for(&mut self, token: u64, limit: Limit) -> Result<Mail> {
        loop {
            // Whatever else arrives. What came in time is still given.
            if self.inbox.len() == 0 && limit.has_passed() {
                return Err(limit.error().with_fate(Fate::Unknown));
            }
            match self.next(limit) {
                Ok((to, mail)) if to == token => return Ok(mail),
                Ok(_) => {}
                // The answer is still to come, and will be passed over.
                Err(error) => return Err(error.with_fate(Fate::Unknown)),
            }
        }
    }

    /// Queues a request.
    pub(super) fn send<R: Request>(&mut self, request: &R, token: u64) {
        self.session.send(request, token);
    }

    /// How many bytes wait to be written.
    pub(super) fn outgoing(&self) -> usize {
        self.session.outgoing().len()
    }

    /// Writes everything that is queued. A failure reaches the waiters as mail.
    pub(super) fn flush(&mut self, total: Limit) -> Result<()> {
        while self.has_output() {
            let limit = self.options.write_limit(total);
            let goal = self.outgoing().saturating_sub(WRITE_STEP);
            if let Err(error) = self.write_down_to(goal, limit) {
                self.fail(error.share());
                return Err(error);
            }
        }
        Ok(())
    }

    fn has_output(&self) -> bool {
        self.outgoing() > 0 || self.transport.as_ref().is_some_and(|stream| !stream.is_flushed())
    }

    /// Writes until no more than `goal` bytes are left.
    fn write_down_to(&mut self, goal: usize, limit: Limit) -> Result<()> {
        while self.outgoing() > goal || (goal == 0 && self.has_output()) {
            // Also when a little is taken all the time.
            if limit.has_passed() {
                return Err(limit.error());
            }
            self.write_some(limit)?;
        }
        Ok(())
    }

    /// Writes some; or reads, while writing is stuck.
    fn write_some(&mut self, limit: Limit) -> Result<()> {
        let stuck = limit.shorter(STUCK);
        let Some(transport) = &mut self.transport else { return Err(lost(closed())) };
        if let Some(n) = transport.write(self.session.outgoing(), stuck).map_err(lost)? {
            let was_waiting = self.session.is_waiting();
            self.session.sent(n);
            if !was_waiting {
                self.head_since = now();
            }
            return Ok(());
        }
        self.glance().map(drop)
    }

    /// The next thing for anybody who waits. A failure of the connection comes as mail for each of them.
    ///
    /// # Errors
    ///
    /// When `limit` has passed, or nobody waits on a connection that is lost. The link is as it was.
    pub(super) fn next(&mut self, limit: Limit) -> Result<(u64, Mail)> {
        let mut has_read = false;
        loop {
            if let Some(mail) = self.inbox.pop() {
                return Ok(mail);
            }
            if !self.is_connected() {
                return Err(lost(closed()));
            }
            // Also when something for nobody comes all the time.
            if std::mem::replace(&mut has_read, true) && limit.has_passed() {
                return Err(limit.error());
            }
            let reply = self.reply_limit();
            if reply.has_passed() {
                if let Err(error) = self.catch_up() {
                    self.fail(error);
                }
                continue;
            }
            match self.read_once(limit.sooner(reply)) {
                Ok(true) => {
                    if let Err(error) = self.sort() {
                        self.fail(error);
                    }
                }
                Ok(false) if reply.has_passed() => {}
                Ok(false) if limit.has_passed() => return Err(limit.error()),
                Ok(false) => {}
                Err(error) => self.fail(error),
            }
        }
    }

    fn reply_limit(&self) -> Limit {
        if !self.session.is_waiting() {
            return Limit::never();
        }
        let waited = now().saturating_duration_since(self.head_since);
        Limit::of(Deadline::Reply, Some(self.options.reply_timeout.saturating_sub(waited)))
    }

    /// An answer is overdue. It may be here: nobody has read while the caller went through what came before.
    ///
    /// # Errors
    ///
    /// When it is not. An answer that does not come whole in time leaves the order of the answers in doubt.
    fn catch_up(&mut self) -> Result<()> {
        for _ in 0..MAX_READS {
            let has_read = self.glance()?;
            if !self.reply_limit().has_passed() {
                return Ok(());
            }
            if !has_read {
                break;
            }
        }
        Err(self.reply_limit().error())
    }

    /// Reads what is there; `false` when nothing came until the limit.
    fn read_once(&mut self, limit: Limit) -> Result<bool> {
        let Some(transport) = &mut self.transport else { return Err(lost(closed())) };
        match transport.read(self.decoder.space(), limit).map_err(lost)? {
            Some(0) => Err(lost(io::ErrorKind::UnexpectedEof.into())),
            Some(n) => {
                self.decoder.received(n);
                self.session.note_read(n);
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// Sorts the packets that were read.
    fn sort(&mut self) -> Result<()> {
        let now = now();
        while let Some(packet) = self.decoder.next()? {
            trace::magic(&self.address, &packet, &mut self.is_noted);
            match self.session.accept(packet)? {
                Delivery::Answer(token, packet) | Delivery::Created(token, packet) => {
                    self.head_since = now;
                    self.prove();
                    self.inbox.put(token, Mail::Answer(packet));
                }
                Delivery::Event(token, event) if event.is_last() => {
                    self.inbox.put_last(token, Mail::Event(event));
                }
                Delivery::Event(token, event) => {
                    self.inbox.put_event(token, event, self.options.max_backlog);
                }
                Delivery::Nobody => {}
            }
        }
        Ok(())
    }

    /// A complete exchange: the server is alive, so the next reconnect need not back off.
    fn prove(&mut self) {
        if self.unproven > 0 {
            self.unproven = 0;
            self.quarantine = None;
            self.backoff.reset();
        }
    }

    /// The connection is lost: everybody who waits is told.
    pub(super) fn fail(&mut self, error: Error) {
        if self.transport.take().is_some() {
            trace::lost(&self.address, &error);
        }
        for Lost { waiter, fate, request, handle } in self.session.close() {
            let mut told = error.share().with_fate(fate).with_command(request);
            if let Some(handle) = handle {
                told = told.with_handle(handle);
            }
            self.inbox.put_last(waiter, Mail::Lost(told));
        }
    }

    /// Closes. Nobody waits for an answer any more; what was told to others stays for them.
    fn close(&mut self) {
        self.transport = None;
        self.session.close();
    }
}
