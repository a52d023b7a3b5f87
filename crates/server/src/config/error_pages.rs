//! Files that are the owner's pages for errors.
use crate::{
    config::raw::{Problem, Said},
    messages,
};
use regatta_http::Status;

/// Option that names them.
pub(crate) const KEY: &str = "content.error_pages";

const FORM: &str = "as in 503=errors/503.html, the path of a file below the root";

/// Lists statuses with a page, each with the name of its file. Faults go to `problems`.
pub(crate) fn list_pages<'s>(
    said: &'s Said,
    problems: &mut Vec<Problem>,
) -> Vec<(Status, &'s str)> {
    let mut named: Vec<(Status, &str)> = Vec::new();
    for item in said.settings.list(KEY) {
        match parse(item) {
            Ok((status, _)) if named.iter().any(|(other, _)| *other == status) => {
                problems.push(said.problem(
                    messages::BAD_VALUE,
                    KEY,
                    &format!("{} has more than one page", status.0),
                ));
            }
            Ok(page) => named.push(page),
            Err(hint) => {
                let message = format!("\"{item}\" is not a page for an error");
                problems.push(said.problem(messages::BAD_VALUE, KEY, &message).hint(hint));
            }
        }
    }
    named
}

fn parse(item: &str) -> Result<(Status, &str), &'static str> {
    let (code, path) = item.split_once('=').ok_or(FORM)?;
    let (status, path) = (Status(code.trim().parse::<u16>().map_err(|_| FORM)?), path.trim());
    let bad = |segment: &str| matches!(segment, "" | "." | "..");
    if path.split('/').any(bad) || path.contains('\0') {
        return Err(FORM);
    }
    if status == Status::NOT_FOUND {
        return Err("content.not_found names the page for 404");
    }
    if !matches!(status.class(), 4 | 5) || !Status::ALL.contains(&status) {
        return Err("the server sends no such error");
    }
    Ok((status, path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::raw::tests::of_sets;

    #[test]
    fn pages_are_named_or_explained() {
        let set = "content.error_pages=503=e/503.html, 403 = e.html,404=a,503=b,200=c,499=d,\
                   502=d,500=/e,500=../e,5xx=e,500";
        let mut problems = Vec::new();
        let said = of_sets(&[set]);
        let found = list_pages(&said, &mut problems);
        let expected = [(Status::SERVICE_UNAVAILABLE, "e/503.html"), (Status::FORBIDDEN, "e.html")];
        assert_eq!(found, expected);
        let hints: Vec<_> = problems.iter().map(|problem| problem.hint.as_deref()).collect();
        let unsent = "the server sends no such error";
        let of_404 = Some("content.not_found names the page for 404");
        let forms = [Some(FORM); 4];
        let unsent = [Some(unsent); 3];
        assert_eq!(hints[..2], [of_404, None]);
        assert_eq!(hints[2..5], unsent);
        assert_eq!(hints[5..], forms);
    }
}
