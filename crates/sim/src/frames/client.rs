//! The client's end: what it sends and when it may, and how it reads what comes.
use super::{EXCHANGES, Kind, frame, parse};

/// An answer that has come in full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Which of the requests it answers.
    pub number: usize,
    /// The file that was asked for.
    pub file: u8,
    /// How it ended; 0 if the body is all of the file.
    pub code: u8,
    /// What came of the file.
    pub body: Vec<u8>,
}

/// A client that asks for files, several at a time.
#[derive(Debug)]
pub struct Client {
    files: Vec<u8>,
    /// For each request, whether its answer has come.
    answered: Vec<bool>,
    /// For each exchange, how many of its requests have been answered, and what has come of the
    /// next answer.
    at: [(usize, Vec<u8>); EXCHANGES],
    /// The first byte of a frame that has not come in full.
    half: Option<u8>,
    /// Of which exchange a piece is coming, and how many bytes of it are missing.
    piece: (usize, u64),
    goes_away: bool,
}

impl Client {
    /// Asks for these files: with every eighth request in the same exchange.
    #[must_use]
    pub fn new(files: Vec<u8>) -> Self {
        let (answered, at) = (vec![false; files.len()], Default::default());
        Self { files, answered, at, half: None, piece: (0, 0), goes_away: false }
    }

    /// All that it sends.
    #[must_use]
    pub fn wire(&self) -> Vec<u8> {
        let asks = self.files.iter().enumerate();
        asks.flat_map(|(number, file)| frame(Kind::Ask, number % EXCHANGES, *file)).collect()
    }

    /// How many bytes of that it may have sent by now: an exchange is used again when it has ended.
    #[must_use]
    pub fn may_send(&self) -> usize {
        let over = |number: &usize| {
            number.checked_sub(EXCHANGES).is_none_or(|before| self.answered[before])
        };
        2 * (0..self.files.len()).take_while(over).count()
    }

    /// Requests that have been answered.
    #[must_use]
    pub fn answers(&self) -> usize {
        self.answered.iter().filter(|answered| **answered).count()
    }

    /// True if something has come of an answer that has not come in full.
    #[must_use]
    pub fn has_part(&self) -> bool {
        let bodies = self.at.iter().any(|(_, body)| !body.is_empty());
        bodies || self.half.is_some() || self.piece.1 > 0
    }

    /// True if the server has said that it answers no more than it has received.
    #[must_use]
    pub const fn is_told(&self) -> bool {
        self.goes_away
    }

    /// Takes what has come; answers that are whole are shown to `judge`.
    ///
    /// # Errors
    /// Something came that may not come; or the error of `judge`.
    pub fn feed(
        &mut self,
        mut bytes: &[u8],
        judge: &mut dyn FnMut(Answer) -> Result<(), String>,
    ) -> Result<(), String> {
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
        judge: &mut dyn FnMut(Answer) -> Result<(), String>,
    ) -> Result<(), String> {
        let (kind, exchange, more) = parse(bytes).ok_or(format!("{bytes:?} is no frame"))?;
        if kind == Kind::GoesAway {
            let again = std::mem::replace(&mut self.goes_away, true);
            return if again { Err("it goes away twice".to_owned()) } else { Ok(()) };
        }
        let number = self.at[exchange].0 * EXCHANGES + exchange;
        let Some(&file) = self.files.get(number) else {
            return Err(format!("{kind:?} in exchange {exchange}, in which nothing was asked"));
        };
        match kind {
            Kind::Piece if more < 32 => self.piece = (exchange, 1 << more),
            Kind::End => {
                let body = std::mem::take(&mut self.at[exchange].1);
                self.at[exchange].0 += 1;
                self.answered[number] = true;
                return judge(Answer { number, file, code: more, body });
            }
            _ => return Err(format!("{kind:?} {more} from a server")),
        }
        Ok(())
    }
}
