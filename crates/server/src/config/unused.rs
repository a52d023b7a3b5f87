//! Options that were set, and have no effect under the chosen architecture.
use crate::{
    config::{
        options,
        raw::{Problem, Said},
    },
    messages,
};
use regatta_arch::{ARCHITECTURES, Architecture};

/// Warns of each.
pub(super) fn warnings(said: &Said, architecture: &Architecture) -> Vec<Problem> {
    let given = options::all().filter(|spec| said.is_said(spec.key));
    given.filter_map(|spec| warning(said, architecture, spec.key)).collect()
}

fn warning(said: &Said, architecture: &Architecture, key: &str) -> Option<Problem> {
    let Architecture { name, driver, .. } = architecture;
    if driver.ignores.contains(&key) {
        let found = said.problem(messages::OPTION_UNUSED, key, &format!("no effect with {name}"));
        return Some(found.hint(format!("docs/arch/{name}.md says why; leave it out")));
    }
    if driver.takes(key) || options::is_ours(key) {
        return None;
    }
    let (_, last) = key.rsplit_once('.')?;
    let same = driver
        .options
        .iter()
        .find(|spec| spec.key.rsplit_once('.').is_some_and(|(_, name)| name == last));
    let instead = match same {
        Some(spec) => format!("set {}", spec.key),
        None => "leave it out".to_owned(),
    };
    let takes = ARCHITECTURES.iter().find(|other| other.driver.takes(key))?;
    let found = said.problem(messages::OPTION_UNUSED, key, &format!("{name} has no such option"));
    let hint = format!("{instead}, or choose an architecture that has it, such as {}", takes.name);
    Some(found.hint(hint))
}

#[cfg(test)]
mod tests {
    use super::warnings;
    use crate::config::raw::{Arguments, read};

    /// Warnings as text.
    fn warned(architecture: &str, set: &str) -> Vec<String> {
        let sets = [format!("server.architecture={architecture}"), set.to_owned()];
        let (said, problems) = read(None, &Arguments { flags: Vec::new(), sets: sets.into() });
        assert_eq!(problems, []);
        let architecture = regatta_arch::find(architecture).expect("a name of the table");
        warnings(&said, architecture).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_option_of_another_architecture_is_named_with_its_like() {
        assert_eq!(
            warned("knot-c", "event.poller=epoll"),
            ["--set event.poller=epoll: event.poller: knot-c has no such option\n  hint: set \
              fiber.poller, or choose an architecture that has it, such as sped"]
        );
        for (architecture, set) in [
            ("watpipe5", "stages.bucket=7"),
            ("sped", "amped.helpers_max=1"),
            ("watpipe5", "accept.on_close=true"),
            ("bio", "accept.full_read=true"),
        ] {
            assert_eq!(warned(architecture, set).len(), 1, "{architecture} {set}");
        }
        for (architecture, set) in [
            ("knot-c", "fiber.poller=epoll"),
            ("watpipe5", "stages.pool_control=queue"),
            ("seda", "stages.bucket=7"),
            ("sped", "accept.on_close=true"),
            ("mt", "limits.idle_ms_max=1s"),
        ] {
            assert_eq!(warned(architecture, set), [""; 0], "{architecture} {set}");
        }
    }
}
