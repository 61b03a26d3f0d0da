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

pub mod bad_servers;
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
                accepts_a_queue_by_position_and_by_flag,
                hints_name_an_existing_server_flag,
                every_session_command_is_in_exactly_one_group,
                session_omits_commands_that_make_no_sense_there,
                session_commands_appear_once,
            }
            $crate::tool_contract! { @cases
                budget {
                    commands_and_flags_are_within_the_budget,
                    help_is_within_the_budget,
                }
                documents {
                    help_names_the_protocol_command,
                    man_pages_explain_every_option,
                    every_command_has_a_complete_man_page,
                    generated_sections_list_commands_and_exit_codes,
                }
                formats {
                    every_command_has_a_sample,
                    json_is_one_document_for_every_command,
                    ndjson_is_one_document_per_line_for_every_command,
                    tables_work_for_every_command,
                    commands_with_effects_support_dry_run_or_refuse_it,
                    every_command_exits_69_on_a_dead_port,
                    every_command_exits_2_on_an_unknown_flag,
                    rejects_an_unknown_column_before_sending,
                }
                judging {
                    check_judges_thresholds,
                    wait_exits_124_on_timeout,
                }
                session {
                    session_rejects_startup_flags_on_a_line,
                    connect_switches_servers,
                }
                settings {
                    protected_contexts_require_their_name,
                    protected_servers_require_the_context_name,
                }
                bad_servers {
                    detects_the_wrong_server_type,
                    reports_an_unknown_server_type,
                    lists_live_servers_when_one_is_dead,
                    queries_servers_concurrently,
                    names_the_silent_server,
                    a_frozen_server_exits_124,
                }
            }
            #[cfg(unix)]
            $crate::tool_contract! { @cases
                pipes {
                    counts_additions_after_the_pipe_closes,
                    closed_pipe_keeps_jobs,
                }
                bulk {
                    refuses_to_delete_without_a_terminal_or_yes,
                    clear_ends_while_a_producer_keeps_adding,
                    ctrl_c_reports_partial_progress,
                    exits_4_when_the_outcome_is_unknown,
                    warns_about_empty_stdin,
                    drain_then_import_restores_every_record,
                    export_then_import_restores_a_thousand_records,
                }
                examples {
                    cheat_sheets_run,
                }
                serve {
                    serve_keeps_state_between_commands,
                    unix_sockets,
                    embedded_runs_without_a_server,
                    embedded_conflicts_with_an_address,
                    faults_are_scripted,
                    rejects_a_fault_for_an_unknown_command,
                    serve_loads_records_from_a_file,
                }
                bench {
                    bench_measures_in_every_mode_and_cleans_up,
                    bench_refuses_a_queue_that_holds_jobs,
                    bench_reports_partial_results_on_ctrl_c,
                }
                session {
                    a_repeated_listing_survives_a_lost_connection,
                }
                exporter {
                    exporter_queries_the_servers_on_every_scrape,
                    exporter_labels_each_server,
                    exporter_scale_reports_the_backlog,
                    metrics_pass_a_strict_parser,
                    dashboards_and_alerts_use_exported_metrics,
                    autoscaler_examples_find_a_number,
                }
                top {
                    programs_get_snapshots,
                    top_prints_one_snapshot_to_a_pipe,
                }
                tap {
                    tap_prints_traffic,
                }
                web {
                    web_shows_the_backlog,
                    web_writes_only_when_enabled,
                    web_previews_every_action,
                }
                layout {
                    tables_fit_the_terminal_and_list_hidden_columns,
                    check_groups_problems_by_reason,
                    asks_once_for_several_servers,
                }
                shells {
                    bash_completes_filters,
                    bash_completes_thresholds,
                    completion_offers_the_metrics_of_check,
                    bash_completes_names_for_patterns,
                }
                work {
                    worker_exits_69_unless_told_to_wait_for_the_server,
                    worker_reports_each_loss_and_return_once,
                    until_empty_exits_69_if_a_server_is_unreachable,
                    worker_logs_each_failed_job,
                    worker_prints_results_to_stdout_and_the_summary_to_stderr,
                    worker_logs_json_objects,
                    first_signal_finishes_running_jobs,
                    killing_the_worker_kills_its_process_trees,
                    worker_exits_1_if_every_job_failed,
                    worker_serves_metrics,
                    worker_is_healthy_while_it_waits_for_its_server,
                    failed_jobs_can_be_imported_again,
                }
                terminal {
                    history_is_private_and_omits_secrets,
                    deleted_bodies_are_printed_in_full,
                    announces_that_it_reads_the_terminal,
                    streaming_results_show_no_progress_bar,
                    ctrl_c_abandons_the_reply_to_a_command,
                }
            }
            #[cfg(feature = "tls")]
            $crate::tool_contract! { @cases
                tls {
                    trusts_only_the_given_certificate,
                }
            }
            #[cfg(target_os = "linux")]
            $crate::tool_contract! { @cases
                shortage {
                    worker_waits_for_descriptors_and_threads,
                    worker_starts_once_a_thread_is_available,
                }
                permission {
                    exits_77_without_permission_for_the_socket,
                }
            }

            #[test]
            fn help_examples_parse() {
                $crate::documents::help_examples_parse::<$tool>();
            }

            #[test]
            fn help_texts_do_not_repeat_themselves() {
                $crate::wording::help_texts_do_not_repeat_themselves::<$tool>();
            }

            #[test]
            fn guide_commands_parse() {
                $crate::guide::guide_commands_parse::<$tool>();
            }

            #[test]
            fn readme_sections_match_the_grammar() {
                $crate::documents::readme_sections_match_the_grammar(
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
                    completions_cover_every_command,
                }
                judging {
                    check_reports_unknown_on_any_error,
                }
                session {
                    session_exits_69_and_names_the_failing_line,
                    session_errors_end_the_script_with_their_exit_code,
                    arguments_and_files_win_over_redirected_stdin,
                    embedded_server_lasts_for_the_session,
                    a_failed_connect_keeps_the_old_connection,
                }
                settings {
                    exits_2_on_a_bad_setting_from_any_source,
                    settings_precedence,
                    editing_contexts_keeps_comments,
                    reports_setting_changes_as_json,
                    a_bad_configuration_file_exits_2_and_names_the_line,
                    session_switches_contexts,
                    doctor_finds_problems,
                    suggests_the_correct_setting_name,
                }
                bad_servers {
                    common_commands_query_servers_concurrently,
                    common_commands_name_the_silent_server,
                    session_refuses_the_wrong_server_type,
                    waits_for_a_slow_server,
                    reports_wrong_server_type_among_several,
                }
            }
            #[cfg(unix)]
            $crate::tool_contract! { @cases
                color {
                    colours_a_pipe_only_when_forced,
                    colours_a_terminal_by_default,
                }
                pipes {
                    read_only_commands_end_quietly_on_a_closed_pipe,
                    a_short_reader_gets_the_first_lines,
                }
                examples {
                    lists_and_shows_cheat_sheets,
                }
                serve {
                    serve_keeps_its_unix_socket_private,
                    serve_never_follows_a_link_at_the_ready_file,
                    serve_exec_passes_the_address_and_exit_code,
                    serve_leaves_no_process_behind,
                    serve_prints_its_address_and_writes_the_ready_file,
                    serve_exits_with_its_parent,
                    serve_keeps_a_socket_in_use,
                    serve_listens_on_loopback_by_default,
                }
                bench {
                    bench_keeps_the_rate_of_an_open_loop,
                    bench_fails_beyond_its_limits,
                    it_is_bounded,
                }
                session {
                    session_redirects_output,
                }
                exporter {
                    exporter_survives_malformed_requests,
                    healthz_answers_while_a_server_is_frozen,
                }
                top {
                    top_restores_the_terminal,
                    top_exits_when_the_terminal_closes,
                    top_shows_queue_details,
                    top_survives_a_server_restart,
                    top_waits_for_its_only_server,
                    session_continues_after_top,
                    interval_repeats_a_listing,
                    ping_shows_the_latency_distribution,
                }
                tap {
                    tap_filters_match_more_than_is_shown,
                    tap_relays_between_unix_sockets,
                    tap_decodes_bodies,
                    tap_errors_name_the_alternative,
                }
                web {
                    web_adds_a_job,
                    web_rejects_cross_origin,
                    web_requires_the_token,
                    web_shows_its_context,
                    web_lists_every_problem_first,
                    web_logs_changes,
                    web_recovers_from_restarts,
                }
                layout {
                    usage_errors_wrap_between_words,
                    doctor_uses_blocks_on_a_narrow_terminal,
                    questions_wrap_between_words,
                    questions_without_an_answer_decline,
                    output_after_ctrl_c_starts_a_new_line,
                    help_wraps_between_words,
                }
                shells {
                    bash_completes_commands_flags_and_values,
                    completion_scripts_leave_files_to_the_shell,
                }
                work {
                    warns_about_a_flag_passed_to_the_command,
                }
                terminal {
                    ctrl_c_abandons_a_missing_reply,
                    terminal_output_is_rendered,
                    usage_errors_escape_control_characters,
                    embedded_session_on_a_terminal,
                    edits_a_command_in_the_editor,
                    ctrl_c_cancels_connecting,
                    replrc_runs_at_start,
                    heredocs_have_a_continuation_prompt,
                    ping_prints_each_reply_and_a_summary,
                    wait_shows_its_condition_on_a_terminal,
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
                    rejects_contradictory_tls_flags,
                }
            }
            #[cfg(target_os = "linux")]
            $crate::tool_contract! { @cases
                work {
                    worker_names_leftover_processes,
                    keeps_a_failed_job_that_cannot_be_recorded,
                    worker_notifies_the_service_manager,
                }
            }
        }
    };
}
