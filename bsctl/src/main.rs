//! The beanstalkd tool.
fn main() {}
