//! A service that sends mail over beanstalkd, makes thumbnails over Gearman, and ships orders over Adf.QueueServer.
pub mod mail;
pub mod orders;
pub mod thumbnails;
