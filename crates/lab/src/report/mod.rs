//! Renders a session for people and for programs.
