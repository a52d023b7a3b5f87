//! The client's end: what it may send, and how it parses responses.
use super::{EXCHANGES, Kind, frame, parse};
use crate::BrokenCheck;

/// Answer that has arrived in full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Number of the request that it answers.
    pub number: usize,
    /// File that was requested.
    pub file: u8,
    /// End of the exchange; 0 if the body is the whole file.
    pub code: u8,
    /// Bytes of the file that arrived.
    pub body: Vec<u8>,
}

/// Client that requests several files at a time.
#[derive(Debug)]
pub struct Client {
    files: Vec<u8>,
    /// Whether each request has been answered.
    answered: Vec<bool>,
    /// Number of answered requests of each exchange, and received bytes of its next answer.
    at: [(usize, Vec<u8>); EXCHANGES],
    /// First byte of a frame whose second has not arrived.
    half: Option<u8>,
    /// Exchange of the current piece, and the number of its missing bytes.
    piece: (usize, u64),
    goes_away: bool,
}

impl Client {
    /// Requests these files: every eighth in the same exchange.
    #[must_use]
    pub fn new(files: Vec<u8>) -> Self {
        let (answered, at) = (vec![false; files.len()], Default::default());
        Self { files, answered, at, half: None, piece: (0, 0), goes_away: false }
    }

    /// All bytes that the client sends.
    #[must_use]
    pub fn wire(&self) -> Vec<u8> {
        let asks = self.files.iter().enumerate();
        asks.flat_map(|(number, file)| frame(Kind::Ask, number % EXCHANGES, *file)).collect()
    }

    /// Number of bytes that it may have sent by now: an exchange is reused only after its end.
    #[must_use]
    pub fn may_send(&self) -> usize {
        let over = |number: &usize| {
            number.checked_sub(EXCHANGES).is_none_or(|before| self.answered[before])
        };
        2 * (0..self.files.len()).take_while(over).count()
    }

    /// Number of answered requests.
    #[must_use]
    pub fn answers(&self) -> usize {
        self.answered.iter().filter(|answered| **answered).count()
    }

    /// Whether an answer has arrived in part.
    #[must_use]
    pub fn has_part(&self) -> bool {
        let bodies = self.at.iter().any(|(_, body)| !body.is_empty());
        bodies || self.half.is_some() || self.piece.1 > 0
    }

    /// Whether the server has announced that it goes away.
    #[must_use]
    pub const fn is_told(&self) -> bool {
        self.goes_away
    }

    /// Parses received bytes, and passes each whole answer to `judge`.
    ///
    /// # Errors
    /// Bytes that must not arrive, or the error of `judge`.
    pub fn feed(
        &mut self,
        mut bytes: &[u8],
        judge: &mut dyn FnMut(Answer) -> Result<(), BrokenCheck>,
    ) -> Result<(), BrokenCheck> {
        loop {
            let (of, missing) = self.piece;
            let (now, rest) =
                bytes.split_at(usize::try_from(missing).map_or(0, |n| n.min(bytes.len())));
            self.at[of].1.extend_from_slice(now);
            self.piece.1 -= now.len() as u64;
            bytes = rest;
            let Some((&byte, rest)) = bytes.split_first() else { return Ok(()) };
            bytes = rest;
            match self.half.take() {
                None => self.half = Some(byte),
                Some(first) => self.frame([first, byte], judge)?,
            }
        }
    }

    fn frame(
        &mut self,
        bytes: [u8; 2],
        judge: &mut dyn FnMut(Answer) -> Result<(), BrokenCheck>,
    ) -> Result<(), BrokenCheck> {
        let (kind, exchange, more) = parse(bytes).ok_or(format!("{bytes:?} is no frame"))?;
        if kind == Kind::GoesAway {
            let again = std::mem::replace(&mut self.goes_away, true);
            return if again { Err("it goes away twice".into()) } else { Ok(()) };
        }
        let number = self.at[exchange].0 * EXCHANGES + exchange;
        let Some(&file) = self.files.get(number) else {
            return Err(
                format!("{kind:?} in exchange {exchange}, in which nothing was asked").into()
            );
        };
        match kind {
            Kind::Piece if more < 32 => self.piece = (exchange, 1 << more),
            Kind::End => {
                let body = std::mem::take(&mut self.at[exchange].1);
                self.at[exchange].0 += 1;
                self.answered[number] = true;
                return judge(Answer { number, file, code: more, body });
            }
            _ => return Err(format!("{kind:?} {more} from a server").into()),
        }
        Ok(())
    }
}
