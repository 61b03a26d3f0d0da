//! Whatever a program holds may be shared by its threads: a struct with a client in it has async methods that can be
//! spawned. This is checked by compiling it. (`beanstalk-client` has
//! its own test.)

use std::iter::Empty;

const fn is_shared<T: Send + Sync>() {}

macro_rules! shared {
    ($client:ident: $($type:ty),+ $(,)?) => {
        const _: () = {
            use $client as c;
            use c::blocking as b;
            $(is_shared::<$type>();)+
        };
    };
}

shared!(gearman_client:
    c::Client, c::Admin, c::Packets, c::Job, c::Worker, c::WorkerHandle, c::GrabbedJob, c::JobContext, c::TestJob,
    c::CallMany<Empty<c::protocol::GetStatus>>, c::SubmitMany<Vec<u8>, Empty<c::protocol::Submit<Vec<u8>>>>,
    c::CallManyStream<'static, ()>, c::JobEventStream, c::JobStream<'static>, c::SubmitManyStream<'static>,
    c::EventStream<c::WorkerEvent>,
    b::Client, b::Admin, b::Packets, b::Job<'static>, b::Worker, b::GrabbedJob, b::JobContext<'static>, b::TestJob,
    b::CallMany<'static, Empty<c::protocol::GetStatus>>,
    b::SubmitMany<'static, Vec<u8>, Empty<c::protocol::Submit<Vec<u8>>>>,
    c::ConnectOptions, c::WorkerOptions, c::SubmitOptions, c::Servers, c::Error, c::Failure, c::JobEvent,
);

shared!(adf_queue_client:
    c::Client, c::Producer, c::Worker, c::WorkerHandle, c::JobContext, c::TestJob, c::PushMany<'static, Empty<c::Push>>,
    c::MessageStream, c::PushManyStream<'static>, c::EventStream<c::WorkerEvent>,
    b::Client, b::Producer, b::Worker, b::PushMany<'static, Empty<c::Push>>,
    c::ConnectOptions, c::ProducerOptions, c::WorkerOptions, c::Servers, c::Error, c::Delivery, c::Push, c::Decision,
);
