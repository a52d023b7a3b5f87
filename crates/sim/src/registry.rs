//! Entity tags and their contents: learned from responses, and never to change.
use crate::{
    BrokenCheck,
    dice::{Dice, index},
};
use regatta_op::{Coding, FileId};
use std::collections::HashMap;

/// Content of a tag: a file, a coding, and whether the file was young, which makes the tag weak.
pub(crate) type Tagged = (FileId, Option<Coding>, bool);

/// The entity tags that peers have seen.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    by_text: HashMap<Vec<u8>, Tagged>,
    by_content: HashMap<Tagged, Vec<u8>>,
    /// Tags in the order in which they were seen, for the dice.
    list: Vec<(String, Tagged)>,
}

impl Registry {
    /// Returns the content of a tag, if it has been seen.
    pub(crate) fn find(&self, text: &[u8]) -> Option<Tagged> {
        self.by_text.get(text).copied()
    }

    /// Notes that `text` names `of`. Fails if that contradicts an earlier note.
    pub(crate) fn note(&mut self, text: &[u8], of: Tagged) -> Result<(), BrokenCheck> {
        let shown = String::from_utf8_lossy(text);
        match (self.by_text.get(text), self.by_content.get(&of)) {
            (Some(&before), _) if before != of => {
                return Err(format!("the tag {shown} names {before:?} and {of:?}").into());
            }
            (_, Some(before)) if before != text => {
                let before = String::from_utf8_lossy(before);
                return Err(format!("{of:?} has the tags {before} and {shown}").into());
            }
            (Some(_), Some(_)) => return Ok(()),
            _ => {}
        }
        self.by_text.insert(text.to_vec(), of);
        self.by_content.insert(of, text.to_vec());
        self.list.push((shown.into_owned(), of));
        Ok(())
    }

    /// Picks one of the tags; recent ones are more likely.
    pub(crate) fn pick(&self, dice: &mut Dice) -> Option<(&str, Tagged)> {
        let count = self.list.len() as u64;
        if count == 0 {
            return None;
        }
        let back = dice.below(count).min(dice.below(count));
        let (text, of) = &self.list[index(count - 1 - back)];
        Some((text, *of))
    }
}
