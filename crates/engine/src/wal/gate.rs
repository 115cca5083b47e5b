//! A right that one task has at a time and may keep over file operations and waits (rule W14).

use std::collections::VecDeque;
use std::sync::Arc;

use crate::runtime::{Event, Runtime};
use crate::sync::{Mutex, lock};

/// Lets one task in at a time, in the order of asking.
pub(super) struct Gate {
    runtime: Arc<dyn Runtime>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    is_taken: bool,
    waiting: VecDeque<Arc<dyn Event>>,
    /// Events that nobody waits for, kept so that a wait need not make one.
    spare: Vec<Arc<dyn Event>>,
}

/// The right; given on when dropped.
pub(super) struct Pass<'a> {
    gate: &'a Gate,
}

impl Gate {
    pub(super) fn new(runtime: Arc<dyn Runtime>) -> Self {
        Self { runtime, state: Mutex::new(State::default()) }
    }

    /// Waits until it is this task's turn.
    pub(super) fn enter(&self) -> Pass<'_> {
        let mut state = lock(&self.state);
        if state.is_taken {
            let event = state.spare.pop().unwrap_or_else(|| self.runtime.event());
            state.waiting.push_back(Arc::clone(&event));
            drop(state);
            // The right was handed over together with the notification: nobody can come between.
            event.wait_until(None);
            lock(&self.state).spare.push(event);
        } else {
            state.is_taken = true;
        }
        Pass { gate: self }
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.gate.state);
        match state.waiting.pop_front() {
            Some(next) => {
                drop(state);
                next.notify();
            }
            None => state.is_taken = false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::{OsRuntime, Tasks};
    use crate::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn one_task_is_inside_at_a_time_and_all_get_in() {
        let runtime = Arc::new(OsRuntime::new());
        let gate = Arc::new(Gate::new(runtime.clone()));
        let (inside, entries) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let tasks: Vec<_> = (0..4)
            .map(|_| {
                let (gate, inside, entries) = (gate.clone(), inside.clone(), entries.clone());
                let body = move || {
                    for _ in 0..500 {
                        let pass = gate.enter();
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        entries.fetch_add(1, Ordering::Relaxed);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(pass);
                    }
                };
                runtime.spawn("gate", Box::new(body)).unwrap()
            })
            .collect();
        for task in tasks {
            task.join().unwrap();
        }
        assert_eq!(entries.load(Ordering::Relaxed), 2000);
    }
}
