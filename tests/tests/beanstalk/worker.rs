//! Workers of both faces: what becomes of jobs, whatever happens.

#[path = "worker/faces.rs"]
mod faces;
#[path = "worker/outcomes.rs"]
mod outcomes;
#[path = "worker/reservations.rs"]
mod reservations;
#[path = "worker/stops.rs"]
mod stops;
