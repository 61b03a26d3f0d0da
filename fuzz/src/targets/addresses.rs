//! What users write as addresses, names and numbers.

use std::{
    fmt::{Debug, Display},
    str::FromStr,
};

use beanstalk_client::{JobId, Priority, TubeName};
use gearman_client::{FunctionName, JobHandle, UniqueId};

/// What is accepted is written so that it is read as the same again; refusals are short, and no
/// password is shown.
pub fn addresses(data: &[u8]) {
    check_names(data);
    let Ok(text) = std::str::from_utf8(data) else { return };
    again::<beanstalk_client::Address>(text);
    again::<gearman_client::Address>(text);
    again::<JobHandle>(text);
    again::<JobId>(text);
    again::<Priority>(text);
    refusals::<beanstalk_client::Address>(text);
    refusals::<gearman_client::Address>(text);
    refusals::<beanstalk_client::ConnectOptions>(text);
    refusals::<beanstalk_client::Servers>(text);
    refusals::<gearman_client::ConnectOptions>(text);
    refusals::<gearman_client::Servers>(text);
}

fn again<T>(text: &str)
where
    T: FromStr + Display + Debug + PartialEq,
    T::Err: Display,
{
    match text.parse::<T>() {
        Ok(value) => {
            let written = value.to_string();
            match written.parse::<T>() {
                Ok(read) => assert_eq!(read, value, "written as {written:?}"),
                Err(error) => {
                    panic!("{text:?} is written as {written:?}, which is not read: {error}")
                }
            }
        }
        Err(error) => check_length(&error.to_string()),
    }
}

fn check_length(message: &str) {
    assert!(message.len() < 1024, "an error is short: {message}");
    assert!(!message.contains('\n'), "an error is one line: {message}");
}

/// `user:secret@` of an address must not reach a log: with another secret, the message is the same.
fn refusals<T>(text: &str)
where
    T: FromStr,
    T::Err: Display,
{
    let Err(error) = text.parse::<T>() else { return };
    let message = error.to_string();
    check_length(&message);
    let Some((before, after)) = text.split_once('@') else { return };
    let Some((user, secret)) = before.rsplit_once(':') else { return };
    if secret.len() >= 12 && !text.starts_with("unix:") && message.contains(secret) {
        let other = format!("{user}:{}@{after}", "z".repeat(secret.len()));
        let other = other.parse::<T>().err().map(|error| error.to_string());
        assert_eq!(Some(&message), other.as_ref(), "the password is shown");
    }
}

/// No accepted name can end its line or its argument on the wire.
fn check_names(data: &[u8]) {
    if let Ok(tube) = TubeName::try_from(data) {
        assert_eq!(tube.as_str().as_bytes(), data);
        assert!((1..=200).contains(&data.len()) && data[0] != b'-');
        assert!(data.iter().all(|byte| byte.is_ascii_graphic()));
    }
    if let Ok(function) = FunctionName::try_from(data) {
        assert_eq!(function.as_bytes(), data);
        assert!(!data.contains(&0) && !data.is_empty());
    }
    if let Ok(unique) = UniqueId::try_from(data) {
        assert!((1..=63).contains(&unique.as_bytes().len()) && !unique.as_bytes().contains(&0));
    }
    if let Ok(handle) = JobHandle::try_from(data) {
        assert!(handle.name().len() <= 63 && !handle.name().contains(&0));
    }
}
