//! Ends a run early, from any task.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use evenkeel::runtime::Event;

/// A flag that ends a run early; clones are the same flag. Results up to then are kept.
#[derive(Clone, Default)]
pub struct StopFlag(Arc<Inner>);

#[derive(Default)]
struct Inner {
    is_set: AtomicBool,
    /// Events of runs under way.
    listeners: Mutex<Vec<Weak<dyn Event>>>,
}

impl StopFlag {
    /// A flag that is not set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the flag and wakes runs under way. Not for use inside a signal handler.
    pub fn stop(&self) {
        self.0.is_set.store(true, Ordering::SeqCst);
        for listener in self.listeners().iter() {
            if let Some(event) = listener.upgrade() {
                event.notify();
            }
        }
    }

    /// Whether the flag is set.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.is_set.load(Ordering::SeqCst)
    }

    /// Notifies `event` when the flag is set.
    pub(super) fn listen(&self, event: &Arc<dyn Event>) {
        let mut listeners = self.listeners();
        listeners.retain(|listener| listener.strong_count() > 0);
        listeners.push(Arc::downgrade(event));
    }

    fn listeners(&self) -> std::sync::MutexGuard<'_, Vec<Weak<dyn Event>>> {
        self.0.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for StopFlag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("StopFlag").field(&self.is_set()).finish()
    }
}
