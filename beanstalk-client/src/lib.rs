//! A client for the beanstalkd job queue.
