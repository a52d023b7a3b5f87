//! Hints of `regatta load` for words of other load generators.

use clap::error::{ContextKind, ContextValue, Error, ErrorKind};

/// Words of other tools, with the options that do the same here.
const WORDS: &[(&[&str], &str)] = &[
    (&["-q", "--rps"], "a rate is --rate R, in requests per second over all connections"),
    (&["-r", "-rate"], "vegeta's -rate R is --rate R; ab's -r is the default: errors are counted"),
    (&["-L", "--latency"], "percentiles are always printed: leave this out"),
    (&["--latency-correction"], "--rate R measures each time from when its request was due"),
    (
        &["-s", "--script", "run"],
        "no scripts: give the URL, with -c N for N users, --urls, --body or --sessions",
    ),
    (&["-p"], "ab's -p FILE is --body-file FILE; oha's -p N is --streams N"),
    (&["-D"], "a content from a file is --body-file FILE"),
    (&["-T"], "the type of a content is --content-type TYPE"),
    (&["-A", "-a"], "a user and a password are -H 'Authorization: Basic BASE64'"),
    (&["-C"], "cookies are -H 'Cookie: NAME=VALUE'"),
    (&["-i"], "ab's -i is --head; k6's -i N is -n N"),
    (&["-u", "--vus"], "N users that wait for their answers are -c N"),
    (&["--iterations"], "a number of requests is -n N"),
    (&["--stage"], "a rate in stages is --rate FROM:TO, or --rate R@SECONDS,R@SECONDS"),
    (&["--disable-keepalive", "-disable-keepalive"], "that is --requests-per-connection 1"),
    (&["--redirect", "-disable-redirects"], "redirects are counted and never followed"),
    (&["--no-tui"], "no live view is --quiet"),
    (&["-o", "--output", "--output-format", "--out", "-e", "-g", "-w"], FILES),
    (&["-h2"], "HTTP/2 is --http2"),
    (&["--h1"], "HTTP/1.1 is --http1"),
    (&["-host"], "the field Host is -H 'Host: NAME'"),
];

const FILES: &str = "results go to --json, --csv FILE, --hgrm FILE or --html FILE";

/// Adds to an error what the user of another tool should write.
pub(crate) fn explain(mut error: Error, arguments: &[String]) -> Error {
    if arguments.get(1).is_none_or(|command| command != "load") {
        return error;
    }
    let Some(hint) = hint(&error, &arguments[2..]) else { return error };
    if error.kind() == ErrorKind::DisplayHelp {
        // -h2 is a request for help to clap.
        return Error::raw(ErrorKind::UnknownArgument, format!("{hint}\n"));
    }
    error.remove(ContextKind::SuggestedArg);
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint.into()]));
    error
}

fn of_word(word: &str) -> Option<&'static (&'static [&'static str], &'static str)> {
    WORDS.iter().find(|(words, _)| words.contains(&word))
}

fn hint(error: &Error, arguments: &[String]) -> Option<&'static str> {
    let named = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(text)) => text.split([' ', '=']).next().unwrap_or_default(),
        _ => "",
    };
    // Clap takes a long name after one dash for several short ones.
    let is_long = |word: &str| word.len() > 2 && !word.starts_with("--");
    let long =
        || arguments.iter().map(String::as_str).filter(|word| is_long(word)).find_map(of_word);
    if let Some((_, hint)) = long().or_else(|| of_word(named)) {
        return Some(hint);
    }
    match (error.kind(), named) {
        (ErrorKind::ArgumentConflict, "--closed" | "--rate") => {
            Some("a rate makes the connections that it needs; --connections-max N limits them")
        }
        (ErrorKind::ValueValidation, "--duration") => {
            Some("-d is the length, as in wrk; a content (-d in oha and hey) is --body TEXT")
        }
        (ErrorKind::ValueValidation, "--threads") => {
            Some("-t is the number of threads, as in wrk; a time-out is --timeout TIME")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cli;
    use clap::Parser;

    fn parse(words: &str) -> Result<Cli, String> {
        let arguments: Vec<String> =
            format!("regatta-lab load {words}").split_whitespace().map(str::to_owned).collect();
        let parsed = Cli::try_parse_from(&arguments);
        parsed.map_err(|error| explain(error, &arguments).to_string())
    }

    /// Commands of other tools, without the tool's name. Most work; the others say what does.
    #[test]
    fn commands_of_other_tools_work_or_say_what_does() {
        for (words, hint) in [
            ("-t2 -c100 -d30s http://h/", None),
            ("-t2 -c100 -d30s -H X:y --timeout 2s http://h/", None),
            ("-t2 -c100 -d30s --latency http://h/", Some("always printed")),
            ("-t2 -c100 -d30s -s post.lua http://h/", Some("no scripts")),
            ("-t2 -c100 -d30s -R2000 http://h/", Some("--connections-max N")),
            ("-t2 -d30s -R2000 http://h/", None),
            ("-z 10s -c 50 http://h/", None),
            ("-n 200 -c 50 -m PUT http://h/", None),
            ("-z 10s -q 50 -c 10 http://h/", Some("--rate R")),
            ("-n 10 -d a=1 -m POST http://h/", Some("--body TEXT")),
            ("-n 10 -m POST -D f http://h/", Some("--body-file")),
            ("-n 10 -h2 https://h/", Some("--http2")),
            ("-n 10 -disable-keepalive http://h/", Some("--requests-per-connection 1")),
            ("--http2 -c 4 -p 32 https://h/", Some("--streams N")),
            ("-n 1000 -c 50 http://h/", None),
            ("-n 10 -p f -T text/plain http://h/", Some("--body-file")),
            ("-n 10 -T text/plain http://h/", Some("--content-type")),
            ("-c 4 -m 32 https://h/", Some("--streams 32")),
            ("run --vus 10 script.js", Some("-c N")),
            ("run script.js", Some("no scripts")),
            ("-rate 2000 -duration 30s http://h/", Some("--rate R")),
        ] {
            match (parse(words), hint) {
                (Ok(_), None) => {}
                (Err(said), Some(hint)) => assert!(said.contains(hint), "{words}: {said}"),
                (parsed, _) => panic!("{words}: {parsed:?}"),
            }
        }
    }

    /// No hint is about an option that exists.
    #[test]
    fn hints_are_for_words_that_are_no_options() {
        for word in WORDS.iter().flat_map(|(words, _)| *words) {
            let said = parse(&format!("{word} http://h/")).unwrap_err();
            let hint = of_word(word).map(|(_, hint)| *hint);
            assert!(hint.is_some_and(|hint| said.contains(hint)), "{word}: {said}");
        }
    }
}
