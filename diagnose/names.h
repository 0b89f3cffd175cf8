/*
 * names.h - the library's own names begin with iter__, as everywhere: a static program has them
 * beside those of other libraries (jansson has a json_integer(), too). iterbench compiles the same
 * files without this header, so its code calls them by their short names. It is included on the
 * command line (CMakeLists.txt); tests/check_diagnose.sh notices a name that is missing.
 */
#ifndef DIAGNOSE_NAMES_H
#define DIAGNOSE_NAMES_H

#define diagnose_fail              iter__diagnose_fail
#define diagnose_judge             iter__diagnose_judge
#define diagnose_now_ns            iter__diagnose_now_ns
#define diagnose_sleep             iter__diagnose_sleep
#define diagnose_start             iter__diagnose_start
#define evidence_attribution_json  iter__evidence_attribution_json
#define json_begin                 iter__json_begin
#define json_bool                  iter__json_bool
#define json_count                 iter__json_count
#define json_end                   iter__json_end
#define json_integer               iter__json_integer
#define json_interval              iter__json_interval
#define json_null                  iter__json_null
#define json_number                iter__json_number
#define json_text                  iter__json_text
#define measure_median             iter__measure_median
#define observer_cut               iter__observer_cut
#define observer_off               iter__observer_off
#define observer_on                iter__observer_on
#define observer_read              iter__observer_read
#define observer_start             iter__observer_start
#define observer_stop              iter__observer_stop
#define passive_add                iter__passive_add
#define passive_evidence           iter__passive_evidence
#define passive_guess              iter__passive_guess
#define passive_load               iter__passive_load
#define passive_sum                iter__passive_sum
#define report_html_by             iter__report_html_by
#define report_html_write          iter__report_html_write
#define report_template            iter__report_template
#define report_template_bytes      iter__report_template_bytes
#define run_queue_between          iter__run_queue_between
#define run_queue_read             iter__run_queue_read
#define verdict_beside_others      iter__verdict_beside_others
#define verdict_bound              iter__verdict_bound
#define verdict_busiest            iter__verdict_busiest
#define verdict_crowded            iter__verdict_crowded
#define verdict_crowded_by_threads iter__verdict_crowded_by_threads
#define verdict_expect             iter__verdict_expect
#define verdict_gain_by            iter__verdict_gain_by
#define verdict_is_opaque          iter__verdict_is_opaque
#define verdict_limit_text         iter__verdict_limit_text
#define verdict_look               iter__verdict_look
#define verdict_make               iter__verdict_make
#define verdict_may_be_unlike      iter__verdict_may_be_unlike
#define verdict_part_of_loader     iter__verdict_part_of_loader
#define verdict_parts_of           iter__verdict_parts_of
#define verdict_rate_now           iter__verdict_rate_now
#define verdict_ratio_of           iter__verdict_ratio_of
#define verdict_remote_of          iter__verdict_remote_of
#define verdict_remote_text        iter__verdict_remote_text
#define verdict_say                iter__verdict_say
#define verdict_share_of_feeding   iter__verdict_share_of_feeding
#define verdict_slow_worker        iter__verdict_slow_worker
#define verdict_sure_gain_by       iter__verdict_sure_gain_by
#define verdict_terms_now          iter__verdict_terms_now
#define verdict_uses_cores         iter__verdict_uses_cores
#define verdict_waits_for_server   iter__verdict_waits_for_server
#define words_byte_rate            iter__words_byte_rate
#define words_bytes                iter__words_bytes
#define words_cost                 iter__words_cost
#define words_count                iter__words_count
#define words_factor               iter__words_factor
#define words_gain                 iter__words_gain
#define words_percent              iter__words_percent
#define words_plural               iter__words_plural
#define words_ratio                iter__words_ratio
#define words_side_of              iter__words_side_of
#define words_time                 iter__words_time

#endif
