//! How bytes move between clients and the server, and what the network does to them.

use std::{hash::Hash, task::Waker, time::Duration};

use fixtures::offline::{End, Received};
use tokio::time::Instant;

use super::{Cut, Down, Inner, Kind, Lane, SLOWEST, Up};

impl<T> Lane<T> {
    /// Bytes do not overtake each other.
    pub(super) fn push(&mut self, at: Instant, what: T) {
        let at = self.under_way.back().map_or(at, |(last, _)| at.max(*last));
        self.under_way.push_back((at, what));
    }
}

impl Inner {
    pub(super) fn is_down(&self) -> bool {
        self.down_until.is_some_and(|until| Instant::now() < until)
    }

    pub(super) fn latency(&mut self) -> Duration {
        if self.rng.one_in(20) {
            self.rng.millis(SLOWEST.as_millis() as u64)
        } else {
            self.rng.millis(2)
        }
    }

    pub(super) fn pick_cut(&mut self) -> Option<(u64, Cut)> {
        let n = self.weather.cuts?;
        if !self.rng.one_in(n) {
            return None;
        }
        let cut = match self.pick(&[Kind::Close, Kind::Reset, Kind::Hang])? {
            Kind::Close => Cut::Close,
            Kind::Reset => Cut::Reset,
            _ => Cut::Hang,
        };
        Some((self.rng.below(400), cut))
    }

    /// One of these ways to go wrong, if the weather has any.
    pub(super) fn pick(&mut self, of: &[Kind]) -> Option<Kind> {
        self.weather.kinds.pick(of, &mut self.rng)
    }

    /// Advances the server's clock to now.
    pub(super) fn advance(&mut self) {
        let now = self.born.elapsed();
        let passed = Duration::from_nanos(self.server.now().as_nanos());
        self.server.advance(now.saturating_sub(passed));
    }

    /// Does what is due; returns when the next event is.
    pub(super) fn step(&mut self) -> Option<Instant> {
        self.advance();
        loop {
            let went_up = self.move_up();
            let went_down = self.collect();
            if !went_up && !went_down {
                break;
            }
        }
        let now = Instant::now();
        let mut next = self.server.idle_for().map(|idle| now + idle.max(Duration::from_millis(1)));
        let mut wake = Vec::new();
        for line in self.lines.values_mut() {
            let ups = line.up.under_way.front().map(|(at, _)| *at);
            let downs = line.down.under_way.front().map(|(at, _)| *at);
            if downs.is_some_and(|at| at <= now) {
                wake.extend(line.reader.take());
            }
            let later = [ups, downs.filter(|at| *at > now)].into_iter().flatten().min();
            next = [next, later].into_iter().flatten().min();
        }
        wake.into_iter().for_each(Waker::wake);
        self.lines.retain(|_, line| {
            !(line.is_dropped && line.at_server.is_none() && line.up.under_way.is_empty())
        });
        next
    }

    /// Carries to the server what has reached it.
    fn move_up(&mut self) -> bool {
        let now = Instant::now();
        let numbers: Vec<u64> = self.lines.keys().copied().collect();
        let mut moved = false;
        for number in numbers {
            while let Some(line) = self.lines.get_mut(&number) {
                if line.up.under_way.front().is_none_or(|(at, _)| *at > now) {
                    break;
                }
                let Some((_, what)) = line.up.under_way.pop_front() else { break };
                moved = true;
                self.arrive(number, what);
            }
        }
        moved
    }

    fn arrive(&mut self, number: u64, what: Up) {
        let line = self.lines.get_mut(&number).unwrap();
        let Some(id) = line.at_server else { return };
        if line.hangs {
            return;
        }
        match what {
            Up::Bytes(mut bytes) => {
                let cut = cut_short(&mut line.up.fault, &mut bytes);
                (number, 0, &bytes).hash(&mut self.trace);
                self.show(number, '>', &bytes);
                self.server.send(id, &bytes);
                if let Some(cut) = cut {
                    self.cut(number, cut);
                }
            }
            Up::Fin => self.server.half_close(id),
            Up::Gone => {
                line.at_server = None;
                self.server.hang_up(id);
            }
        }
    }

    /// Puts what the server has sent in transit.
    fn collect(&mut self) -> bool {
        let numbers: Vec<u64> = self.lines.keys().copied().collect();
        let mut moved = false;
        for number in numbers {
            let Some(line) = self.lines.get_mut(&number) else { continue };
            let Some(id) = line.at_server else { continue };
            let Received { mut bytes, end } = self.server.receive(id);
            if line.hangs || (bytes.is_empty() && end.is_none()) {
                continue;
            }
            moved = true;
            let cut = cut_short(&mut line.down.fault, &mut bytes);
            let at = Instant::now() + self.latency();
            (number, 1, &bytes, at - self.start).hash(&mut self.trace);
            self.show(number, '<', &bytes);
            let line = self.lines.get_mut(&number).unwrap();
            if !bytes.is_empty() {
                line.down.push(at, Down::Bytes(bytes));
            }
            if let Some(cut) = cut {
                self.cut(number, cut);
            } else if let Some(end) = end {
                self.end_line(number, if end == End::Close { Down::Fin } else { Down::Reset });
            }
        }
        moved
    }

    /// Prints the traffic, for debugging.
    fn show(&self, number: u64, direction: char, bytes: &[u8]) {
        if self.prints {
            let at = self.start.elapsed().as_secs_f64();
            let text: String = bytes.escape_ascii().to_string().chars().take(160).collect();
            println!("{at:>12.6} line {number} {direction} {text}");
        }
    }

    fn cut(&mut self, number: u64, cut: Cut) {
        self.show(number, '!', format!("{cut:?}").as_bytes());
        match cut {
            Cut::Close => {
                self.struck.closes += 1;
                self.end_line(number, Down::Fin);
            }
            Cut::Reset => {
                self.struck.resets += 1;
                self.end_line(number, Down::Reset);
            }
            Cut::Hang => {
                self.struck.hangs += 1;
                self.lines.get_mut(&number).unwrap().hangs = true;
            }
        }
    }

    /// The server's side is gone; the client is informed in time.
    pub(super) fn end_line(&mut self, number: u64, how: Down) {
        let at = Instant::now() + self.latency();
        let Some(line) = self.lines.get_mut(&number) else { return };
        line.hangs = false;
        line.down.push(at, how);
        if let Some(id) = line.at_server.take() {
            self.server.hang_up(id);
        }
    }
}

/// Shortens bytes to what may still pass, and returns how the connection then ends.
fn cut_short(fault: &mut Option<(u64, Cut)>, bytes: &mut Vec<u8>) -> Option<Cut> {
    let (left, cut) = fault.as_mut()?;
    if (bytes.len() as u64) < *left {
        *left -= bytes.len() as u64;
        return None;
    }
    bytes.truncate(*left as usize);
    let cut = *cut;
    *fault = None;
    Some(cut)
}
