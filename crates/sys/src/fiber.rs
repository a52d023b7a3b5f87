//! User threads: straight-line code on stacks of its own. One runs at a time, in the kernel thread
//! that resumes it, and yields where it waits.
mod stack;

pub use stack::{Guard, STACK_BYTES_MIN, Stacks, has_light_guards};

use crate::stack_pages::release_unused;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use stack::Stack;
use std::{fmt, io, marker::PhantomData, ops::Range};

/// Most bytes that a life brings along on its stack.
const LIFE_BYTES_MAX: usize = 1024;
const _: () = assert!(LIFE_BYTES_MAX < STACK_BYTES_MIN / 2);

/// Lends user threads to `run`, and returns when they have ended. They may borrow from outside.
///
/// A life that still waits when `run` has returned is unwound, as by a panic; where panics abort,
/// the process ends.
pub fn scope<'f, In: 'f, Out: 'f, R>(
    stacks: Stacks,
    run: impl FnOnce(&mut Fibers<'f, In, Out>) -> R,
) -> R {
    let lives = Vec::with_capacity(stacks.left());
    run(&mut Fibers { lives, stacks, borrows: PhantomData })
}

/// User threads, which receive an `In` when they are resumed, and yield an `Out` when they wait.
/// [`scope`] makes, owns and lends them.
pub struct Fibers<'f, In, Out> {
    lives: Vec<Coroutine<In, Out, (), Stack>>,
    stacks: Stacks,
    borrows: PhantomData<&'f mut &'f ()>,
}

impl<'f, In: 'f, Out: 'f> Fibers<'f, In, Out> {
    /// Makes a user thread, which runs when it is first resumed. Returns its number, from 0 on.
    ///
    /// # Errors
    /// No stack is left.
    pub fn start<L: FnOnce(&Turns<'_, In, Out>, In) + 'f>(&mut self, life: L) -> io::Result<usize> {
        const { assert!(size_of::<L>() <= LIFE_BYTES_MAX, "it lies on its stack") }
        let stack = self.stacks.take().ok_or(io::ErrorKind::OutOfMemory)?;
        let pages = stack.pages();
        let life = move |yielder: &Yielder<In, Out>, first: In| {
            life(&Turns { yielder, stack: pages }, first);
        };
        // SAFETY: what the life borrows, and what an `In` and an `Out` do, is valid for 'f, which
        // is longer than the call of `scope`. Its frame owns each coroutine: no other code can make
        // a `Fibers` or have it by value. It drops each, which unwinds it, before it returns. The
        // stack has room for what the life brings along, as is asserted above.
        let life = unsafe { Coroutine::with_stack_unchecked(stack, life) };
        self.lives.push(life);
        Ok(self.lives.len() - 1)
    }

    /// Runs a user thread until it waits and returns what it yields; `None` when its life is over.
    ///
    /// # Panics
    /// If there is no such user thread, its life was over before, or it panics.
    #[inline]
    pub fn resume(&mut self, at: usize, with: In) -> Option<Out> {
        match self.lives[at].resume(with) {
            CoroutineResult::Yield(out) => Some(out),
            CoroutineResult::Return(()) => None,
        }
    }

    /// Bytes of its stack that a user thread has ever used, in whole pages.
    ///
    /// # Panics
    /// If there is no such user thread.
    #[must_use]
    pub fn stack_bytes_touched(&self, at: usize) -> usize {
        self.stacks.bytes_touched(at)
    }
}

impl<In, Out> fmt::Debug for Fibers<'_, In, Out> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut told = f.debug_struct("Fibers");
        told.field("lives", &self.lives.len()).field("stacks", &self.stacks).finish_non_exhaustive()
    }
}

/// Handle with which a user thread waits.
pub struct Turns<'y, In, Out> {
    yielder: &'y Yielder<In, Out>,
    /// Addresses of the pages of its stack.
    stack: Range<usize>,
}

impl<In, Out> Turns<'_, In, Out> {
    /// Yields `out` to the caller of [`Fibers::resume`], and waits until it is resumed.
    #[inline]
    pub fn wait(&self, out: Out) -> In {
        self.yielder.suspend(out)
    }

    /// Releases the pages of its stack that earlier, deeper calls have touched. They take memory
    /// again when they are touched.
    pub fn release_stack(&self) {
        // SAFETY: the pages are those of the user thread's own stack, which grows downward and is
        // mapped while its life runs, and so while `self` exists. Only its frames are there: what
        // the life brings along is at the top.
        unsafe { release_unused(&self.stack) };
    }
}

impl<In, Out> fmt::Debug for Turns<'_, In, Out> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Turns")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        cell::{Cell, RefCell},
        panic::{self, AssertUnwindSafe},
    };

    fn stacks(count: usize) -> Stacks {
        Stacks::new(count, 256 << 10, Guard::Mapping).unwrap()
    }

    struct Dropped<'a>(&'a Cell<u32>);

    impl Drop for Dropped<'_> {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }

    #[test]
    fn lives_take_turns_and_borrow_from_outside() {
        let seen = RefCell::new(Vec::new());
        let sums = scope(stacks(2), |fibers| {
            for name in ["a", "b"] {
                let seen = &seen;
                let life = move |turns: &Turns<'_, u32, u32>, mut with: u32| {
                    let mut sum = 0;
                    while with > 0 {
                        seen.borrow_mut().push((name, with));
                        sum += with;
                        with = turns.wait(sum);
                    }
                };
                fibers.start(life).unwrap();
            }
            let mut sums = Vec::new();
            for (at, with) in [(1, 5), (0, 2), (1, 1), (0, 0), (1, 3), (1, 0)] {
                sums.push(fibers.resume(at, with));
            }
            sums
        });
        assert_eq!(sums, [Some(5), Some(2), Some(6), None, Some(9), None]);
        assert_eq!(seen.into_inner(), [("b", 5), ("a", 2), ("b", 1), ("b", 3)]);
    }

    #[test]
    fn a_scope_ends_when_all_lives_have() {
        let dropped = Cell::new(0);
        scope(stacks(3), |fibers| {
            let [captured, on_stack] = [Dropped(&dropped), Dropped(&dropped)];
            fibers.start(move |_: &Turns<'_, (), ()>, ()| drop(captured)).unwrap();
            let waits = move |turns: &Turns<'_, (), ()>, ()| {
                let on_stack = on_stack;
                loop {
                    turns.wait(());
                    assert_eq!(on_stack.0.get(), 0, "it is not unwound before the scope ends");
                }
            };
            fibers.start(waits).unwrap();
            assert_eq!(fibers.resume(1, ()), Some(()));
            assert_eq!(fibers.resume(1, ()), Some(()));
            assert_eq!(dropped.get(), 0);
        });
        assert_eq!(dropped.get(), 2, "one that never ran, and one that waits");
    }

    #[test]
    fn a_panic_reaches_whoever_resumes_and_ends_the_others() {
        let dropped = Cell::new(0);
        let ended = panic::catch_unwind(AssertUnwindSafe(|| {
            scope(stacks(2), |fibers| {
                let on_stack = Dropped(&dropped);
                let waits = move |turns: &Turns<'_, (), ()>, ()| {
                    let _on_stack = on_stack;
                    turns.wait(());
                };
                fibers.start(waits).unwrap();
                fibers.start(|_, ()| panic::resume_unwind(Box::new("in a life"))).unwrap();
                fibers.resume(0, ());
                fibers.resume(1, ());
            });
        }));
        assert_eq!(ended.unwrap_err().downcast_ref(), Some(&"in a life"));
        assert_eq!(dropped.get(), 1);
    }

    #[test]
    fn there_are_as_many_as_there_are_stacks() {
        scope(stacks(1), |fibers: &mut Fibers<'_, (), ()>| {
            assert_eq!(fibers.start(|_, ()| ()).unwrap(), 0);
            let none_left = fibers.start(|_, ()| ()).unwrap_err();
            assert_eq!(none_left.kind(), io::ErrorKind::OutOfMemory);
        });
    }

    #[test]
    fn it_is_known_how_much_of_a_stack_was_used() {
        const BYTES: usize = 64 << 10;
        // Its frame is made when it is called.
        #[inline(never)]
        fn uses_so_much() {
            std::hint::black_box([1_u8; BYTES]);
        }
        scope(stacks(2), |fibers| {
            for _ in 0..2 {
                let life = |turns: &Turns<'_, bool, ()>, deep| {
                    if deep {
                        uses_so_much();
                    }
                    turns.wait(());
                };
                fibers.start(life).unwrap();
            }
            fibers.resume(0, true);
            fibers.resume(1, false);
            let touched = [0, 1].map(|at| fibers.stack_bytes_touched(at));
            for at in [0, 1] {
                fibers.resume(at, false);
            }
            // Without optimisation the array is copied.
            assert!((BYTES..3 * BYTES).contains(&touched[0]), "{touched:?}");
            assert!((1..32 << 10).contains(&touched[1]), "{touched:?}");
        });
    }

    #[test]
    fn a_user_thread_releases_what_deeper_calls_have_touched() {
        const BYTES: usize = 64 << 10;
        #[inline(never)]
        fn goes_deep() -> u8 {
            let deep = std::hint::black_box([7_u8; BYTES]);
            deep[BYTES / 2]
        }
        scope(stacks(1), |fibers| {
            let life = |turns: &Turns<'_, (), u8>, ()| {
                let kept = std::hint::black_box([3_u8; 100]);
                turns.wait(goes_deep());
                turns.release_stack();
                turns.wait(kept[99]);
                // The stack can be used as before.
                turns.wait(goes_deep());
            };
            fibers.start(life).unwrap();
            assert_eq!(fibers.resume(0, ()), Some(7));
            let deep = fibers.stack_bytes_touched(0);
            assert_eq!(fibers.resume(0, ()), Some(3));
            let released = fibers.stack_bytes_touched(0);
            assert!(deep >= BYTES && released < deep - BYTES / 2, "{released} of {deep} bytes");
            assert_eq!(fibers.resume(0, ()), Some(7));
            assert!(fibers.stack_bytes_touched(0) >= BYTES);
            assert_eq!(fibers.resume(0, ()), None);
        });
    }

    /// A stack is released by its own user thread alone.
    #[test]
    fn a_user_thread_releases_no_other_stack() {
        scope(stacks(1), |fibers| {
            let life = |turns: &Turns<'_, (), u8>, ()| {
                let kept = std::hint::black_box([5_u8; 64 << 10]);
                let release = || turns.release_stack();
                scope(stacks(1), |inner| {
                    inner.start(|_: &Turns<'_, (), ()>, ()| release()).unwrap();
                    assert_eq!(inner.resume(0, ()), None);
                });
                turns.wait(kept[40 << 10]);
            };
            fibers.start(life).unwrap();
            assert_eq!(fibers.resume(0, ()), Some(5));
            assert_eq!(fibers.resume(0, ()), None);
        });
    }
}
