//! Command-line words, read strictly: what is not understood is an error.

/// The words after a command, taken one option at a time.
#[derive(Debug)]
pub(crate) struct Arguments {
    words: Vec<String>,
}

impl Arguments {
    /// Starts from the words after the command's name.
    pub(crate) fn new(words: &[String]) -> Self {
        Self { words: words.to_vec() }
    }

    /// Takes `--name VALUE` or `--name=VALUE`; the last one wins.
    pub(crate) fn text(&mut self, name: &str) -> Result<Option<String>, String> {
        let mut found = None;
        let prefix = format!("{name}=");
        while let Some(at) =
            self.words.iter().position(|word| word == name || word.starts_with(&prefix))
        {
            let word = self.words.remove(at);
            if let Some(value) = word.strip_prefix(&prefix) {
                found = Some(value.to_owned());
            } else if at < self.words.len() && !self.words[at].starts_with("--") {
                found = Some(self.words.remove(at));
            } else {
                return Err(format!("{name} needs a value"));
            }
        }
        Ok(found)
    }

    /// Takes `--name N`, or gives `default`.
    pub(crate) fn number(&mut self, name: &str, default: u64) -> Result<u64, String> {
        match self.text(name)? {
            None => Ok(default),
            Some(text) => text.parse().map_err(|_| format!("{name} {text}: not a whole number")),
        }
    }

    /// Takes the next word that is not an option.
    pub(crate) fn word(&mut self) -> Option<String> {
        let at = self.words.iter().position(|word| !word.starts_with("--"))?;
        Some(self.words.remove(at))
    }

    /// Takes `--name`; true if it was there.
    pub(crate) fn flag(&mut self, name: &str) -> bool {
        let before = self.words.len();
        self.words.retain(|word| word != name);
        self.words.len() < before
    }

    /// Takes everything after `--`: the words of another program.
    pub(crate) fn after_dashes(&mut self) -> Vec<String> {
        let at = self.words.iter().position(|word| word == "--");
        at.map_or_else(Vec::new, |at| self.words.split_off(at).split_off(1))
    }

    /// Ends the reading: any word left over is an error.
    pub(crate) fn finish(self) -> Result<(), String> {
        if self.words.is_empty() {
            Ok(())
        } else {
            Err(format!("not understood: {}", self.words.join(" ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Arguments;

    fn arguments(text: &str) -> Arguments {
        Arguments::new(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_and_words_are_taken() {
        let mut found = arguments("one --rounds 3 --json=x.json two");
        assert_eq!(found.number("--rounds", 9), Ok(3));
        assert_eq!(found.text("--json"), Ok(Some("x.json".to_owned())));
        assert_eq!(found.word().as_deref(), Some("one"));
        assert_eq!(found.word().as_deref(), Some("two"));
        assert_eq!(found.finish(), Ok(()));
    }

    #[test]
    fn the_words_of_another_program_are_its_own() {
        let mut found = arguments("--rounds 3 -- ls --rounds 4 -- x");
        assert_eq!(found.after_dashes(), ["ls", "--rounds", "4", "--", "x"]);
        assert_eq!(found.number("--rounds", 9), Ok(3));
        assert_eq!(found.after_dashes(), Vec::<String>::new());
        assert_eq!(found.finish(), Ok(()));
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert!(arguments("--rounds").number("--rounds", 1).is_err());
        assert!(arguments("--rounds x").number("--rounds", 1).is_err());
        assert!(arguments("--rounds --json y").number("--rounds", 1).is_err());
        assert!(arguments("--odd").finish().is_err());
    }
}
