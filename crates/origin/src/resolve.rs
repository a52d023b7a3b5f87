//! Finding the file that answers for a path: which names are tried, in which order.
use crate::{
    ContentRules, Entry, Representation, Request, Site,
    location::Room,
    rules::{Redirects, Ruled},
};
use alloc::{sync::Arc, vec::Vec};
use regatta_http::{Status, target::Path};
use regatta_op::OpenFault;

/// The state of a search: the name that is tried.
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
    /// The folder that the path names, without an index: whether it is there to be listed.
    Folder,
    /// The listing of that folder.
    Listing,
    /// The page for navigations to paths that do not exist.
    Fallback,
    /// The file that a redirect names, and the status that it is sent with.
    Rule(Status),
    /// The body of 404 responses.
    NotFound,
}

/// Subject of a search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    pub(crate) path: &'a Path<'a>,
    pub(crate) request: &'a Request<'a>,
    pub(crate) rules: &'a ContentRules,
    pub(crate) redirects: &'a Redirects,
    /// The kernel can send a file itself to the client: it speaks HTTP/1 in the clear.
    pub(crate) takes_files: bool,
    /// Longest body that is sent to it from memory, bytes.
    pub(crate) body_bytes_max: u64,
}

impl<'a> Target<'a> {
    #[inline(always)]
    pub(crate) fn new(
        path: &'a Path<'a>,
        request: &'a Request<'a>,
        site: &'a Site,
        takes_files: bool,
    ) -> Self {
        let (rules, redirects) = (&site.content, &site.rules.redirects);
        let body_bytes_max = site.caching.body_bytes_max_of(takes_files);
        Self { path, request, rules, redirects, takes_files, body_bytes_max }
    }
}

/// Role of a file that answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The file that the target names.
    Itself,
    /// The answer to a navigation to a path that does not exist.
    Fallback,
    /// The body of a response with this status: 404 or 410.
    Instead(Status),
}

/// The result of trying a name.
#[derive(Debug)]
pub(crate) enum Resolved<F> {
    /// This file answers.
    File(Arc<Representation<F>>, Role),
    /// The target names a directory and should end in a slash.
    Redirect,
    /// A rule leads elsewhere, with this status.
    Elsewhere(Status, Vec<u8>),
    /// No file answers: a status does.
    Nothing(Status),
    /// No file answers: the text of a rule does.
    Answer(Status, Arc<str>),
    /// Try the next name.
    Next(Search),
}

impl Search {
    /// The first name to try.
    #[inline]
    pub(crate) fn start<F>(target: &Target<'_>) -> Resolved<F> {
        if target.rules.hides(target.path).is_some() {
            return Self::not_found(target.rules);
        }
        if let Some(ruled) = target.redirects.before_files(target.path) {
            return Self::ruled(ruled);
        }
        if !target.path.trailing_slash {
            return Resolved::Next(Self::at(Step::Itself));
        }
        if target.rules.index.is_empty() {
            return Self::without_index(target);
        }
        Resolved::Next(Self::at(Step::Index(0)))
    }

    /// True if the path itself is tried.
    #[inline]
    pub(crate) fn is_itself(self) -> bool {
        self.step == Step::Itself
    }

    /// True if a listing of the folder is wanted, and no name is tried.
    pub(crate) fn is_listing(self) -> bool {
        self.step == Step::Listing
    }

    /// True if a rule names the file.
    pub(crate) fn is_rule(self) -> bool {
        matches!(self.step, Step::Rule(_))
    }

    /// The name to try; it is put together in `room` if necessary. `None` if a rule makes a path
    /// that a request could not ask for.
    pub(crate) fn name<'b>(self, target: &Target<'b>, room: &'b mut Room) -> Option<&'b [u8]> {
        let path = target.path.relative;
        let mut joined = |parts: [&[u8]; 3]| {
            room.name.clear();
            parts.into_iter().for_each(|part| room.name.extend_from_slice(part));
        };
        match self.step {
            Step::Itself => return Some(path),
            Step::Clean => joined([path, b".html", b""]),
            Step::Index(at) => {
                let index = target.rules.index[usize::from(at)].as_bytes();
                if path.is_empty() {
                    return Some(index);
                }
                joined([path, b"/", index]);
            }
            Step::Folder => joined([path, b"/", b""]),
            Step::Listing => return Some(path),
            Step::Fallback => return Some(target.rules.fallback.as_bytes()),
            Step::Rule(_) => {
                let file = target.redirects.file(path, room)?;
                return target.rules.hides(&file).is_none().then_some(file.relative);
            }
            Step::NotFound => return Some(target.rules.not_found.as_bytes()),
        }
        Some(&room.name)
    }

    /// Continues the search: this name is `entry`.
    #[inline]
    pub(crate) fn consider<F>(self, target: &Target<'_>, entry: Entry<F>) -> Resolved<F> {
        match entry {
            Entry::File(file) => Resolved::File(file, self.role()),
            Entry::Directory => self.consider_none(target, None),
            Entry::Missing(fault) => self.consider_none(target, Some(fault)),
        }
    }

    /// Continues the search: this name is a directory, or cannot be opened.
    #[inline(never)]
    fn consider_none<F>(self, target: &Target<'_>, fault: Option<OpenFault>) -> Resolved<F> {
        let clean = target.rules.clean_urls && !target.path.relative.ends_with(b".html");
        match (self.step, fault) {
            (Step::Fallback | Step::Rule(Status::OK), _) => Self::not_found(target.rules),
            (Step::Rule(status), _) => Resolved::Nothing(status),
            (Step::NotFound, _) => Resolved::Nothing(Status::NOT_FOUND),
            (_, Some(OpenFault::Denied)) => Resolved::Nothing(Status::FORBIDDEN),
            (_, Some(OpenFault::Exhausted | OpenFault::Busy)) => {
                Resolved::Nothing(Status::SERVICE_UNAVAILABLE)
            }
            (_, Some(OpenFault::Other(_))) => Resolved::Nothing(Status::INTERNAL_SERVER_ERROR),
            (Step::Itself, _) if clean => {
                Resolved::Next(Self { step: Step::Clean, directory: fault.is_none() })
            }
            (Step::Itself, None) => Resolved::Redirect,
            (Step::Clean, _) if self.directory => Resolved::Redirect,
            (Step::Index(at), _) if usize::from(at) + 1 < index_names(target.rules) => {
                Resolved::Next(Self::at(Step::Index(at + 1)))
            }
            (Step::Index(_), _) => Self::without_index(target),
            (Step::Folder, None) => Resolved::Next(Self::at(Step::Listing)),
            (Step::Itself | Step::Clean | Step::Folder | Step::Listing, _) => Self::missing(target),
        }
    }

    /// Role of a file of this name.
    pub(crate) fn role(self) -> Role {
        match self.step {
            Step::Itself | Step::Clean | Step::Index(_) | Step::Folder | Step::Listing => {
                Role::Itself
            }
            Step::Rule(Status::OK) => Role::Itself,
            Step::Rule(status) => Role::Instead(status),
            Step::Fallback => Role::Fallback,
            Step::NotFound => Role::Instead(Status::NOT_FOUND),
        }
    }

    /// Reason why this name is tried, for people.
    pub(crate) fn reason(self) -> &'static str {
        match self.step {
            Step::Itself => "the path itself",
            Step::Clean => "the path with .html (content.clean_urls)",
            Step::Index(_) => "an index name (content.index)",
            Step::Folder | Step::Listing => "the folder to list (content.listing)",
            Step::Fallback => "what answers navigations (content.fallback)",
            Step::Rule(_) => "the file that a rule names (redirects)",
            Step::NotFound => "the body of 404 responses (content.not_found)",
        }
    }

    const fn at(step: Step) -> Self {
        Self { step, directory: false }
    }

    /// No index answers for a folder, if it is one.
    fn without_index<F>(target: &Target<'_>) -> Resolved<F> {
        match target.path.relative {
            _ if !target.rules.listing => Self::missing(target),
            // The root is there.
            [] => Resolved::Next(Self::at(Step::Listing)),
            _ => Resolved::Next(Self::at(Step::Folder)),
        }
    }

    fn missing<F>(target: &Target<'_>) -> Resolved<F> {
        if let Some(ruled) = target.redirects.without_file(target.path) {
            return Self::ruled(ruled);
        }
        if !target.rules.fallback.is_empty() && fallback_skipped(target).is_none() {
            return Resolved::Next(Self::at(Step::Fallback));
        }
        Self::not_found(target.rules)
    }

    fn ruled<F>(ruled: Ruled) -> Resolved<F> {
        match ruled {
            Ruled::Elsewhere(status, location) => Resolved::Elsewhere(status, location),
            Ruled::File(status) => Resolved::Next(Self::at(Step::Rule(status))),
            Ruled::Nothing(status) => Resolved::Nothing(status),
            Ruled::Answer(status, text) => Resolved::Answer(status, text),
        }
    }

    fn not_found<F>(rules: &ContentRules) -> Resolved<F> {
        if rules.not_found.is_empty() {
            return Resolved::Nothing(Status::NOT_FOUND);
        }
        Resolved::Next(Self::at(Step::NotFound))
    }
}

/// Number of index names that are tried, at most as many as a byte can number.
fn index_names(rules: &ContentRules) -> usize {
    rules.index.len().min(usize::from(u8::MAX))
}

/// Reason why the fallback does not answer; `None` if it does. The last segment has no suffix but
/// `.html`, and the fields say that a document is wanted, unless the fallback is for all.
///
/// A missing script must be a 404, or a browser runs the fallback page as a script.
pub(crate) fn fallback_skipped(target: &Target<'_>) -> Option<&'static str> {
    let name = target.path.relative.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    if name.contains(&b'.') && !name.ends_with(b".html") {
        return Some("the last part of the path has a suffix");
    }
    let answers = target.rules.fallback_for_all || target.request.destination.is_document();
    (!answers).then_some(
        "the fields Sec-Fetch-Dest and Accept ask for no document (content.fallback_for)",
    )
}
