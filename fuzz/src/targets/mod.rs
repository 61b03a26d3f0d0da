//! The targets, by what their bytes are.

mod addresses;
mod adf_frames;
mod adf_http;
mod adf_server;
mod beanstalk_replies;
mod beanstalk_stats;
mod envelopes;
mod gearman_admin;
mod gearman_packets;
mod gearman_sessions;
mod pieces;
mod repl_lines;
mod server_input;

pub use self::{
    addresses::addresses,
    adf_frames::adf_frames,
    adf_http::{adf_http_answers, adf_status_page},
    adf_server::{adf_server_binary, adf_server_frames, adf_server_http, adf_server_json},
    beanstalk_replies::beanstalk_replies,
    beanstalk_stats::beanstalk_stats,
    envelopes::envelopes,
    gearman_admin::gearman_admin,
    gearman_packets::gearman_packets,
    gearman_sessions::gearman_sessions,
    repl_lines::repl_lines,
    server_input::{beanstalkd_input, gearmand_input},
};

/// One target: what its bytes are, and what is promised of them.
pub type Target = fn(&[u8]);

/// Every target by its name, which is also that of its folder of seeds.
pub const ALL: [(&str, Target); 17] = [
    ("addresses", addresses),
    ("adf_frames", adf_frames),
    ("adf_http_answers", adf_http_answers),
    ("adf_server_binary", adf_server_binary),
    ("adf_server_frames", adf_server_frames),
    ("adf_server_http", adf_server_http),
    ("adf_server_json", adf_server_json),
    ("adf_status_page", adf_status_page),
    ("beanstalk_replies", beanstalk_replies),
    ("beanstalk_stats", beanstalk_stats),
    ("beanstalkd_input", beanstalkd_input),
    ("envelopes", envelopes),
    ("gearman_admin", gearman_admin),
    ("gearman_packets", gearman_packets),
    ("gearman_sessions", gearman_sessions),
    ("gearmand_input", gearmand_input),
    ("repl_lines", repl_lines),
];
