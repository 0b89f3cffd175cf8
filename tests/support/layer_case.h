/*
 * layer_case.h - a small net with numbers, and a backend that runs it. Tests compare one backend
 * with another, with central differences, or with another program.
 *
 * All numbers are doubles that floats represent exactly, in the net's own order (C, H, W; T, F),
 * whatever the dtype, layout and strides of the tensors that the backend gets. If something fails
 * that only a bug of the test can cause, it aborts.
 */
#ifndef TESTS_SUPPORT_LAYER_CASE_H
#define TESTS_SUPPORT_LAYER_CASE_H

#include "engine/backend.h"

#define LAYER_OPTIMIZER "sgd:lr=0.05,momentum=0.9,weight-decay=0.01"

/* The parameters of a case; a field that is zero has its default. */
typedef struct layer_spec {
    const char *model;
    int64_t batch;
    int32_t n_dims; /* of a row: C, H, W; T, F; F; or T for ids */
    int64_t dims[3];
    int64_t n_ids;          /* the data are token ids below it */
    int64_t n_rows;         /* of the batch that runs; 0 = batch */
    bool some_rows;         /* every third row does not count */
    uint64_t rows_out;      /* bits of more rows that do not count */
    bool no_input_gradient; /* the gradient of the data is not computed */
    bool bytes;             /* the data are whole numbers 0 .. 255 */
    const char *optimizer;  /* NULL = LAYER_OPTIMIZER */
    int32_t n_steps;        /* of training; 0 = 1 */
} layer_spec;

/* How a batch is laid out. */
typedef struct layer_form {
    iter_dtype data;               /* 0 = f32, or i32 for ids */
    iter_dtype label;              /* 0 = f32, or i32 for classes */
    bool other_layout;             /* NHWC, TN, TNF */
    bool strided;                  /* every dimension has a gap */
    int32_t precision, algorithms; /* of the cuda backend */
} layer_form;

typedef struct layer_case {
    layer_spec spec;
    iter_model *model;
    engine_net net; /* as planned for the default form */
    engine_optimizer optimizer;
    uint64_t rng_key;    /* of all dropout layers; 0 = the planned ones */
    uint64_t first_step; /* of training */
    bool classes;
    bool targets;                /* classes for each step, or ENGINE_NO_TARGET */
    int64_t n_elements, n_label; /* of a row */
    double *data;                /* [batch, n_elements] */
    double *label;               /* [batch, n_label] */
    int32_t *segments;           /* [batch, steps] if the net has segments, else NULL */
    double *params[ENGINE_MAX_PARAMS];
    uint8_t *counts;   /* [batch] */
    int64_t n_counted; /* as in engine_batch */
} layer_case;

/* Returns zeroed memory, or ends the program. */
void *layer_alloc(int64_t n, size_t size);

/* Plans a net whose numbers are zero. If the model is refused, prints why and returns false. */
bool layer_case_plan(const layer_spec *spec, layer_case *out);
/* Draws weights as the engine begins them, and biases, data and labels at random. */
void layer_case_fill(layer_case *test, uint64_t seed);
/* Sets n_counted from counts and label, after they were changed. */
void layer_case_count(layer_case *test);
void layer_case_free(layer_case *test);

/* The output of the first n_layers layers of a case in training, [n_rows, *out_n]; the caller must
 * free() it. */
double *layer_case_values(const layer_case *test, int32_t n_layers, int64_t *out_n);

/* ---- Running --------------------------------------------------------------------------------- */

typedef struct layer_machine {
    const layer_case *test;
    const engine_backend_ops *ops;
    engine_net net; /* for its form */
    void *state;
    iter_tensor data, label, segments;
    void *data_memory, *label_memory, *segments_memory;
    engine_batch batch;
} layer_machine;

/* Creates the backend, sets the weights and lays the batch out. */
bool layer_machine_open(layer_machine *m, const layer_case *test, const layer_form *form,
                        const engine_backend_ops *ops, uint32_t threads);
void layer_machine_close(layer_machine *m);
engine_outcome layer_machine_run(layer_machine *m, engine_run what, uint64_t step);
void layer_machine_set(layer_machine *m, int32_t param, const double *from);
void layer_machine_get(layer_machine *m, int32_t param, iter_value value, double *out);
/* [batch, n_elements] in the net's own order. */
void layer_machine_input_gradient(layer_machine *m, double *out);

/* Whether the fake driver and the fake cuDNN are found. If so, sets them up as a small GPU that
 * knows the kernels' twins. */
void layer_backend_set_fake(bool *out_fake);
/* The same, and returns true if the backend can be made here. Otherwise prints why not. */
bool layer_backend_is_there(const engine_backend_ops *ops, bool *out_fake);

/* ---- Results --------------------------------------------------------------------------------- */

/* Results of some steps of training: outputs and gradients of the first, weights and moments after
 * the last. */
typedef struct layer_result {
    const layer_case *test;
    engine_outcome outcome; /* of the first step */
    double *outputs;        /* [n_rows, n_outputs] */
    double *input_gradient; /* NULL for ids */
    double *gradients[ENGINE_MAX_PARAMS], *weights[ENGINE_MAX_PARAMS];
    double *moments[2][ENGINE_MAX_PARAMS];
} layer_result;

bool layer_result_make(layer_result *out, const layer_case *test, const layer_form *form,
                       const engine_backend_ops *ops, uint32_t threads);
void layer_result_free(layer_result *result);

/* max |got - want| / max |want|; infinite if a value is not a number. */
double layer_distance(const double *got, const double *want, int64_t n);

/* ||got - want|| / ||want||, which one element beyond a kink moves little. */
double layer_norm_distance(const double *got, const double *want, int64_t n);

typedef double (*layer_measure)(const double *got, const double *want, int64_t n);

/* The largest distance over all tensors and the loss; *out_name names it. */
double layer_result_distance(const layer_result *got, const layer_result *want,
                             layer_measure measure, const char **out_name);

/* The tolerated distance from the loops: 1e-5, or 5e-5 if a convolution sums 1,000 products or
 * more. */
double layer_tolerance(const layer_case *test);

#endif
