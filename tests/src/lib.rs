//! Scenario support.
