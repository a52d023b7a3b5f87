//! From a path to the files that may answer for it, one after another.
use crate::{ContentRules, Entry, Representation, Request};
use alloc::{sync::Arc, vec::Vec};
use regatta_http::{Status, target::Path};
use regatta_op::OpenFault;

/// How far the search has come: which name is looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Search {
    step: Step,
    /// True if the path itself is a directory.
    directory: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Step {
    /// The path itself.
    #[default]
    Itself,
    /// The path with `.html` (clean URLs).
    Clean,
    /// An index name in the directory that the path names.
    Index(u8),
    /// What answers navigations to nothing.
    Fallback,
    /// The body of 404 responses.
    NotFound,
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) path: &'a Path<'a>,
    pub(crate) request: &'a Request<'a>,
    pub(crate) rules: &'a ContentRules,
}

/// As what a file answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It is what the target names.
    Itself,
    /// It stands in for whatever a navigation names.
    Fallback,
    /// It says that there is nothing.
    NotFound,
}

/// What a name means for the search.
#[derive(Debug)]
pub(crate) enum Found<F> {
    /// This file answers.
    File(Arc<Representation<F>>, Role),
    /// The target names a directory and should end in a slash.
    Redirect,
    /// Nothing answers but a status.
    Nothing(Status),
    /// Look at the next name.
    Next(Search),
}

impl Search {
    /// The first name to look at.
    #[inline]
    pub(crate) fn start<F>(asked: &Asked<'_>) -> Found<F> {
        if asked.path.hidden && !asked.rules.dotfiles {
            return Self::not_found(asked.rules);
        }
        if !asked.path.trailing_slash {
            return Found::Next(Self::at(Step::Itself));
        }
        if asked.rules.index.is_empty() {
            return Self::missing(asked);
        }
        Found::Next(Self::at(Step::Index(0)))
    }

    /// True if the name to look at is the path itself.
    #[inline]
    pub(crate) fn is_itself(self) -> bool {
        self.step == Step::Itself
    }

    /// The name to look at; `room` is used if it must be put together.
    pub(crate) fn name<'b>(self, asked: &Asked<'b>, room: &'b mut Vec<u8>) -> &'b [u8] {
        let path = asked.path.relative;
        match self.step {
            Step::Itself => path,
            Step::Clean => {
                room.clear();
                room.extend_from_slice(path);
                room.extend_from_slice(b".html");
                room
            }
            Step::Index(at) => {
                let index = asked.rules.index[usize::from(at)].as_bytes();
                if path.is_empty() {
                    return index;
                }
                room.clear();
                room.extend_from_slice(path);
                room.push(b'/');
                room.extend_from_slice(index);
                room
            }
            Step::Fallback => asked.rules.fallback.as_bytes(),
            Step::NotFound => asked.rules.not_found.as_bytes(),
        }
    }

    /// What it means that this name is `entry`.
    #[inline]
    pub(crate) fn consider<F>(self, asked: &Asked<'_>, entry: Entry<F>) -> Found<F> {
        match entry {
            Entry::File(file) => Found::File(file, self.role()),
            Entry::Directory => self.consider_none(asked, None),
            Entry::Missing(fault) => self.consider_none(asked, Some(fault)),
        }
    }

    /// What it means that this name is no file: a directory, or what the fault says.
    #[inline(never)]
    fn consider_none<F>(self, asked: &Asked<'_>, fault: Option<OpenFault>) -> Found<F> {
        let clean = asked.rules.clean_urls && !asked.path.relative.ends_with(b".html");
        match (self.step, fault) {
            (Step::Fallback, _) => Self::not_found(asked.rules),
            (Step::NotFound, _) => Found::Nothing(Status::NOT_FOUND),
            (_, Some(OpenFault::Denied)) => Found::Nothing(Status::FORBIDDEN),
            (_, Some(OpenFault::Exhausted | OpenFault::Busy)) => {
                Found::Nothing(Status::SERVICE_UNAVAILABLE)
            }
            (_, Some(OpenFault::Other(_))) => Found::Nothing(Status::INTERNAL_SERVER_ERROR),
            (Step::Itself, _) if clean => {
                Found::Next(Self { step: Step::Clean, directory: fault.is_none() })
            }
            (Step::Itself, None) => Found::Redirect,
            (Step::Clean, _) if self.directory => Found::Redirect,
            (Step::Index(at), _) if usize::from(at) + 1 < index_names(asked.rules) => {
                Found::Next(Self::at(Step::Index(at + 1)))
            }
            (Step::Itself | Step::Clean | Step::Index(_), _) => Self::missing(asked),
        }
    }

    /// As what a file of this name answers.
    pub(crate) fn role(self) -> Role {
        match self.step {
            Step::Itself | Step::Clean | Step::Index(_) => Role::Itself,
            Step::Fallback => Role::Fallback,
            Step::NotFound => Role::NotFound,
        }
    }

    /// Why this name is looked at, for people.
    pub(crate) fn reason(self) -> &'static str {
        match self.step {
            Step::Itself => "the path itself",
            Step::Clean => "the path with .html (content.clean_urls)",
            Step::Index(_) => "an index name (content.index)",
            Step::Fallback => "what answers navigations (content.fallback)",
            Step::NotFound => "the body of 404 responses (content.not_found)",
        }
    }

    const fn at(step: Step) -> Self {
        Self { step, directory: false }
    }

    fn missing<F>(asked: &Asked<'_>) -> Found<F> {
        if !asked.rules.fallback.is_empty() && is_navigation(asked) {
            return Found::Next(Self::at(Step::Fallback));
        }
        Self::not_found(asked.rules)
    }

    fn not_found<F>(rules: &ContentRules) -> Found<F> {
        if rules.not_found.is_empty() {
            return Found::Nothing(Status::NOT_FOUND);
        }
        Found::Next(Self::at(Step::NotFound))
    }
}

/// How many index names are looked at: all that a byte can number.
fn index_names(rules: &ContentRules) -> usize {
    rules.index.len().min(usize::from(u8::MAX))
}

/// True if the request is for a page to show and not for a part of one: the last segment has no
/// suffix but `.html`, and the fields say that a document is wanted.
///
/// A missing script must be a 404, or a browser runs the fallback page as a script.
fn is_navigation(asked: &Asked<'_>) -> bool {
    let name = asked.path.relative.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    if name.contains(&b'.') && !name.ends_with(b".html") {
        return false;
    }
    asked.request.destination.is_document()
}
