//! The table of histograms: each one's name, unit and sentence.

macro_rules! histograms {
    ($($variant:ident $name:literal $unit:literal $doc:literal;)*) => {
        /// A distribution that each worker keeps.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(usize)]
        pub enum Histogram {
            $(#[doc = $doc] $variant,)*
        }

        impl Histogram {
            /// All histograms, in the order of their words in a slot.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name, in `snake_case`; the same in all architectures and in every output.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The unit: `ns` or `count`.
            #[must_use]
            pub const fn unit(self) -> &'static str {
                match self { $(Self::$variant => $unit,)* }
            }

            /// Description of the recorded value: one sentence.
            #[must_use]
            pub const fn doc(self) -> &'static str {
                match self { $(Self::$variant => $doc,)* }
            }
        }
    };
}

histograms! {
    TurnNs "turn_ns" "ns"
        "Duration of one turn of one connection; an event loop times one turn in 64.";
    LoopNs "loop_ns" "ns" "Duration of one round of the event loop, without the wait.";
    RequestNs "request_ns" "ns"
        "Time from reading a request to giving its whole response to the kernel; one request in \
         64 is timed. Over HTTP/2 the time is from the first stream of a busy time until the \
         connection is idle.";
    AcceptsPerNotification "accepts_per_notification" "count"
        "Connections accepted after one notification of the listener.";
    EventsPerWait "events_per_wait" "count" "Events returned by one call that waits for them.";
}

/// The number of histograms.
pub(crate) const HISTOGRAMS: usize = Histogram::ALL.len();

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Counter, Gauge};

    #[test]
    fn names_are_unique_and_units_known() {
        for (index, histogram) in Histogram::ALL.iter().enumerate() {
            assert_eq!(*histogram as usize, index);
            let name = histogram.name();
            assert!(Counter::ALL.iter().all(|counter| counter.name() != name));
            assert!(Gauge::ALL.iter().all(|gauge| gauge.name() != name));
            let unit = if name.ends_with("_ns") { "ns" } else { "count" };
            assert_eq!(histogram.unit(), unit);
            assert!(histogram.doc().ends_with('.'));
        }
    }
}
