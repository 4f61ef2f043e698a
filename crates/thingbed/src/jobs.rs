//! Parallel execution of runs.

use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::channel;

/// Calls `run` for each of `todo`, in order and at most `jobs` in parallel, and passes each result
/// to `ended` when it completes. Starts no further run after a break.
pub(crate) fn each<T: Send>(
    jobs: usize,
    todo: Vec<usize>,
    run: impl Fn(usize) -> T + Sync,
    mut ended: impl FnMut(usize, T) -> ControlFlow<()>,
) {
    // Sequential runs execute on this thread: resources bound to a thread live as long as it does.
    if jobs <= 1 {
        let _ = todo.into_iter().try_for_each(|n| ended(n, run(n)));
        return;
    }
    let (queue, stopped) = (Mutex::new(todo.into_iter()), AtomicBool::new(false));
    let next = || {
        let mut queue = queue.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        queue.next().filter(|_| !stopped.load(Relaxed))
    };
    std::thread::scope(|scope| {
        let (results, incoming) = channel();
        for _ in 0..jobs {
            let (results, next, run) = (results.clone(), &next, &run);
            scope.spawn(move || {
                while let Some(n) = next() {
                    // Only if `ended` panicked: then the runs have no reader.
                    if results.send((n, run(n))).is_err() {
                        break;
                    }
                }
            });
        }
        // Without this the loop below never ends: it waits until all senders are gone.
        drop(results);
        // Results of runs that were under way at a break are still passed on, so that they are
        // written.
        for (n, result) in incoming {
            if ended(n, result).is_break() {
                stopped.store(true, Relaxed);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_had_once_and_a_break_begins_no_more() {
        for jobs in [1, 3] {
            let mut all = Vec::new();
            each(
                jobs,
                (0..20).collect(),
                |n| n * n,
                |n, square| {
                    all.push((n, square));
                    ControlFlow::Continue(())
                },
            );
            all.sort_unstable();
            assert_eq!(all, (0..20).map(|n| (n, n * n)).collect::<Vec<_>>());

            let begun = Mutex::new(0);
            let mut completed = 0;
            let slow = |_| {
                *begun.lock().unwrap() += 1;
                std::thread::yield_now();
            };
            each(jobs, (0..10_000).collect(), slow, |_, ()| {
                completed += 1;
                ControlFlow::Break(())
            });
            assert_eq!(completed, *begun.lock().unwrap(), "each started run completes");
            assert!(completed < 10_000);
        }
    }
}
