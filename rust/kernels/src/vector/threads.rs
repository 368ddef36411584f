//! Threads that share work.

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::vec;

use crate::error::{Corrupt, Result};

/// Parts of which each is taken once.
pub struct Queue<P>(Mutex<vec::IntoIter<P>>);

impl<P> Queue<P> {
    pub fn new(parts: Vec<P>) -> Self {
        Self(Mutex::new(parts.into_iter()))
    }

    /// Takes the next part.
    pub fn next(&self) -> Option<P> {
        let mut parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        parts.next()
    }
}

/// Calls `work` in several threads, the calling one among them, and returns all results.
///
/// Where the system allows fewer threads, there are fewer results.
pub fn in_threads<R: Send>(
    num_threads: usize,
    work: impl Fn() -> Result<R> + Sync,
) -> Result<Vec<R>> {
    thread::scope(|scope| {
        let others: Vec<_> = (1..num_threads)
            .map_while(|_| thread::Builder::new().spawn_scoped(scope, &work).ok())
            .collect();
        let mut results = vec![work()];
        results.extend(others.into_iter().map(|thread| {
            let ended = Err(Corrupt("a thread ended early".to_owned()));
            thread.join().map_or(ended, |result| result)
        }));
        results.into_iter().collect()
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_part_is_taken_once() {
        for num_threads in [0, 1, 2, 5] {
            let queue = Queue::new((0..1000).collect());
            let found = in_threads(num_threads, || {
                let mut own = Vec::new();
                while let Some(part) = queue.next() {
                    own.push(part);
                }
                Ok(own)
            });
            let mut found = found.unwrap().concat();
            found.sort_unstable();
            assert_eq!(found, (0..1000).collect::<Vec<_>>());
        }
    }

    #[test]
    fn an_error_of_any_thread_is_returned() {
        let queue = Queue::new((0..9).collect());
        let found = in_threads(3, || {
            while let Some(part) = queue.next() {
                if part == 7 {
                    return Err(Corrupt("seven".to_owned()));
                }
            }
            Ok(())
        });
        assert!(found.is_err());
    }
}
