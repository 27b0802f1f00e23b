/* SPDX-License-Identifier: Apache-2.0 */
/* The C ABI: problems, networks, plans, mapping files and policies, without exceptions.
 *
 * Every function that can fail returns a megaconv_status; megaconv_last_error() then says what was
 * wrong, in one line that names the value received and what is allowed. Output arguments are
 * written only on success. A plan may be used by any number of threads at once, each run with a
 * workspace of its own.
 *
 * How structs grow
 *
 * A struct with a `struct_size` gets new fields at its end only, and zero in a new field always
 * means what the library did before. The caller sets struct_size to the sizeof of its own header;
 * the _init() functions return a struct that has it, and zeros everywhere else:
 *
 *   megaconv_plan_options options = megaconv_plan_options_init();
 *   options.tile = 4;
 *
 * The library then compares struct_size with its own size of the struct:
 *
 *   smaller (an older header)  fields that the caller does not have are zero
 *   larger (a newer header)    refused, unless all bytes that the library does not know are zero
 *   impossible                 refused: less than the first version had, or more than
 *                              MEGACONV_MAX_STRUCT_SIZE, which no version will have
 *
 * A struct that the library fills follows the same rule: the caller sets its struct_size before the
 * call. The library writes the fields that both know, and fails if one that the caller does not
 * have would not be zero. Elements of arrays (megaconv_task, ...) never grow.
 *
 * Fields with the values of an enum are int32_t; a comment names the enum. */
#ifndef MEGACONV_MEGACONV_H
#define MEGACONV_MEGACONV_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum megaconv_status {
  MEGACONV_SUCCESS = 0,
  MEGACONV_INVALID_ARGUMENT = 1,
  MEGACONV_UNSUPPORTED = 2,
  MEGACONV_OUT_OF_MEMORY = 3,
  MEGACONV_DEVICE_ERROR = 4,
  MEGACONV_TIMEOUT = 5,
  MEGACONV_INTERNAL = 6
} megaconv_status;

/* Storage; see DataType (problem.hpp). Of MEGACONV_I8, scale and bias are in MEGACONV_F32. */
typedef enum megaconv_dtype {
  MEGACONV_F32 = 0,
  MEGACONV_F16 = 1,
  MEGACONV_BF16 = 2,
  MEGACONV_I8 = 3
} megaconv_dtype;
typedef enum megaconv_layout {
  MEGACONV_NCHW = 0,
  MEGACONV_NHWC = 1,
  MEGACONV_CHWN = 2,
  MEGACONV_NCHW16C = 3 /* channels in blocks of 16; problem.hpp */
} megaconv_layout;
typedef enum megaconv_algorithm {
  MEGACONV_ALGORITHM_AUTO = 0,
  MEGACONV_ALGORITHM_DIRECT = 1,
  MEGACONV_ALGORITHM_WINOGRAD = 2,
  MEGACONV_ALGORITHM_OPENCNN = 3,        /* CUDA only */
  MEGACONV_ALGORITHM_FUSED_WINOGRAD = 4, /* CPU only */
  MEGACONV_ALGORITHM_IMPLICIT_GEMM = 5,  /* CUDA only */
  MEGACONV_ALGORITHM_SMALL_GEMM = 6      /* CUDA only */
} megaconv_algorithm;

/* Where a plan runs; see Backend (tiling.hpp). */
typedef enum megaconv_backend {
  MEGACONV_BACKEND_CPU = 0,
  MEGACONV_BACKEND_CUDA = 1,
  MEGACONV_BACKEND_SIM = 2 /* runs take no time and compute nothing */
} megaconv_backend;
/* The least precision of products of f32 tensors; see Precision (tiling.hpp). */
typedef enum megaconv_precision {
  MEGACONV_PRECISION_F32 = 0,
  MEGACONV_PRECISION_TF32 = 1,
  MEGACONV_PRECISION_F16 = 2,
  MEGACONV_PRECISION_BF16 = 3
} megaconv_precision;
/* How products are computed; see Arithmetic (tiling.hpp). */
typedef enum megaconv_arithmetic {
  MEGACONV_ARITHMETIC_AUTO = 0,
  MEGACONV_ARITHMETIC_FMA = 1,
  MEGACONV_ARITHMETIC_SPLIT_F16 = 2,
  MEGACONV_ARITHMETIC_TF32 = 3,
  MEGACONV_ARITHMETIC_F16 = 4,
  MEGACONV_ARITHMETIC_BF16 = 5
} megaconv_arithmetic;
/* Winograd's interpolation points; see Points (tiling.hpp). */
typedef enum megaconv_points {
  MEGACONV_POINTS_LOW_ERROR = 0,
  MEGACONV_POINTS_INTEGER = 1
} megaconv_points;
/* Who chooses what the caller leaves open; see PlanSource (plan.hpp). */
typedef enum megaconv_source {
  MEGACONV_SOURCE_DATABASE = 0, /* the plan database where it knows the problem */
  MEGACONV_SOURCE_HEURISTIC = 1,
  MEGACONV_SOURCE_MEASURE = 2
} megaconv_source;
/* What an epilogue does last, y of x; see Activation (activation.hpp). */
typedef enum megaconv_activation {
  MEGACONV_ACTIVATION_NONE = 0,
  MEGACONV_ACTIVATION_RELU = 1,
  MEGACONV_ACTIVATION_CLAMP = 2,      /* alpha to beta: ReLU6 is 0 to 6 */
  MEGACONV_ACTIVATION_LEAKY_RELU = 3, /* alpha x where x < 0 */
  MEGACONV_ACTIVATION_SIGMOID = 4,
  MEGACONV_ACTIVATION_HARD_SIGMOID = 5, /* alpha x + beta, between 0 and 1 */
  MEGACONV_ACTIVATION_SILU = 6,
  MEGACONV_ACTIVATION_HARD_SWISH = 7,
  MEGACONV_ACTIVATION_GELU = 8,
  MEGACONV_ACTIVATION_GELU_TANH = 9
} megaconv_activation;
/* How a CUDA run is launched; see CudaLaunch (plan.hpp). */
typedef enum megaconv_launch {
  MEGACONV_LAUNCH_AUTO = 0,
  MEGACONV_LAUNCH_PERSISTENT = 1,
  MEGACONV_LAUNCH_ONE_BLOCK_PER_TASK = 2,
  MEGACONV_LAUNCH_RAW_BLOCK_INDEX = 3,
  MEGACONV_LAUNCH_STAGED = 4
} megaconv_launch;

#define MEGACONV_MAX_STRUCT_SIZE 4096 /* bytes */

/* One convolution; see ConvProblem (problem.hpp) for shapes. Fill it with megaconv_problem_parse(),
 * or set every field. */
typedef struct megaconv_problem {
  size_t struct_size;
  int64_t n, c, h, w;
  int64_t k, r, s;
  int64_t pad_h, pad_w;
  int64_t stride_h, stride_w;
  int64_t dilation_h, dilation_w;
  int64_t groups;
  int32_t dtype;                       /* megaconv_dtype */
  int32_t layout;                      /* megaconv_layout */
  int32_t scale, bias, residual, relu; /* epilogue: 0 or 1 */
  int32_t activation;                  /* megaconv_activation; with relu = 1: 0 */
  float alpha, beta;                   /* its numbers, as far as it has any */
  int32_t reserved;                    /* 0 */
} megaconv_problem;

/* Threads of one's own: calls body(state, worker) for every worker from 0 to num_workers - 1, once
 * each, and returns when all calls have returned; see WorkerThreads (plan.hpp). */
typedef void (*megaconv_run_workers)(void* context, uint32_t num_workers,
                                     void (*body)(void* state, uint32_t worker), void* state);

/* What a caller may fix; zero, or a null pointer, lets the library choose. */
typedef struct megaconv_plan_options {
  size_t struct_size;
  int32_t algorithm;           /* megaconv_algorithm */
  uint32_t tile;               /* Winograd output tile m: 2, 4 or, on a CPU, 6 or 46 (4 x 6) */
  int32_t prepared_filters;    /* 1: filters are transformed once, by megaconv_prepare_filters */
  int32_t whole_tensors;       /* 1: no window; V and M whole */
  const char* policy;          /* "interleaved", "staged", ...; null: interleaved */
  uint32_t dig, dgo, m_groups; /* Algorithm 1; 0: choose */
  uint32_t num_threads;        /* CPU workers */
  uint32_t wait_budget_ms;
  uint32_t reserved;      /* 0 */
  int32_t backend;        /* megaconv_backend */
  int32_t precision;      /* megaconv_precision */
  int32_t arithmetic;     /* megaconv_arithmetic */
  int32_t points;         /* megaconv_points */
  int32_t source;         /* megaconv_source */
  uint32_t measure_ms;    /* budget of MEGACONV_SOURCE_MEASURE; 0: 1000 */
  const char* database;   /* plan database; null: the user's and the system's */
  size_t workspace_limit; /* bytes that a chosen plan may need; 0: any */
  int32_t launch;         /* megaconv_launch */
  uint32_t num_blocks;    /* CUDA: blocks of a persistent kernel; 0: what the device holds */
  const char* machine;    /* MEGACONV_BACKEND_SIM: "h200", ... or a model's JSON; null: "h200" */
  const char* policy_library;       /* a shared object with megaconv_policy, in place of `policy` */
  megaconv_run_workers run_workers; /* CPU: threads of one's own; null: megaconv's pool */
  void* run_workers_context;        /* must live as long as the plan */
  /* Error budget: the most relative L2 error that the plan may have by its bound, which decides,
   * not a measurement (TilingOptions::max_error). Algorithm, tile, points and products are chosen
   * within it; `precision` must be 0. 0: none. */
  double max_error;
} megaconv_plan_options;

/* Elements from one index to the next along each axis; all 0: dense. See TensorStrides (plan.hpp).
 */
typedef struct megaconv_strides {
  int64_t n, c, h, w;
} megaconv_strides;

/* Arguments of one run; see Tensors (plan.hpp). Unused ones are null. */
typedef struct megaconv_tensors {
  size_t struct_size;
  const void* x;
  const void* w;
  const void* scale;
  const void* bias;
  const void* residual;
  void* y;
  const void* prepared_filters;
  megaconv_strides x_strides;
  megaconv_strides y_strides; /* of y and of the residual */
} megaconv_tensors;

/* What is open about a network; see NetworkOptions (network.hpp) and OnnxOptions (onnx.hpp). Of a
 * model, seed and classes are not read, and a batch of 0 is the model's. */
typedef struct megaconv_network_options {
  size_t struct_size;
  int64_t batch;   /* 0: 1 */
  int64_t image;   /* height and width; 0: the usual, 224 or 299 */
  int64_t classes; /* 0: 1000 */
  uint64_t seed;   /* of the weights */
  int32_t dtype;   /* megaconv_dtype of all values */
  int32_t layout;  /* megaconv_layout of all values */
} megaconv_network_options;

/* An input or an output of a network. */
typedef struct megaconv_value {
  size_t struct_size;
  const char* name; /* the network's own, valid until it is destroyed */
  int64_t n, c, h, w;
} megaconv_value;

/* Arguments of one run of a network: pointers to dense tensors in its storage type and layout, in
 * the order of its inputs and outputs. */
typedef struct megaconv_network_tensors {
  size_t struct_size;
  const void* const* inputs;
  size_t num_inputs;
  void* const* outputs;
  size_t num_outputs;
  const void* prepared_filters;
} megaconv_network_tensors;

#ifdef __cplusplus
#define MEGACONV_ZEROS \
  {}
#else
#define MEGACONV_ZEROS \
  { 0 }
#endif

/* Zeros, but for struct_size. */
static inline megaconv_problem megaconv_problem_init(void) {
  megaconv_problem problem = MEGACONV_ZEROS;
  problem.struct_size = sizeof(problem);
  return problem;
}
static inline megaconv_plan_options megaconv_plan_options_init(void) {
  megaconv_plan_options options = MEGACONV_ZEROS;
  options.struct_size = sizeof(options);
  return options;
}
static inline megaconv_tensors megaconv_tensors_init(void) {
  megaconv_tensors tensors = MEGACONV_ZEROS;
  tensors.struct_size = sizeof(tensors);
  return tensors;
}
static inline megaconv_network_options megaconv_network_options_init(void) {
  megaconv_network_options options = MEGACONV_ZEROS;
  options.struct_size = sizeof(options);
  return options;
}
static inline megaconv_value megaconv_value_init(void) {
  megaconv_value value = MEGACONV_ZEROS;
  value.struct_size = sizeof(value);
  return value;
}
static inline megaconv_network_tensors megaconv_network_tensors_init(void) {
  megaconv_network_tensors tensors = MEGACONV_ZEROS;
  tensors.struct_size = sizeof(tensors);
  return tensors;
}
#undef MEGACONV_ZEROS

typedef struct megaconv_network megaconv_network;
typedef struct megaconv_plan megaconv_plan;

/* "0.2.0". */
const char* megaconv_version(void);

/* "invalid_argument", ...; "success" for 0, "unknown" for what is no megaconv_status. */
const char* megaconv_status_name(int32_t status);

/* The text of this thread's last failure; valid until its next failure. "" when there was none. */
const char* megaconv_last_error(void);

/* Reads a problem string such as "n64c128h28k128+nhwc+bias+relu". problem->struct_size must be set,
 * as megaconv_problem_init() does. */
megaconv_status megaconv_problem_parse(const char* text, megaconv_problem* problem);

/* A built-in network: "resnet50", "vgg16", ...; an unknown name is an error that lists them.
 * `options` may be null: a batch of 1 in f32 and NCHW. Destroy every network once; null is allowed.
 * Plans keep what they need of it. */
megaconv_status megaconv_network_make(const char* name, const megaconv_network_options* options,
                                      megaconv_network** network);
/* An ONNX model; see read_onnx (onnx.hpp). MEGACONV_UNSUPPORTED in a build without protobuf. */
megaconv_status megaconv_network_load(const char* path, const megaconv_network_options* options,
                                      megaconv_network** network);
void megaconv_network_destroy(megaconv_network* network);

/* Inputs and outputs, by index; value->struct_size must be set. 0 for a null network. */
size_t megaconv_network_num_inputs(const megaconv_network* network);
size_t megaconv_network_num_outputs(const megaconv_network* network);
megaconv_status megaconv_network_input(const megaconv_network* network, size_t index,
                                       megaconv_value* value);
megaconv_status megaconv_network_output(const megaconv_network* network, size_t index,
                                        megaconv_value* value);

/* Plans. `options` may be null. Destroy every plan once; null is allowed. */
megaconv_status megaconv_plan_create(const megaconv_problem* problem,
                                     const megaconv_plan_options* options, megaconv_plan** plan);
/* A plan from a mapping file's text; of `options`, only num_threads and wait_budget_ms are read.
 * `problem` may be null; when given, the file must be for it. */
megaconv_status megaconv_plan_create_from_mapping(const char* json, const megaconv_problem* problem,
                                                  const megaconv_plan_options* options,
                                                  megaconv_plan** plan);
/* A network as one task graph; see Plan::create(Network) for the options that it takes. */
megaconv_status megaconv_plan_create_network(const megaconv_network* network,
                                             const megaconv_plan_options* options,
                                             megaconv_plan** plan);
void megaconv_plan_destroy(megaconv_plan* plan);

/* Bytes, to be aligned to MEGACONV_ALIGNMENT; 0 for a null plan. */
#define MEGACONV_ALIGNMENT 64
size_t megaconv_workspace_bytes(const megaconv_plan* plan);
size_t megaconv_prepared_filter_bytes(const megaconv_plan* plan);

/* `w` is null for a plan of a network, which has its weights. */
megaconv_status megaconv_prepare_filters(const megaconv_plan* plan, const void* w, void* prepared);
megaconv_status megaconv_execute(const megaconv_plan* plan, const megaconv_tensors* tensors,
                                 void* workspace, size_t workspace_bytes);
megaconv_status megaconv_execute_network(const megaconv_plan* plan,
                                         const megaconv_network_tensors* tensors, void* workspace,
                                         size_t workspace_bytes);

/* The same on a cudaStream_t of a CUDA plan; null is the default stream, which the three above use.
 * Pointers are to device memory, and a run is only enqueued: a stream may capture it into a CUDA
 * graph. On a CPU the stream is not read. */
megaconv_status megaconv_prepare_filters_on(const megaconv_plan* plan, const void* w,
                                            void* prepared, void* stream);
megaconv_status megaconv_execute_on(const megaconv_plan* plan, const megaconv_tensors* tensors,
                                    void* workspace, size_t workspace_bytes, void* stream);
megaconv_status megaconv_execute_network_on(const megaconv_plan* plan,
                                            const megaconv_network_tensors* tensors,
                                            void* workspace, size_t workspace_bytes, void* stream);
/* Waits for the stream, and reports a run that was given up; see Plan::wait. */
megaconv_status megaconv_wait(const megaconv_plan* plan, void* workspace, void* stream);

/* Text of the plan's own, valid until it is destroyed: what was chosen and why; its mapping file.
 * Null for a null plan or when memory runs out. */
const char* megaconv_describe(megaconv_plan* plan);
const char* megaconv_export_mapping(megaconv_plan* plan);

/* A scheduling policy as a shared object (tools/examples/). It defines
 *
 *   int megaconv_policy(const megaconv_graph* graph, uint32_t* order);
 *
 * which writes the ids of all tasks into `order`, in the order in which workers shall take them,
 * and returns 0. Every task must stand after all tasks that it needs; megaconv proves that. Any
 * other value returned refuses the graph. `megaconv lab compare --policies ./mine.so` runs it.
 *
 * Tasks stand in stages: all tasks of one kind of one node, group by group. What a task needs is
 * said twice: by edges, for groups of stages, which is what most policies want; and by counters,
 * for single tasks. */

/* What a stage is for its node. */
typedef enum megaconv_role {
  MEGACONV_ROLE_PREPARE = 0, /* filter transforms, packing: the whole node may need them */
  MEGACONV_ROLE_INPUT = 1,   /* input transforms, copies */
  MEGACONV_ROLE_PRODUCT = 2, /* GEMM tiles; direct, pooling, elementwise tasks */
  MEGACONV_ROLE_OUTPUT = 3   /* output transforms */
} megaconv_role;

#define MEGACONV_NO_COUNTER 0xffffffffu

/* A task's id is its index in megaconv_graph.tasks. It runs when its counter has received
 * wait_count signals, and then signals all counters of some ranges. */
typedef struct megaconv_task {
  uint32_t kind;         /* that of its stage */
  uint32_t group, block; /* the block-th task of this group of its stage */
  uint32_t wait_counter; /* MEGACONV_NO_COUNTER: it waits for nothing */
  uint32_t wait_count;
  uint32_t first_signal; /* index of its first range in megaconv_graph.signals */
  uint32_t num_signals;  /* ranges */
  uint16_t node;
  uint16_t reserved;
} megaconv_task;

/* Counters [first, first + count). */
typedef struct megaconv_signal_range {
  uint32_t first, count;
} megaconv_signal_range;

/* The task with this group and block has the id first + group * per_group + block. */
typedef struct megaconv_stage {
  uint32_t node;
  int32_t role;             /* megaconv_role; a node has at most one stage of each */
  uint32_t kind;            /* 0 filter transform, 1 input transform, 2 GEMM, 3 output transform,
                               4 direct, 5 pooling, 6 elementwise; others may follow: go by the role */
  uint32_t first;           /* id of its first task */
  uint32_t groups;          /* task groups, */
  uint32_t per_group;       /*   of so many tasks each */
  uint32_t first_edge;      /* what its tasks need: index in megaconv_graph.edges, */
  uint32_t num_edges;       /*   and how many, sorted by first consumer group */
  double operations, bytes; /* estimates for one task: FLOPs, and bytes that it moves */
} megaconv_stage;

/* Groups [first, first + count) of a stage. */
typedef struct megaconv_group_range {
  uint32_t stage; /* index in megaconv_graph.stages */
  uint32_t first, count;
} megaconv_group_range;

/* Every task of the consumer groups needs every task of the producer groups. */
typedef struct megaconv_edge {
  megaconv_group_range consumer, producer;
  int32_t reuse; /* 1: no data passes; the consumer overwrites memory that the producer read */
} megaconv_edge;

/* The stages of a node stand in the order of their roles, nodes that produce before those that
 * consume. Ids follow the stages: without edges of reuse, 0, 1, 2, ... is a right order. (Only a
 * caller who fixes a window makes these; else the window is made to fit the order.) The library
 * sets struct_size. A policy must see that it is large enough before it reads fields of a later
 * version. */
typedef struct megaconv_graph {
  size_t struct_size;
  uint32_t num_tasks, num_counters, num_nodes, num_stages;
  uint32_t num_signals; /* signal ranges */
  uint32_t num_edges;
  const megaconv_task* tasks;
  const megaconv_stage* stages;
  const megaconv_signal_range* signals;
  const megaconv_edge* edges;
} megaconv_graph;

/* The node's stage with this megaconv_role; null when it has none. */
static inline const megaconv_stage* megaconv_find_stage(const megaconv_graph* graph, uint32_t node,
                                                        int32_t role) {
  for (uint32_t s = 0; s < graph->num_stages; ++s) {
    const megaconv_stage* stage = &graph->stages[s];
    if (stage->node == node && stage->role == role) return stage;
  }
  return NULL;
}

#ifdef __cplusplus
}
#endif

#endif
