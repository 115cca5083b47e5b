//! laboratory
