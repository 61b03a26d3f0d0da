//! The contract of all tools of the kit, as tests.
//!
//! `tool_contract!` generates those that every tool has to pass: an error in its own code would make them fail.
//! `kit_contract!` generates those about the kit alone, such as history, contexts, live screens and the guard of
//! web pages. They run once, with one tool. That is a real one: a tool of the kit's own would need queues, a server,
//! sessions, workers, metrics, actions of a page and a decoder for `tap` before it could be held to them, and would be
//! a fourth tool to maintain.
//!
//! Each check is named for the required behaviour. Those on the grammar use the tool's types; the others run its
//! program against its own in-memory server.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::missing_panics_doc
)]

#[cfg(unix)]
pub mod bench;
pub mod bounds;
#[cfg(unix)]
pub mod browser;
pub mod budget;
#[cfg(unix)]
pub mod bulk;
mod case;
#[cfg(unix)]
pub mod color;
pub mod documents;
#[cfg(unix)]
pub mod examples;
#[cfg(unix)]
pub mod exporter;
pub mod formats;
pub mod grammar;
pub mod guide;
pub mod judging;
#[cfg(unix)]
pub mod layout;
mod lines;
#[cfg(target_os = "linux")]
pub mod permission;
#[cfg(unix)]
pub mod pipes;
pub mod program;
#[cfg(unix)]
pub mod serve;
pub mod session;
pub mod settings;
#[cfg(unix)]
pub mod shells;
#[cfg(target_os = "linux")]
pub mod shortage;
pub mod strangers;
#[cfg(unix)]
pub mod tap;
#[cfg(unix)]
pub mod terminal;
pub mod tls;
#[cfg(unix)]
pub mod top;
#[cfg(unix)]
pub mod tour;
#[cfg(unix)]
pub mod web;
pub mod wording;
#[cfg(unix)]
pub mod work;

pub use crate::case::{Case, Server, until};

/// Tests that hold a tool to the contract, given its case.
#[macro_export]
macro_rules! tool_contract {
    ($tool:ty, $case:expr) => {
        mod contract {
            #[allow(unused_imports)]
            use super::*;

            const CASE: $crate::Case<$tool> = $case;

            $crate::tool_contract! { @grammar $tool:
                every_command_is_in_exactly_one_group,
                a_name_is_taken_by_place_and_by_flag,
                the_flag_for_servers_that_hints_name_is_there,
                every_verb_of_a_session_is_in_exactly_one_group_and_every_group_names_verbs,
                commands_that_make_no_sense_in_a_session_are_left_out,
                verbs_of_a_session_stand_for_commands_of_the_same_name,
            }
            $crate::tool_contract! { @cases
                budget {
                    commands_and_flags_are_within_the_budget,
                    help_is_within_the_budget,
                }
                documents {
                    every_command_names_its_protocol_command_in_its_help,
                    every_option_is_explained_on_every_man_page,
                    there_is_a_man_page_for_every_command_with_exit_codes_and_environment,
                    the_generated_sections_list_commands_and_exit_codes,
                }
                formats {
                    every_command_has_a_sample,
                    json_is_one_document_for_every_command,
                    ndjson_is_one_document_per_line_for_every_command,
                    tables_work_for_every_command,
                    what_changes_something_rehearses_or_refuses,
                    a_dead_port_is_69_with_one_error_object_for_every_command,
                    a_wrong_flag_is_2_with_one_error_object_for_every_command,
                    a_wrong_column_is_2_before_anything_is_sent,
                }
                judging {
                    thresholds_are_judged_by_table,
                    a_wait_that_runs_out_is_124_and_not_early,
                }
                session {
                    flags_of_the_start_are_refused_on_a_line_of_a_session,
                    connect_goes_to_other_servers,
                }
                settings {
                    what_is_protected_is_changed_by_its_name_only,
                    what_goes_to_a_protected_server_is_confirmed_by_its_name,
                }
                strangers {
                    a_server_of_another_kind_is_told,
                    a_server_of_no_known_kind_is_asked_about,
                    live_servers_are_named_when_one_is_dead,
                    several_servers_are_asked_at_the_same_time,
                    a_silent_one_of_several_servers_is_named,
                    a_frozen_server_is_124_and_not_absent,
                }
            }
            #[cfg(unix)]
            $crate::tool_contract! { @cases
                pipes {
                    what_was_added_is_counted_although_it_cannot_be_printed,
                    what_nobody_reads_stays_where_it_is,
                }
                bulk {
                    without_a_terminal_and_yes_nothing_is_deleted,
                    a_clear_ends_though_a_producer_goes_on,
                    control_c_midway_reports_what_was_done,
                    a_lost_answer_is_4_and_says_what_may_have_happened,
                    an_empty_stdin_is_warned_of,
                    what_is_drained_and_imported_is_as_it_was,
                    a_thousand_jobs_are_exported_and_imported_as_they_were,
                }
                examples {
                    every_line_of_the_cheat_sheets_does_what_it_says,
                }
                serve {
                    what_a_command_adds_the_next_one_takes,
                    unix_sockets,
                    embedded_needs_no_server_and_leaves_none,
                    embedded_and_an_address_exclude_each_other,
                    faults_are_scripted,
                    a_fault_on_no_command_names_the_commands,
                    a_server_begins_with_the_records_of_a_file,
                }
                bench {
                    every_mode_measures_and_leaves_nothing,
                    a_name_that_holds_jobs_is_left_alone,
                    ctrl_c_shows_what_was_measured,
                }
                session {
                    a_repeated_listing_outlives_a_lost_connection,
                }
                exporter {
                    every_scrape_asks_the_servers_anew,
                    several_servers_are_told_apart,
                    scale_tells_what_there_is_to_do,
                    a_strict_parser_reads_the_metrics,
                    the_dashboard_and_the_alerts_ask_for_what_is_exported,
                    the_autoscaler_examples_find_a_number,
                }
                top {
                    programs_get_snapshots,
                    in_a_pipe_one_look_is_taken,
                }
                tap {
                    what_passes_a_tap_is_shown,
                }
                web {
                    a_page_shows_what_the_servers_have_to_do,
                    a_page_changes_something_where_that_is_allowed,
                    every_action_says_what_it_would_do,
                }
                layout {
                    tables_fit_terminals_and_say_what_is_left_out,
                    a_check_groups_what_is_wrong_by_its_reason,
                    several_servers_are_one_question,
                }
                shells {
                    bash_goes_on_with_a_filter,
                    bash_continues_a_threshold,
                    checks_measure_what_completion_offers,
                    bash_offers_names_where_patterns_are_meant,
                }
                work {
                    a_server_that_is_away_at_the_start_is_69_and_can_be_waited_for,
                    a_worker_tells_once_that_its_server_is_lost_and_that_it_is_back,
                    a_worker_until_empty_ends_without_a_server_that_is_away,
                    a_job_that_does_not_end_well_is_told_on_a_line,
                    results_go_to_stdout_and_the_summary_to_stderr,
                    every_line_of_the_log_can_be_an_object,
                    the_first_signal_finishes_the_job,
                    the_commands_of_a_killed_worker_end_with_everything_that_they_started,
                    a_worker_fails_if_all_of_its_jobs_failed,
                    a_worker_serves_its_own_metrics,
                    failed_jobs_go_to_a_file_that_import_reads,
                }
                terminal {
                    the_history_is_private_and_keeps_no_secrets,
                    a_large_body_that_is_deleted_is_shown_whole,
                    what_is_read_from_a_terminal_is_announced,
                    results_that_come_one_by_one_are_their_own_progress,
                    control_c_gives_up_the_answer_to_a_command,
                }
            }
            #[cfg(feature = "tls")]
            $crate::tool_contract! { @cases
                tls {
                    a_server_is_trusted_for_its_certificate_only,
                }
            }
            #[cfg(target_os = "linux")]
            $crate::tool_contract! { @cases
                shortage {
                    a_worker_without_a_descriptor_or_thread_waits_for_one_and_says_so_once,
                    a_worker_that_gets_no_thread_at_first_starts_later_or_ends_by_a_signal,
                }
                permission {
                    a_socket_that_this_user_may_not_open_is_77,
                }
            }

            #[test]
            fn every_example_of_a_help_can_be_typed() {
                $crate::documents::every_example_of_a_help_can_be_typed::<$tool>();
            }

            #[test]
            fn no_help_text_repeats_itself() {
                $crate::wording::no_help_text_repeats_itself::<$tool>();
            }

            #[test]
            fn every_command_of_the_guide_can_be_typed() {
                $crate::guide::every_command_of_the_guide_can_be_typed::<$tool>();
            }

            #[test]
            fn the_readme_has_the_sections_that_the_grammar_gives() {
                $crate::documents::the_readme_has_the_sections_that_the_grammar_gives(
                    &CASE.program,
                    concat!(env!("CARGO_MANIFEST_DIR"), "/README.md"),
                );
            }
        }
    };
    (@grammar $tool:ty: $($name:ident,)*) => {$(
        #[test]
        fn $name() {
            $crate::grammar::$name::<$tool>();
        }
    )*};
    (@cases $($module:ident { $($name:ident,)* })*) => {$($(
        #[test]
        fn $name() {
            $crate::$module::$name(&CASE);
        }
    )*)*};
}

/// Tests of the kit alone, given the case of a tool to run them with.
#[macro_export]
macro_rules! kit_contract {
    ($tool:ty, $case:expr) => {
        mod kit {
            #[allow(unused_imports)]
            use super::*;

            const CASE: $crate::Case<$tool> = $case;

            $crate::tool_contract! { @cases
                budget {
                    help_has_topics_and_commands,
                }
                documents {
                    completions_know_every_command,
                }
                judging {
                    whatever_is_wrong_with_a_check_is_unknown,
                }
                session {
                    a_dead_port_is_69_with_the_line_that_needed_it,
                    texts_and_files_win_over_a_redirected_stdin,
                    the_embedded_server_lives_as_long_as_the_session,
                    a_connect_that_fails_keeps_the_good_connection,
                }
                settings {
                    a_wrong_setting_is_2_wherever_it_came_from,
                    what_counts_more_is_used_and_named,
                    contexts_are_kept_in_a_file_with_its_comments,
                    changes_of_settings_are_told_in_json,
                    a_wrong_configuration_file_is_2_with_its_line,
                    a_session_goes_to_a_context,
                    the_doctor_finds_what_is_wrong,
                    a_misspelt_setting_is_told_what_was_meant,
                }
                strangers {
                    common_commands_ask_several_servers_at_the_same_time,
                    common_commands_name_a_silent_one_of_several_servers,
                    a_session_does_not_go_to_a_server_of_another_kind,
                    a_stranger_among_several_servers_is_told,
                }
            }
            #[cfg(unix)]
            $crate::tool_contract! { @cases
                color {
                    a_pipe_gets_colours_only_when_forced,
                    a_terminal_gets_colours_unless_told_otherwise,
                }
                pipes {
                    commands_that_look_end_quietly_without_a_reader,
                    a_reader_that_takes_the_beginning_gets_it,
                }
                examples {
                    cheat_sheets_are_listed_and_shown,
                }
                serve {
                    a_unix_socket_is_for_its_owner_only,
                    a_ready_file_is_never_written_through_a_link,
                    a_command_gets_the_server_and_gives_its_code,
                    no_process_is_left_behind,
                    the_address_is_printed_and_the_ready_file_written,
                    it_ends_with_its_parent,
                    a_socket_in_use_is_left_alone,
                    other_machines_are_kept_out_unless_allowed,
                }
                bench {
                    an_open_loop_keeps_its_rate,
                    a_run_beyond_its_limits_fails,
                    it_is_bounded,
                }
                session {
                    results_go_where_the_line_says,
                }
                exporter {
                    strangers_do_not_harm_the_exporter,
                    a_frozen_server_does_not_hold_up_healthz,
                }
                top {
                    a_live_view_gives_the_terminal_back,
                    a_live_view_ends_with_its_terminal,
                    a_queue_is_looked_at_closely,
                    a_server_that_goes_away_comes_back_into_a_live_view,
                    a_live_view_waits_for_its_only_server,
                    a_session_goes_on_behind_a_live_view,
                    a_listing_is_repeated_at_an_interval,
                    ping_tells_how_round_trips_are_spread,
                }
                tap {
                    a_line_is_chosen_by_more_of_its_body_than_is_shown,
                    a_tap_relays_between_unix_sockets,
                    a_tap_shows_what_is_in_a_body,
                    what_a_tap_cannot_do_is_said,
                }
                web {
                    a_person_adds_a_job_with_the_page,
                    only_its_own_page_may_ask,
                    nobody_is_let_in_without_the_token,
                    a_page_shows_its_context,
                    problems_come_first_and_are_never_cut_off,
                    what_a_page_changes_is_logged,
                    a_page_outlives_its_server_and_its_tool,
                }
                layout {
                    usage_errors_are_broken_between_words,
                    a_doctor_tells_a_narrow_terminal_in_blocks,
                    a_question_is_broken_between_words,
                    what_follows_control_c_begins_a_line,
                    help_is_broken_between_words,
                }
                shells {
                    bash_offers_what_can_come_next,
                    files_are_left_to_the_shell_and_scripts_are_short,
                }
                work {
                    a_flag_that_the_command_gets_is_named,
                }
                terminal {
                    control_c_gives_up_an_answer_that_does_not_come,
                    what_is_shown_on_a_terminal_is_made_for_it,
                    no_word_of_a_wrong_line_acts_on_the_terminal,
                    a_person_works_with_the_embedded_server,
                    a_command_can_be_edited_with_the_editor,
                    control_c_ends_connecting_at_once,
                    a_session_begins_as_its_person_likes,
                    bodies_of_several_lines_have_a_prompt_of_their_own,
                    ping_shows_each_answer_as_it_comes_and_what_came_at_the_end,
                    a_wait_says_on_a_terminal_what_it_waits_for,
                }
            }
            #[cfg(all(unix, feature = "tls"))]
            $crate::tool_contract! { @cases
                web {
                }
            }
            #[cfg(feature = "tls")]
            $crate::tool_contract! { @cases
                tls {
                    tls_flags_that_cannot_work_are_refused,
                }
            }
            #[cfg(target_os = "linux")]
            $crate::tool_contract! { @cases
                work {
                    what_a_command_leaves_running_is_named_when_it_is_ended,
                    a_failed_job_that_cannot_be_recorded_stays,
                    a_service_manager_hears_that_a_worker_is_ready_alive_and_stopping,
                }
            }
        }
    };
}
