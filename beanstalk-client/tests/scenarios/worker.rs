//! Workers of both faces: the outcomes of jobs, whatever happens.

#[path = "worker/cancellation.rs"]
mod cancellation;
#[path = "worker/clock.rs"]
mod clock;
#[path = "worker/decisions.rs"]
mod decisions;
#[path = "worker/faces.rs"]
mod faces;
#[path = "worker/failures.rs"]
mod failures;
#[path = "worker/limits.rs"]
mod limits;
#[path = "worker/outcomes.rs"]
mod outcomes;
#[path = "worker/refusals.rs"]
mod refusals;
#[path = "worker/regressions.rs"]
mod regressions;
#[path = "worker/reservations.rs"]
mod reservations;
#[path = "worker/stops.rs"]
mod stops;
#[path = "worker/suspects.rs"]
mod suspects;
#[path = "worker/world.rs"]
mod world;
