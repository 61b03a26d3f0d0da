//! What the clients report to `tracing`: what there is, that it is one line for each event, and that it holds no body
//! and no secret.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

#[path = "observability/adf_queue.rs"]
mod adf_queue;
#[path = "observability/beanstalk.rs"]
mod beanstalk;
#[path = "observability/beanstalk_worker.rs"]
mod beanstalk_worker;
// beanstalkd's scenarios use all of it.
#[allow(dead_code)]
#[path = "../../beanstalk-client/tests/scenarios/support/face.rs"]
mod face;
#[path = "observability/gearman.rs"]
mod gearman;
#[path = "observability/gearman_worker.rs"]
mod gearman_worker;
#[path = "observability/record.rs"]
mod record;
#[path = "observability/running.rs"]
mod running;
