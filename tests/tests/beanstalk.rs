//! beanstalk-client against the in-memory and the real beanstalkd: scenarios, faults, cancellation, properties.

#[path = "beanstalk/bytes.rs"]
mod bytes;
#[path = "beanstalk/cancellation.rs"]
mod cancellation;
#[path = "beanstalk/commands.rs"]
mod commands;
#[path = "beanstalk/connections.rs"]
mod connections;
#[path = "beanstalk/connectors.rs"]
mod connectors;
#[path = "beanstalk/damaged.rs"]
mod damaged;
#[path = "beanstalk/deadlines.rs"]
mod deadlines;
#[path = "beanstalk/faults.rs"]
mod faults;
#[path = "beanstalk/job_streams.rs"]
mod job_streams;
#[path = "beanstalk/jobs.rs"]
mod jobs;
#[path = "beanstalk/out_of_step.rs"]
mod out_of_step;
#[path = "beanstalk/pipelines.rs"]
mod pipelines;
#[path = "beanstalk/producer.rs"]
mod producer;
#[path = "beanstalk/producer_cancellation.rs"]
mod producer_cancellation;
#[path = "beanstalk/producer_faults.rs"]
mod producer_faults;
#[path = "beanstalk/properties.rs"]
mod properties;
#[path = "beanstalk/reconnects.rs"]
mod reconnects;
#[path = "beanstalk/regressions.rs"]
mod regressions;
#[path = "beanstalk/servers.rs"]
mod servers;
#[path = "beanstalk/source.rs"]
mod source;
#[path = "beanstalk/stats.rs"]
mod stats;
#[path = "beanstalk/timing.rs"]
mod timing;
#[path = "beanstalk/tls.rs"]
mod tls;
#[path = "beanstalk/worker.rs"]
mod worker;
