//! A table of values by pattern, in which no path costs more than a bound.
use super::{Captures, Pattern, SEGMENTS_MAX, Segment};
use alloc::{boxed::Box, collections::BTreeMap, vec, vec::Vec};

/// The most steps that any path takes in a table: nodes that are visited, and texts around a `*`
/// that are compared with it.
pub const STEPS_MAX: u32 = 512;

/// An upper bound on the cost of any path in a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MatchCost {
    /// Nodes visited, and texts around a `*` compared.
    pub steps: u32,
    /// Number of items in the values of all patterns that match the path.
    pub items: u32,
    /// Size of these items, bytes.
    pub bytes: u32,
}

impl MatchCost {
    /// The cost of a value of this size, without steps.
    #[must_use]
    pub const fn of_value(items: u32, bytes: u32) -> Self {
        Self { steps: 0, items, bytes }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            steps: self.steps.saturating_add(other.steps),
            items: self.items.saturating_add(other.items),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            steps: self.steps.saturating_sub(other.steps),
            items: self.items.saturating_sub(other.items),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }

    fn or(self, other: Self) -> Self {
        Self {
            steps: self.steps.max(other.steps),
            items: self.items.max(other.items),
            bytes: self.bytes.max(other.bytes),
        }
    }

    fn is_within(self, limit: Self) -> bool {
        self.or(limit) == limit
    }
}

/// The limit that a pattern would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// A path would take more steps than [`Cost::steps`] of the limit.
    Steps,
    /// The patterns that match a path would have more than [`Cost::items`] or [`Cost::bytes`].
    Values,
}

/// The reason for which a table does not take a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused<'t, T> {
    /// A pattern that matches the same paths, whatever its names are, has this value.
    Taken(&'t T),
    /// The table would exceed its limit.
    Full(Full),
}

/// Values by pattern.
#[derive(Clone, Debug)]
pub struct Patterns<T> {
    /// The first is the root's, if there is any.
    nodes: Vec<Node<T>>,
    /// The number of each text of a plain segment.
    texts: BTreeMap<Box<[u8]>, u32>,
    /// By number, that of the text with the suffix of pages, or without it.
    partners: Vec<Option<u32>>,
    limit: MatchCost,
}

/// Patterns that start with the same segments.
#[derive(Clone, Debug)]
struct Node<T> {
    /// The nodes behind plain segments, by the number of their text.
    plain: Vec<(u32, usize)>,
    /// The node behind a named segment.
    named: Option<usize>,
    /// The value of the pattern that ends here.
    end: Option<Slot<T>>,
    /// The values of the patterns that continue with `*` here, those with the most text first.
    stars: Vec<StarSlot<T>>,
    bounds: Bounds,
}

/// The bounds on a path that reaches a node.
#[derive(Clone, Copy, Debug, Default)]
struct Bounds {
    /// On any path.
    worst: MatchCost,
    /// On one that ends there.
    leaf: MatchCost,
    /// The largest of those of the nodes behind plain segments.
    plain_worst: MatchCost,
    /// The same of paths that end there, under both names of a page.
    plain_leaf: MatchCost,
}

/// A value, and what it adds to the cost of a path.
#[derive(Clone, Debug)]
struct Slot<T> {
    value: T,
    cost: MatchCost,
}

#[derive(Clone, Debug)]
struct StarSlot<T> {
    before: Box<[u8]>,
    after: Box<[u8]>,
    slot: Slot<T>,
    /// The cost of this one, and of those of its kind with less text that match with it.
    chain: MatchCost,
}

impl<T> StarSlot<T> {
    fn affixes(&self) -> Affixes<'_> {
        Affixes { before: &self.before, after: &self.after }
    }
}

impl<T> Default for Node<T> {
    fn default() -> Self {
        let (plain, stars, bounds) = (Vec::new(), Vec::new(), Bounds::default());
        Self { plain, named: None, end: None, stars, bounds }
    }
}

impl<T> Default for Patterns<T> {
    fn default() -> Self {
        Self::with_values_max(u32::MAX, u32::MAX)
    }
}

/// The suffix of a page, which [`Names::clean`] lacks.
pub const PAGE_SUFFIX: &str = ".html";

/// The names of one file: its path, and others by which it can be asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Names<'p> {
    /// Decoded and relative.
    pub path: &'p [u8],
    /// The path without its [`PAGE_SUFFIX`], if a request for that finds the file.
    pub clean: Option<&'p [u8]>,
    /// The folder of the path, if a request for that finds the file.
    pub folder: Option<&'p [u8]>,
}

impl<T> Patterns<T> {
    /// No pattern. The values of all patterns that match a path together have at most `items_max`
    /// items of `bytes_max` bytes.
    #[must_use]
    pub const fn with_values_max(items_max: u32, bytes_max: u32) -> Self {
        let limit = MatchCost { steps: STEPS_MAX, items: items_max, bytes: bytes_max };
        Self { nodes: Vec::new(), texts: BTreeMap::new(), partners: Vec::new(), limit }
    }

    /// True if there is no pattern.
    #[must_use]
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// An upper bound on the cost of the most expensive path.
    #[must_use]
    pub fn worst(&self) -> MatchCost {
        self.nodes.first().map(|node| node.bounds.worst).unwrap_or_default()
    }

    /// The value of the pattern that matches the same paths, whatever its names are.
    #[must_use]
    pub fn get(&self, pattern: &Pattern<'_>) -> Option<&T> {
        let mut node = self.nodes.first()?;
        for segment in &pattern.segments {
            let next = match segment {
                Segment::Plain(text) => node.find(*self.texts.get(text.as_bytes())?)?,
                Segment::Named(_) => node.named?,
            };
            node = &self.nodes[next];
        }
        let slot = match &pattern.star {
            Some(star) => node.star(star.before.as_bytes(), star.after.as_bytes()).ok(),
            None => return node.end.as_ref().map(|slot| &slot.value),
        };
        slot.map(|at| &node.stars[at].slot.value)
    }

    /// Adds a pattern; `cost` is that of its value ([`Cost::of_value`]).
    ///
    /// # Errors
    /// The reason for which it is not added.
    pub fn insert(
        &mut self,
        pattern: &Pattern<'_>,
        value: T,
        cost: MatchCost,
    ) -> Result<(), Refused<'_, T>> {
        if self.get(pattern).is_some() {
            return Err(Refused::Taken(self.get(pattern).expect("it was there just now")));
        }
        self.replace(pattern, value, cost).map_err(Refused::Full)
    }

    /// Adds a pattern, or replaces its value.
    ///
    /// # Errors
    /// The limit that the table would exceed; it is as it was.
    pub fn replace(
        &mut self,
        pattern: &Pattern<'_>,
        value: T,
        cost: MatchCost,
    ) -> Result<(), Full> {
        let before = self.nodes.len();
        if before == 0 {
            self.nodes.push(Node::default());
        }
        let mut trail = vec![(0, None)];
        for segment in &pattern.segments {
            let at = trail[trail.len() - 1].0;
            trail.push(match segment {
                Segment::Plain(text) => {
                    let number = self.number(text.as_bytes());
                    (self.plain(at, number), Some(number))
                }
                Segment::Named(_) => (self.named(at), None),
            });
        }
        let slot = Slot { value, cost: MatchCost { steps: 0, ..cost } };
        let last = trail[trail.len() - 1].0;
        let old = self.nodes[last].put(pattern, Some(slot));
        let bounds: Vec<_> = trail.iter().map(|&(at, _)| self.nodes[at].bounds).collect();
        self.bound(&trail);
        let worst = self.worst();
        if worst.is_within(self.limit) {
            return Ok(());
        }
        self.nodes[last].put(pattern, old);
        for (&(at, _), bounds) in trail.iter().zip(bounds) {
            self.nodes[at].bounds = bounds;
        }
        let parent = trail.iter().map(|&(at, _)| at).take_while(|&at| at < before).last();
        if let Some(parent) = parent.map(|at| &mut self.nodes[at]) {
            parent.plain.retain(|&(_, next)| next < before);
            parent.named = parent.named.filter(|&next| next < before);
        }
        self.nodes.truncate(before);
        Err(if worst.steps > self.limit.steps { Full::Steps } else { Full::Values })
    }

    /// Shows the values of patterns that match `path` to `visit`, until that returns true. Plain
    /// segments come first, then names, then `*`. `path` is decoded and relative, as
    /// [`crate::target::Path::relative`] is.
    ///
    /// Returns true if `visit` did.
    pub fn visit<'t, 'p>(
        &'t self,
        path: &'p [u8],
        visit: &mut dyn FnMut(&'t T, &Captures<'p>) -> bool,
    ) -> bool {
        !self.is_empty() && Walk::new(self, Names { path, clean: None, folder: None }).run(visit)
    }

    /// Shows the values with a pattern that matches one of the names of a file, each once.
    pub fn visit_names<'t>(&'t self, names: Names<'_>, visit: &mut dyn FnMut(&'t T)) {
        if !self.is_empty() {
            Walk::new(self, names).run(&mut |value, _| {
                visit(value);
                false
            });
        }
    }

    /// Computes the bounds of the nodes on a way, from its end to the root.
    fn bound(&mut self, trail: &[(usize, Option<u32>)]) {
        let mut behind: Option<(usize, u32)> = None;
        for &(at, text) in trail.iter().rev() {
            let node = &self.nodes[at];
            let of = |at: usize| self.nodes[at].bounds;
            let named = node.named.map(of).unwrap_or_default();
            // The bounds behind a plain segment have only grown.
            let grown = behind.map_or_else(Bounds::default, |(next, text)| {
                let partner = self.partners[text as usize].and_then(|text| node.find(text));
                let partner = partner.map(of).unwrap_or_default();
                Bounds { leaf: of(next).leaf.plus(partner.leaf), ..of(next) }
            });
            self.nodes[at].bound(named, grown);
            behind = text.map(|text| (at, text));
        }
    }

    /// The number of a text.
    fn number(&mut self, text: &[u8]) -> u32 {
        if let Some(&number) = self.texts.get(text) {
            return number;
        }
        let number = u32::try_from(self.texts.len()).expect("a configuration is short");
        let partner = match text.strip_suffix(PAGE_SUFFIX.as_bytes()) {
            Some(stem) => self.texts.get(stem),
            None => self.texts.get(&*[text, PAGE_SUFFIX.as_bytes()].concat()),
        };
        let partner = partner.copied();
        if let Some(partner) = partner {
            self.partners[partner as usize] = Some(number);
        }
        self.texts.insert(text.into(), number);
        self.partners.push(partner);
        number
    }

    /// The node behind a plain segment, made if there is none.
    fn plain(&mut self, at: usize, number: u32) -> usize {
        match self.nodes[at].place(number) {
            Ok(found) => self.nodes[at].plain[found].1,
            Err(place) => {
                let new = self.grow();
                self.nodes[at].plain.insert(place, (number, new));
                new
            }
        }
    }

    /// The node behind a named segment, made if there is none.
    fn named(&mut self, at: usize) -> usize {
        if let Some(next) = self.nodes[at].named {
            return next;
        }
        let new = self.grow();
        self.nodes[at].named = Some(new);
        new
    }

    fn grow(&mut self) -> usize {
        self.nodes.push(Node::default());
        self.nodes.len() - 1
    }
}

impl<T> Node<T> {
    fn place(&self, text: u32) -> Result<usize, usize> {
        self.plain.binary_search_by_key(&text, |&(text, _)| text)
    }

    fn find(&self, text: u32) -> Option<usize> {
        self.place(text).ok().map(|at| self.plain[at].1)
    }

    /// The place of the `*` with these texts, or where it belongs.
    fn star(&self, before: &[u8], after: &[u8]) -> Result<usize, usize> {
        let key = |before: &[u8], after: &[u8]| before.len() + after.len();
        let order = |star: &StarSlot<T>| {
            let by_length = key(before, after).cmp(&key(&star.before, &star.after));
            by_length.then_with(|| (&*star.before, &*star.after).cmp(&(before, after)))
        };
        self.stars.binary_search_by(order)
    }

    /// Puts a value where a pattern ends, or removes it; returns the old one.
    fn put(&mut self, pattern: &Pattern<'_>, slot: Option<Slot<T>>) -> Option<Slot<T>> {
        let Some(star) = &pattern.star else {
            return core::mem::replace(&mut self.end, slot);
        };
        let (before, after) = (star.before.as_bytes(), star.after.as_bytes());
        let (at, old) = match self.star(before, after) {
            Ok(at) => {
                let old = self.stars.remove(at);
                self.chain(&old.before, &old.after, |chain| chain.minus(old.slot.cost));
                (at, Some(old.slot))
            }
            Err(at) => (at, None),
        };
        if let Some(slot) = slot {
            let own = self.stars.iter();
            let own = own.filter(|one| includes(Affixes { before, after }, one.affixes()));
            let chain = own.fold(slot.cost, |sum, one| sum.plus(one.slot.cost));
            self.chain(before, after, |chain| chain.plus(slot.cost));
            let (before, after) = (before.into(), after.into());
            self.stars.insert(at, StarSlot { before, after, slot, chain });
        }
        old
    }

    /// Changes the cost of those `*` that match only together with one of these texts.
    fn chain(&mut self, before: &[u8], after: &[u8], change: impl Fn(MatchCost) -> MatchCost) {
        for star in &mut self.stars {
            if includes(star.affixes(), Affixes { before, after }) {
                star.chain = change(star.chain);
            }
        }
    }

    /// Computes its bounds from those behind a name, and those of a node behind a plain segment.
    fn bound(&mut self, named: Bounds, grown: Bounds) {
        let Bounds { plain_worst, plain_leaf, .. } = self.bounds;
        let plain_worst = plain_worst.or(grown.worst);
        let plain_leaf = plain_leaf.or(grown.leaf);
        let stars = u32::try_from(self.stars.len()).unwrap_or(u32::MAX);
        let own = MatchCost { steps: stars.saturating_add(1), ..MatchCost::default() };
        let end = self.end.as_ref().map(|slot| slot.cost).unwrap_or_default();
        let bare = self.star(b"", b"").map(|at| self.stars[at].slot.cost).unwrap_or_default();
        let chains = |of: fn(&&StarSlot<T>) -> bool| {
            let chains = self.stars.iter().filter(of).map(|star| star.chain);
            chains.fold(MatchCost::default(), MatchCost::or)
        };
        // All names of a file start alike, and it has three that end in different texts.
        let endings = chains(|star| !star.after.is_empty());
        let chains = chains(|star| star.after.is_empty()).plus(endings).plus(endings).plus(endings);
        // The folder of a file may end here, with its last segment behind it.
        let names = end.plus(named.leaf).plus(plain_leaf);
        let further = named.worst.plus(plain_worst).or(names);
        let (leaf, worst) = (own.plus(end).plus(bare), own.plus(chains).plus(further));
        self.bounds = Bounds { worst, leaf, plain_worst, plain_leaf };
    }
}

/// Texts in front of a `*` and behind it.
#[derive(Clone, Copy)]
struct Affixes<'a> {
    before: &'a [u8],
    after: &'a [u8],
}

/// True if a path that matches a `*` with the texts of `one` may match that with those of `other`,
/// which are no longer. Those with text behind them are of another kind than those without.
fn includes(one: Affixes<'_>, other: Affixes<'_>) -> bool {
    match (one.after.is_empty(), other.after.is_empty()) {
        (true, true) => one.before.starts_with(other.before),
        (false, false) => one.after.ends_with(other.after) && is_prefix(one.before, other.before),
        _ => false,
    }
}

/// True if one of two texts is how the other starts.
fn is_prefix(one: &[u8], other: &[u8]) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

/// A search for the patterns that match a path. Each node has one way to it, so it is visited once
/// at most; each segment of the path is looked up once.
struct Walk<'t, 'p, T> {
    table: &'t Patterns<T>,
    names: Names<'p>,
    segments: [Part; SEGMENTS_MAX + 1],
    /// Number of those that are known.
    known: usize,
    captures: Captures<'p>,
    /// Steps so far, as in [`Cost::steps`].
    steps: u32,
}

/// A segment of a path.
#[derive(Clone, Copy, Default)]
struct Part {
    end: usize,
    /// The number of its text, if a pattern has that.
    text: Option<u32>,
    /// The number of its text without suffix ([`Names::clean`]).
    clean: Option<u32>,
}

impl<'t, 'p, T> Walk<'t, 'p, T> {
    fn new(table: &'t Patterns<T>, names: Names<'p>) -> Self {
        let (segments, captures) = ([Part::default(); SEGMENTS_MAX + 1], Captures::default());
        Self { table, names, segments, known: 0, captures, steps: 0 }
    }

    fn run(&mut self, visit: &mut dyn FnMut(&'t T, &Captures<'p>) -> bool) -> bool {
        // The root is followed by no segment if it is the path.
        let start = if self.names.path.is_empty() { 1 } else { 0 };
        self.walk(0, 0, start, visit)
    }

    /// Visits a node, `depth` segments below the root; the path continues `at` there, or has ended
    /// before. True if `visit` has ended the search.
    fn walk(
        &mut self,
        node: usize,
        depth: usize,
        at: usize,
        visit: &mut dyn FnMut(&'t T, &Captures<'p>) -> bool,
    ) -> bool {
        self.steps += 1;
        let node = &self.table.nodes[node];
        let end = |walk: &Self, visit: &mut dyn FnMut(&'t T, &Captures<'p>) -> bool| {
            node.end.as_ref().is_some_and(|slot| visit(&slot.value, &walk.captures))
        };
        if at > self.names.path.len() {
            if end(self, visit) {
                return true;
            }
        } else if !(node.plain.is_empty() && node.named.is_none() && node.end.is_none()) {
            let part = self.part(depth, at);
            let next = part.end + 1;
            let plain = |text: Option<u32>| text.and_then(|text| node.find(text));
            for found in [plain(part.text), plain(part.clean)].into_iter().flatten() {
                if self.walk(found, depth + 1, next, visit) {
                    return true;
                }
            }
            let last = next > self.names.path.len();
            if last && self.names.folder.is_some() && end(self, visit) {
                return true;
            }
            if let Some(found) = node.named {
                self.captures.named[self.captures.count] = &self.names.path[at..part.end];
                self.captures.count += 1;
                let ended = self.walk(found, depth + 1, next, visit);
                self.captures.count -= 1;
                if ended {
                    return true;
                }
            }
        }
        self.stars(node, at, visit)
    }

    /// Visits the patterns of a node that have `*`.
    fn stars(
        &mut self,
        node: &'t Node<T>,
        at: usize,
        visit: &mut dyn FnMut(&'t T, &Captures<'p>) -> bool,
    ) -> bool {
        let Names { path, clean, folder } = self.names;
        // A folder that ends before this node is none of its paths.
        let below = |path: &'p [u8]| match at.checked_sub(path.len()) {
            Some(0) | None => path.get(at..),
            Some(1) if path.len() < self.names.path.len() => Some(&[][..]),
            Some(_) => None,
        };
        let rests = [path.get(at..).or(Some(&[])), clean.and_then(below), folder.and_then(below)];
        for star in &node.stars {
            self.steps += 1;
            if let Some(rest) = rests.into_iter().flatten().find_map(|rest| star.find(rest)) {
                self.captures.rest = rest;
                let ended = visit(&star.slot.value, &self.captures);
                self.captures.rest = &[];
                if ended {
                    return true;
                }
            }
        }
        false
    }

    /// The segment of this depth, which starts at this place.
    fn part(&mut self, depth: usize, at: usize) -> Part {
        if depth < self.known {
            return self.segments[depth];
        }
        let rest = &self.names.path[at..];
        let length = memchr::memchr(b'/', rest).unwrap_or(rest.len());
        let number = |text: &[u8]| self.table.texts.get(text).copied();
        let is_last = length == rest.len();
        let clean = self.names.clean.filter(|_| is_last).and_then(|clean| number(&clean[at..]));
        let part = Part { end: at + length, text: number(&rest[..length]), clean };
        self.segments[depth] = part;
        self.known = depth + 1;
        part
    }
}

impl<T> StarSlot<T> {
    /// The text that its `*` stands for in the rest of a path.
    fn find<'p>(&self, rest: &'p [u8]) -> Option<&'p [u8]> {
        rest.strip_prefix(&*self.before)?.strip_suffix(&*self.after)
    }
}

#[cfg(test)]
mod tests;
