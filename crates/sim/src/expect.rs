//! Responses that a request may get, given what could be known of the disk. This second reading of
//! the standards and of the site's rules shares no code with the first.
use crate::{
    disk::Seen,
    request::{Content, Expect, Goal, IfRange, PathGoal, Range, Request, Span, Tag, Tags, Verb},
};
use regatta_op::{Coding, FileId, OpenFault};
use regatta_origin::Site;

/// Latest time of a file without a date, 1980-01-02, in seconds since 1970: image layers and
/// archives set such times for all files.
pub(crate) const UNDATED_SECS_MAX: i64 = (3_650 + 2 + 1) * 86_400;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Itself,
    Fallback,
    NotFound,
}

/// Description of a file in a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) name: Vec<u8>,
    pub(crate) id: FileId,
    pub(crate) coding: Option<Coding>,
    pub(crate) role: Role,
    pub(crate) varies: bool,
    /// Whether the disk was asked so soon after a change that another change might be missed.
    pub(crate) young: bool,
    /// `Last-Modified`; `None` for a file from the future: the date depends on the first look.
    pub(crate) modified: Option<i64>,
}

/// Content of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A small page with the status.
    Page(u16),
    /// The response to `OPTIONS`.
    Options,
    /// A redirect to the same path with a slash.
    Redirect(Vec<u8>),
    Whole(Shown),
    Parts(Shown, Vec<(u64, u64)>),
    NotModified(Shown),
    Unsatisfiable(u64),
}

/// Knowledge of a name, and its second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) seen: Seen,
    pub(crate) unix: u64,
    /// Second in which the disk was asked.
    pub(crate) asked_unix: u64,
}

/// Finds all possible responses to one request.
pub(crate) struct Oracle<'a> {
    pub(crate) site: &'a Site,
    pub(crate) request: &'a Request,
    /// Knowledge that was possible of a name.
    pub(crate) known: &'a dyn Fn(&[u8]) -> Vec<Known>,
    /// First and last second in which the response may have been made.
    pub(crate) unix: (u64, u64),
}

impl Oracle<'_> {
    /// Responses to a request with a good head, whose content does not prevent one.
    pub(crate) fn answers(&self) -> Vec<Answer> {
        let request = self.request;
        let too_large = request.too_large(&self.site.limits);
        let expects_more = request.expect == Expect::Unknown;
        match (request.verb, &request.goal) {
            (Verb::Unknown, _) => vec![Answer::Page(501)],
            (Verb::Get | Verb::Head, _) if expects_more => vec![Answer::Page(417)],
            (Verb::Refused | Verb::Tunnel, _) => vec![Answer::Page(405)],
            _ if too_large => vec![Answer::Page(413)],
            (Verb::Options, _) => vec![Answer::Options],
            (_, Goal::BadPath | Goal::Server) => vec![Answer::Page(400)],
            (_, Goal::Path(path)) => self.search(path),
        }
    }

    fn search(&self, path: &PathGoal) -> Vec<Answer> {
        let mut answers = Vec::new();
        let rules = &self.site.content;
        if path.hidden && !rules.dotfiles {
            self.not_found(&mut answers);
        } else if !path.trailing_slash {
            self.itself(path, &mut answers);
        } else {
            self.index(path, 0, &mut answers);
        }
        answers
    }

    fn itself(&self, path: &PathGoal, answers: &mut Vec<Answer>) {
        let clean = self.site.content.clean_urls && !path.relative.ends_with(b".html");
        for known in (self.known)(&path.relative) {
            match known.seen {
                Seen::File { .. } => self.file(&path.relative, &known, Role::Itself, answers),
                Seen::Fault(fault) if final_status(fault).is_some() => {
                    answers.extend(final_status(fault).map(Answer::Page));
                }
                seen if clean => self.clean(path, seen == Seen::Directory, answers),
                Seen::Directory => answers.push(Answer::Redirect(path.with_slash.clone())),
                Seen::Fault(_) => self.missing(path, answers),
            }
        }
    }

    fn clean(&self, path: &PathGoal, directory: bool, answers: &mut Vec<Answer>) {
        let name = [&path.relative[..], b".html"].concat();
        for known in (self.known)(&name) {
            match known.seen {
                Seen::File { .. } => self.file(&name, &known, Role::Itself, answers),
                Seen::Fault(fault) if final_status(fault).is_some() => {
                    answers.extend(final_status(fault).map(Answer::Page));
                }
                _ if directory => answers.push(Answer::Redirect(path.with_slash.clone())),
                _ => self.missing(path, answers),
            }
        }
    }

    fn index(&self, path: &PathGoal, at: usize, answers: &mut Vec<Answer>) {
        let Some(index) = self.site.content.index.get(at) else {
            return self.missing(path, answers);
        };
        let mut name = path.relative.clone();
        if !name.is_empty() {
            name.push(b'/');
        }
        name.extend(index.bytes());
        for known in (self.known)(&name) {
            match known.seen {
                Seen::File { .. } => self.file(&name, &known, Role::Itself, answers),
                Seen::Fault(fault) if final_status(fault).is_some() => {
                    answers.extend(final_status(fault).map(Answer::Page));
                }
                _ => self.index(path, at + 1, answers),
            }
        }
    }

    /// Adds responses for a missing file: the fallback of navigations, or the page for 404.
    fn missing(&self, path: &PathGoal, answers: &mut Vec<Answer>) {
        let fallback = self.site.content.fallback.as_bytes();
        let name = path.relative.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        let page = !name.contains(&b'.') || name.ends_with(b".html");
        if fallback.is_empty() || !page || !self.request.navigation {
            return self.not_found(answers);
        }
        for known in (self.known)(fallback) {
            match known.seen {
                Seen::File { .. } => self.file(fallback, &known, Role::Fallback, answers),
                _ => self.not_found(answers),
            }
        }
    }

    fn not_found(&self, answers: &mut Vec<Answer>) {
        let name = self.site.content.not_found.as_bytes();
        if name.is_empty() {
            return answers.push(Answer::Page(404));
        }
        for known in (self.known)(name) {
            match known.seen {
                Seen::File { .. } => self.file(name, &known, Role::NotFound, answers),
                _ => answers.push(Answer::Page(404)),
            }
        }
    }

    fn file(&self, name: &[u8], known: &Known, role: Role, answers: &mut Vec<Answer>) {
        let Seen::File { main, siblings } = known.seen else { return };
        // A coding that is empty or larger than the file itself is not used.
        let worth = 1..=main.len;
        let siblings = siblings.map(|sibling| sibling.filter(|of| worth.contains(&of.len)));
        let coding = match role {
            Role::NotFound => None,
            _ => coding(self.request.accept_encoding.as_deref(), &siblings),
        };
        let id = coding.and_then(|coding| siblings[coding as usize]).unwrap_or(main);
        let now = i64::try_from(known.unix).expect("virtual time is short");
        let shown = Shown {
            name: name.to_vec(),
            id,
            coding,
            role,
            varies: siblings.iter().any(Option::is_some),
            young: id.changed.secs + 1 >= known.asked_unix.cast_signed(),
            modified: (id.modified.secs <= id.changed.secs).then_some(id.modified.secs),
        };
        if role == Role::NotFound {
            return answers.push(Answer::Whole(shown));
        }
        // Try each possible date and second that is not known. A file from the future has the date
        // of the day on which it was first seen.
        let dates = match shown.modified {
            Some(secs) => secs..=secs,
            None => id.changed.secs..=now.min(id.modified.secs),
        };
        for modified in dates {
            for unix in [self.unix.0, self.unix.1] {
                let answer = self.shape(&shown, modified, unix);
                if !answers.contains(&answer) {
                    answers.push(answer);
                }
            }
        }
    }

    /// Decides by RFC 9110 §13.2.2, for a file with one modification date at one second.
    fn shape(&self, shown: &Shown, modified: i64, unix: u64) -> Answer {
        let request = self.request;
        let current = (shown.id, shown.coding, shown.young);
        let dated = modified > UNDATED_SECS_MAX;
        let strongly = |tag: &Tag| !tag.weak && !shown.young && tag.of == Some(current);
        if let Some(tags) = &request.if_match {
            if !lists(tags, strongly) {
                return Answer::Page(412);
            }
        } else if request.if_unmodified_since.is_some_and(|date| dated && modified > date) {
            return Answer::Page(412);
        }
        let unchanged = match &request.if_none_match {
            Some(tags) => lists(tags, |tag| tag.of == Some(current)),
            None => request.if_modified_since.is_some_and(|date| dated && modified == date),
        };
        if unchanged {
            return Answer::NotModified(shown.clone());
        }
        let applies = match request.if_range {
            None => true,
            Some(IfRange::Invalid) => false,
            Some(IfRange::Tag(tag)) => strongly(&tag),
            Some(IfRange::Date(date)) => {
                !shown.young
                    && dated
                    && modified == date
                    && u64::try_from(modified).is_ok_and(|secs| secs < unix)
            }
        };
        match &request.range {
            Some(Range::Spans(spans)) if applies && request.verb == Verb::Get => {
                self.ranges(spans, shown)
            }
            _ => Answer::Whole(shown.clone()),
        }
    }

    fn ranges(&self, spans: &[Span], shown: &Shown) -> Answer {
        let len = shown.id.len;
        let whole = || Answer::Whole(shown.clone());
        if spans.len() > self.site.limits.ranges_max {
            return whole();
        }
        let mut real: Vec<(u64, u64)> = Vec::new();
        for span in spans {
            let (first, last) = match *span {
                Span::Between(first, last) => (first, last),
                Span::From(first) => (first, u64::MAX),
                Span::Suffix(0) => continue,
                Span::Suffix(_) if len == 0 => return whole(),
                Span::Suffix(n) => (len.saturating_sub(n), u64::MAX),
            };
            if first < len {
                real.push((first, last.min(len - 1)));
            }
        }
        let total: u128 = real.iter().map(|(first, last)| u128::from(last - first) + 1).sum();
        if total > u128::from(len) {
            return whole();
        }
        if real.is_empty() {
            return Answer::Unsatisfiable(len);
        }
        Answer::Parts(shown.clone(), united(&real))
    }
}

/// Unites ranges that overlap or touch, in the order of their first members.
fn united(ranges: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut sorted: Vec<_> = ranges.to_vec();
    sorted.sort_unstable();
    let mut unions: Vec<(u64, u64)> = Vec::new();
    for (first, last) in sorted {
        match unions.last_mut() {
            Some(union) if first <= union.1.saturating_add(1) => union.1 = union.1.max(last),
            _ => unions.push((first, last)),
        }
    }
    let place = |union: &(u64, u64)| {
        ranges.iter().position(|range| union.0 <= range.0 && range.1 <= union.1)
    };
    unions.sort_by_key(place);
    unions
}

fn lists(tags: &Tags, matches: impl Fn(&Tag) -> bool) -> bool {
    match tags {
        Tags::Star => true,
        Tags::List(list) => list.iter().any(matches),
    }
}

/// Status that ends a search at a name with this fault.
const fn final_status(fault: OpenFault) -> Option<u16> {
    match fault {
        OpenFault::Denied => Some(403),
        OpenFault::Exhausted | OpenFault::Busy => Some(503),
        OpenFault::Other(_) => Some(500),
        OpenFault::NotFound
        | OpenFault::RootReplaced
        | OpenFault::Outside
        | OpenFault::NotAFile => None,
    }
}

/// Coding to send (RFC 9110 §12.5.3); of equal weights, the server's first. `None`: no coding.
fn coding(
    accepted: Option<&[(&'static str, u16)]>,
    siblings: &[Option<FileId>; 3],
) -> Option<Coding> {
    let accepted = accepted?;
    let weight = |wanted: &[&str]| {
        let found = accepted.iter().find(|(name, _)| wanted.contains(name));
        found.or_else(|| accepted.iter().find(|(name, _)| *name == "*")).map(|(_, weight)| *weight)
    };
    let identity = weight(&["identity"]);
    let names: [&[&str]; 3] = [&["br"], &["zstd"], &["gzip", "x-gzip", "GZip"]];
    let mut best: Option<(Coding, u16)> = None;
    for coding in Coding::ALL {
        if siblings[coding as usize].is_none() {
            continue;
        }
        let weight = weight(names[coding as usize]).unwrap_or(0);
        if weight > best.map_or(0, |(_, weight)| weight) {
            best = Some((coding, weight));
        }
    }
    match best {
        Some((coding, weight)) if weight >= identity.unwrap_or(0) => Some(coding),
        _ => None,
    }
}

/// Faults of a request's content, if it is read: 400 or 413.
pub(crate) fn content_faults(request: &Request, site: &Site) -> Vec<u16> {
    if request.content_stays(&site.limits) {
        return Vec::new();
    }
    match request.content {
        Content::Chunked { bytes, malformed } => {
            let large = bytes > site.limits.discard_body_bytes_max;
            let faults = [(malformed, 400), (large, 413)];
            faults.into_iter().filter(|(is, _)| *is).map(|(_, status)| status).collect()
        }
        Content::None | Content::Length(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::united;

    #[test]
    fn unions_stand_where_their_first_members_stood() {
        assert_eq!(united(&[(9, 9), (0, 1), (2, 3)]), [(9, 9), (0, 3)]);
        assert_eq!(united(&[(4, 5), (0, 1), (2, 3)]), [(0, 5)]);
        assert_eq!(united(&[(0, u64::MAX), (3, 4)]), [(0, u64::MAX)]);
    }
}
