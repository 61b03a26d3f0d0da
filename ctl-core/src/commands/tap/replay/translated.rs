//! A replay to a server that assigns other ids than the recorded one did: the new ids are learned from its replies, and
//! put into later requests.
//!
//! Connections are processed in units, such as a command with its body or a packet, because ids have a position only
//! within these.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use fixtures::transcript::{
    Answer, Event, Link, Match, Pattern, Piece, Stage, Transcript, excerpt,
};

use super::super::cutter::KEPT;
use super::super::decoder::{Decoder, Id, Look, Side};

/// Why a replay has ended, and at which event; past the last one if it was at the end of a connection.
pub(super) type Departure = (usize, String);

/// Replays a transcript, and returns the number of ids that differed from the recorded ones.
///
/// # Errors
/// The first reply that differs in more than its ids.
pub(super) fn replay<S: Stage, D: Decoder>(
    transcript: &Transcript,
    stage: &mut S,
    decoder: fn() -> D,
) -> Result<usize, Departure> {
    let (mut lines, mut ids) = (BTreeMap::new(), Ids::default());
    for (number, event) in transcript.events.iter().enumerate() {
        step(event, stage, decoder, &mut lines, &mut ids).map_err(|why| (number, why))?;
    }
    for (connection, mut line) in lines {
        let ended: Result<(), String> = line.finish();
        ended.map_err(|why| {
            (transcript.events.len(), format!("at the end of connection {connection}: {why}"))
        })?;
    }
    Ok(ids.differing())
}

fn step<S: Stage, D: Decoder>(
    event: &Event,
    stage: &mut S,
    decoder: fn() -> D,
    lines: &mut BTreeMap<usize, Line<S::Link, D>>,
    ids: &mut Ids,
) -> Result<(), String> {
    let Some(connection) = event.connection() else {
        return stage.drain().map_err(|error| format!("cannot drain: {error}"));
    };
    if !lines.contains_key(&connection) && !matches!(event, Event::Close { .. }) {
        let link = stage.connect().map_err(|error| format!("cannot connect: {error}"))?;
        lines.insert(connection, Line::new(link, decoder()));
    }
    let Some(line) = lines.get_mut(&connection) else { return Ok(()) };
    match event {
        Event::Send { bytes, .. } => line.send(bytes, ids),
        Event::Receive { pattern, .. } => line.receive(pattern, ids),
        Event::HalfClose { .. } => {
            line.send_rest()?;
            line.link.half_close().map_err(|error| error.to_string())
        }
        Event::End { .. } => line.expect_end(),
        Event::Close { .. } => {
            let sent = line.send_rest();
            lines.remove(&connection);
            sent
        }
        // Events of other kinds do not concern a connection.
        _ => Ok(()),
    }
}

/// The ids of the recorded server, with those of the current one.
#[derive(Debug, Default)]
struct Ids {
    live: BTreeMap<(Vec<u8>, Vec<u8>), Vec<u8>>,
    /// The ids that already stand for a recorded one, by scope.
    taken: BTreeSet<(Vec<u8>, Vec<u8>)>,
}

impl Ids {
    /// The current server's id for it, if it has assigned one already.
    fn of(&self, space: &[u8], recorded: &[u8]) -> Option<&[u8]> {
        self.live.get(&(space.to_vec(), recorded.to_vec())).map(Vec::as_slice)
    }

    /// Makes `live` stand for `recorded` from now on, if it can.
    fn learn(&mut self, space: &[u8], recorded: &[u8], live: &[u8]) -> Result<(), String> {
        let shown = |id: &[u8]| excerpt(id);
        match self.of(space, recorded) {
            Some(known) if known == live => return Ok(()),
            Some(known) => {
                let (recorded, known, live) = (shown(recorded), shown(known), shown(live));
                return Err(format!("expected the id {known}, for {recorded}, received {live}"));
            }
            None => {}
        }
        if !self.taken.insert((space.to_vec(), live.to_vec())) {
            let (recorded, live) = (shown(recorded), shown(live));
            return Err(format!("received the id {live} for {recorded}, which is another one's"));
        }
        self.live.insert((space.to_vec(), recorded.to_vec()), live.to_vec());
        Ok(())
    }

    fn differing(&self) -> usize {
        self.live.iter().filter(|((_, recorded), live)| recorded != *live).count()
    }
}

/// A connection.
struct Line<L, D> {
    link: L,
    decoder: D,
    /// What the client has sent of an incomplete unit, and what remains to be sent of one that was passed on.
    asked: Vec<u8>,
    passing: u64,
    /// The recorded beginning of a unit of the server.
    expected: Expected,
    /// What the current server has sent.
    unread: Vec<u8>,
    has_ended: bool,
    /// Units can no longer be separated, so the rest is compared byte by byte.
    is_lost: bool,
}

/// A recorded part of what the server sends.
#[derive(Debug, Default)]
struct Expected {
    pieces: Vec<Piece>,
    bytes: Vec<u8>,
    /// The length of its unit, once known.
    len: Option<usize>,
}

impl Expected {
    fn add(&mut self, pattern: &Pattern) {
        self.bytes.extend(pattern.recorded());
        self.pieces.extend(pattern.pieces.iter().cloned());
    }

    /// Removes this many bytes from its front.
    fn split(&mut self, len: usize) -> Vec<Piece> {
        let mut rest = self.pieces.split_off(0).into_iter();
        let (mut front, mut missing) = (Vec::new(), len);
        for piece in rest.by_ref() {
            let size = match &piece {
                Piece::Bytes(bytes) | Piece::Any { recorded: bytes, .. } => bytes.len(),
            };
            match piece {
                Piece::Bytes(mut bytes) if size > missing => {
                    self.pieces.push(Piece::Bytes(bytes.split_off(missing)));
                    front.push(Piece::Bytes(bytes));
                    missing = 0;
                }
                whole => {
                    front.push(whole);
                    missing = missing.saturating_sub(size);
                }
            }
            if missing == 0 {
                break;
            }
        }
        self.pieces.extend(rest);
        self.bytes.drain(..len.min(self.bytes.len()));
        self.len = None;
        front
    }
}

impl<L: Link, D: Decoder> Line<L, D> {
    fn new(link: L, decoder: D) -> Self {
        Self {
            link,
            decoder,
            asked: Vec::new(),
            passing: 0,
            expected: Expected::default(),
            unread: Vec::new(),
            has_ended: false,
            is_lost: false,
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.link.write_all(bytes).map_err(|error| error.to_string())
    }

    /// Sends what the client has sent, with the ids that the current server has assigned.
    fn send(&mut self, bytes: &[u8], ids: &Ids) -> Result<(), String> {
        if self.is_lost {
            return self.write(bytes);
        }
        let here = usize::try_from(self.passing).unwrap_or(usize::MAX).min(bytes.len());
        let (of_unit, rest) = bytes.split_at(here);
        self.write(of_unit)?;
        self.passing -= here as u64;
        self.asked.extend_from_slice(rest);
        self.send_units(ids)
    }

    fn send_units(&mut self, ids: &Ids) -> Result<(), String> {
        while !self.asked.is_empty() {
            let len = match self.decoder.look(Side::Client, &self.asked) {
                Look::Unit(len) => len.max(1),
                Look::More => return Ok(()),
                Look::ToTheEnd | Look::Stranger(_) => return self.lose(),
            };
            let whole = usize::try_from(len).unwrap_or(usize::MAX);
            // Ids are at its beginning.
            let wanted = whole.min(KEPT);
            if self.asked.len() < wanted {
                return Ok(());
            }
            let unit = self.asked.get(..wanted).unwrap_or_default().to_vec();
            let mut said = unit.clone();
            let mut change = 0;
            for Id { at, space } in self.decoder.ids(Side::Client, &unit).into_iter().rev() {
                let recorded = unit.get(at.clone()).unwrap_or_default();
                if let Some(live) = space.and_then(|space| ids.of(&space, recorded)) {
                    change += live.len() as i64 - recorded.len() as i64;
                    said.splice(at, live.iter().copied());
                }
            }
            if change != 0 {
                self.decoder.mend(Side::Client, &mut said, change);
            }
            self.write(&said)?;
            self.decoder.read(Side::Client, &unit, len);
            let here = whole.min(self.asked.len());
            let more: Vec<u8> = self.asked.get(wanted..here).unwrap_or_default().to_vec();
            self.write(&more)?;
            self.asked.drain(..here);
            self.passing = len - here as u64;
        }
        Ok(())
    }

    /// Sends the rest of a unit that was never completed.
    fn send_rest(&mut self) -> Result<(), String> {
        if self.asked.is_empty() { Ok(()) } else { self.lose() }
    }

    fn lose(&mut self) -> Result<(), String> {
        self.is_lost = true;
        let asked = std::mem::take(&mut self.asked);
        self.write(&asked)
    }

    /// Expects what the server has sent, with ids of its own.
    fn receive(&mut self, pattern: &Pattern, ids: &mut Ids) -> Result<(), String> {
        self.expected.add(pattern);
        if self.is_lost {
            return self.expect_rest();
        }
        loop {
            if self.expected.bytes.is_empty() {
                return Ok(());
            }
            if self.expected.len.is_none() {
                self.expected.len = match self.decoder.look(Side::Server, &self.expected.bytes) {
                    Look::Unit(len) => Some(usize::try_from(len.max(1)).unwrap_or(usize::MAX)),
                    Look::More => return Ok(()),
                    Look::ToTheEnd | Look::Stranger(_) => {
                        self.is_lost = true;
                        return self.expect_rest();
                    }
                };
            }
            let len = self.expected.len.unwrap_or(usize::MAX);
            if self.expected.bytes.len() < len {
                return Ok(());
            }
            let unit = self.expected.bytes.get(..len).unwrap_or_default().to_vec();
            let pieces = self.expected.split(len);
            self.expect_unit(&unit, pieces, ids)?;
            self.decoder.read(Side::Server, &unit, len as u64);
        }
    }

    /// Reads the unit that the current server sends in its place.
    fn expect_unit(
        &mut self,
        recorded: &[u8],
        pieces: Vec<Piece>,
        ids: &mut Ids,
    ) -> Result<(), String> {
        let pattern = Pattern { pieces };
        let wanted = format!("expected {pattern}");
        let live = self.read_unit(&wanted)?;
        let differs = |at: usize| {
            format!("differs at byte {at}: expected {pattern}, received {}", excerpt(&live))
        };
        let ours = self.decoder.ids(Side::Server, recorded);
        let theirs = self.decoder.ids(Side::Server, &live);
        if ours.len() != theirs.len() || ours.is_empty() {
            return match pattern.compare(&live) {
                Match::Whole(len) if len == live.len() => Ok(()),
                Match::Differs(at) | Match::Whole(at) => Err(differs(at)),
                Match::Partial => Err(differs(live.len())),
            };
        }
        // What the recorded server would have sent with these ids.
        let mut said = recorded.to_vec();
        let mut change = 0;
        for (our, their) in ours.iter().zip(&theirs).rev() {
            let (was, is) = (recorded.get(our.at.clone()), live.get(their.at.clone()));
            let (was, is) = (was.unwrap_or_default(), is.unwrap_or_default());
            change += is.len() as i64 - was.len() as i64;
            said.splice(our.at.clone(), is.iter().copied());
        }
        if change != 0 {
            self.decoder.mend(Side::Server, &mut said, change);
        }
        let same = said.iter().zip(&live).take_while(|(a, b)| a == b).count();
        if same < said.len().max(live.len()) {
            return Err(differs(same));
        }
        for (our, their) in ours.iter().zip(&theirs) {
            let Some(space) = &our.space else { continue };
            let (was, is) = (recorded.get(our.at.clone()), live.get(their.at.clone()));
            ids.learn(space, was.unwrap_or_default(), is.unwrap_or_default())
                .map_err(|why| format!("{why}: expected {pattern}, received {}", excerpt(&live)))?;
        }
        Ok(())
    }

    fn read_unit(&mut self, wanted: &str) -> Result<Vec<u8>, String> {
        let mut len = None;
        let mut answer = Answer::expected();
        loop {
            if len.is_none() && !self.unread.is_empty() {
                len = match self.decoder.look(Side::Server, &self.unread) {
                    Look::Unit(len) => Some(usize::try_from(len.max(1)).unwrap_or(usize::MAX)),
                    Look::More => None,
                    Look::ToTheEnd | Look::Stranger(_) => {
                        return Err(format!("{wanted}, received {}", excerpt(&self.unread)));
                    }
                };
            }
            if let Some(len) = len.filter(|len| *len > Answer::LARGEST) {
                return Err(format!(
                    "{wanted}, but the server announces {len} bytes, and {} are allowed",
                    Answer::LARGEST
                ));
            }
            if let Some(len) = len.filter(|len| *len <= self.unread.len()) {
                return Ok(self.unread.drain(..len).collect());
            }
            if !self.read_more(&mut answer, wanted)? {
                return Err(format!("{wanted}, but the server closed the connection"));
            }
        }
    }

    /// Expects these bytes exactly.
    fn expect_rest(&mut self) -> Result<(), String> {
        let pattern = Pattern { pieces: std::mem::take(&mut self.expected.pieces) };
        self.expected = Expected::default();
        let wanted = format!("expected {pattern}");
        let mut answer = Answer::expected();
        while !pattern.take(&mut self.unread)? {
            if !self.read_more(&mut answer, &wanted)? {
                return Err(format!("{wanted}, but the server closed the connection"));
            }
        }
        Ok(())
    }

    fn expect_end(&mut self) -> Result<(), String> {
        self.send_rest()?;
        if !self.expected.pieces.is_empty() {
            self.is_lost = true;
            self.expect_rest()?;
        }
        let mut answer = Answer::expected();
        while self.unread.is_empty() {
            if !self.read_more(&mut answer, "expected the end")? {
                self.has_ended = true;
                return Ok(());
            }
        }
        Err(format!("expected the end, received {}", excerpt(&self.unread)))
    }

    fn finish(&mut self) -> Result<(), String> {
        if self.has_ended {
            return if self.expected.pieces.is_empty() { Ok(()) } else { self.expect_rest() };
        }
        self.send_rest()?;
        // The server may have closed it already.
        let _ = self.link.half_close();
        self.expect_end()
    }

    /// Returns false at the end of the connection.
    fn read_more(&mut self, answer: &mut Answer, wanted: &str) -> Result<bool, String> {
        loop {
            match answer.read_on(&mut self.link, &mut self.unread) {
                // The recorded server may have answered something that is not a whole request.
                Err(error) if is_late(&error) && !self.asked.is_empty() => {
                    self.send_rest()?;
                    *answer = Answer::expected();
                }
                read => {
                    return read.map_err(|error| {
                        format!("{wanted}, received only {}: {error}", excerpt(&self.unread))
                    });
                }
            }
        }
    }
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
