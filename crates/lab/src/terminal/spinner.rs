//! A line on the terminal about work that lasts and whose end nobody knows.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Work that takes no longer is not spoken of.
const SILENCE: Duration = Duration::from_secs(2);
/// Between two pictures.
const STEP: Duration = Duration::from_millis(100);

/// Work under way, which is shown while it lasts: until this is dropped.
#[derive(Debug)]
pub struct Working {
    /// Dropped when it is done.
    under_way: Option<Sender<()>>,
    shows: Option<JoinHandle<()>>,
}

impl Working {
    /// Begins to work on `what`, which a terminal on standard error shows if it takes over 2 s.
    pub fn on(what: &'static str) -> Self {
        Self::after(SILENCE, what, ProgressDrawTarget::stderr())
    }

    fn after(silence: Duration, what: &'static str, target: ProgressDrawTarget) -> Self {
        let (under_way, done) = channel::<()>();
        let bar = ProgressBar::hidden();
        let show = move || {
            if done.recv_timeout(silence) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            let style = ProgressStyle::with_template("{spinner} {elapsed}  {msg}");
            bar.set_style(style.expect("the template is constant"));
            bar.set_message(what);
            bar.set_draw_target(target);
            bar.tick();
            while done.recv_timeout(STEP) == Err(RecvTimeoutError::Timeout) {
                bar.tick();
            }
            bar.finish_and_clear();
        };
        // Where there is no thread to be had, nothing is shown.
        Self { under_way: Some(under_way), shows: Builder::new().spawn(show).ok() }
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        drop(self.under_way.take());
        // What is printed next begins on a line of its own.
        if let Some(shows) = self.shows.take() {
            let _ = shows.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::TermLike;
    use std::io;
    use std::sync::{Arc, Mutex};
    use std::time::Instant;

    /// What a terminal was given: text, and the word for a line that was cleared.
    #[derive(Clone, Debug, Default)]
    struct Terminal(Arc<Mutex<Vec<String>>>);

    impl Terminal {
        fn add(&self, text: &str) -> io::Result<()> {
            self.0.lock().unwrap().push(text.to_owned());
            Ok(())
        }

        fn said(&self) -> String {
            self.0.lock().unwrap().concat()
        }
    }

    impl TermLike for Terminal {
        fn width(&self) -> u16 {
            80
        }

        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn write_line(&self, text: &str) -> io::Result<()> {
            self.add(text)
        }

        fn write_str(&self, text: &str) -> io::Result<()> {
            self.add(text)
        }

        fn clear_line(&self) -> io::Result<()> {
            self.add("<cleared>")
        }

        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    fn work(silence: Duration) -> (Working, Terminal) {
        let terminal = Terminal::default();
        let target = ProgressDrawTarget::term_like(Box::new(terminal.clone()));
        (Working::after(silence, "counting stars", target), terminal)
    }

    #[test]
    fn work_that_lasts_is_shown_until_it_is_done() {
        let (working, terminal) = work(Duration::ZERO);
        let start = Instant::now();
        while !terminal.said().contains("counting stars") {
            assert!(start.elapsed() < Duration::from_secs(60), "{}", terminal.said());
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(working);
        assert!(terminal.said().ends_with("<cleared>"), "{}", terminal.said());
    }

    #[test]
    fn work_that_is_soon_done_is_not() {
        let (working, terminal) = work(Duration::from_secs(3_600));
        drop(working);
        assert_eq!(terminal.said(), "");
    }
}
