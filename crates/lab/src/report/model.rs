//! What is said about a session, independent of the medium.
