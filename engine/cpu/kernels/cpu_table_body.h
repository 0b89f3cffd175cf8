/* cpu_table_body.h - the table of a level, with the functions that the other bodies define. */
#define TABLE_(level) iter__cpu_kernels_##level
#define TABLE(level)  TABLE_(level)

const cpu_kernels TABLE(LEVEL) = {
    .name = LEVEL_NAME,
    .tanh = each_tanh,
    .sigmoid = each_sigmoid,
    .after_forward = gates_after_forward,
    .after_backward = gates_after_backward,
    .before_forward_reset = gates_before_forward_reset,
    .before_forward_state = gates_before_forward_state,
    .before_backward_state = gates_before_backward_state,
    .before_backward_reset = gates_before_backward_reset,
    .exp_sum = exp_sum,
    .add = each_add,
    .sum_rows = each_sum_rows,
    .update = update_any,
    .replay = replay_any,
};
