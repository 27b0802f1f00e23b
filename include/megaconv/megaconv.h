/* SPDX-License-Identifier: Apache-2.0 */
/* The C ABI: the same problems, plans and mapping files as the C++ API, without exceptions.
 *
 * Every function that can fail returns a megaconv_status; megaconv_last_error() then says what was
 * wrong, in one line that names the value received and what is allowed. Output arguments are
 * written only on success. A plan may be used by any number of threads at once, each run with a
 * workspace of its own. */
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
  MEGACONV_CHWN = 2
} megaconv_layout;
typedef enum megaconv_algorithm {
  MEGACONV_ALGORITHM_AUTO = 0,
  MEGACONV_ALGORITHM_DIRECT = 1,
  MEGACONV_ALGORITHM_WINOGRAD = 2,
  MEGACONV_ALGORITHM_OPENCNN = 3,       /* CUDA only */
  MEGACONV_ALGORITHM_FUSED_WINOGRAD = 4 /* CPU only */
} megaconv_algorithm;

/* One convolution; see ConvProblem (problem.hpp) for shapes. Start from megaconv_problem_parse() or
 * fill every field. */
typedef struct megaconv_problem {
  int64_t n, c, h, w;
  int64_t k, r, s;
  int64_t pad_h, pad_w;
  int64_t stride_h, stride_w;
  int64_t dilation_h, dilation_w;
  int64_t groups;
  megaconv_dtype dtype;
  megaconv_layout layout;
  int32_t scale, bias, residual, relu; /* epilogue: 0 or 1 */
} megaconv_problem;

/* What a caller may fix; zero everywhere, or a null pointer, lets the library choose. */
typedef struct megaconv_plan_options {
  megaconv_algorithm algorithm;
  uint32_t tile;               /* Winograd output tile m: 2, 4 or 6 */
  int32_t prepared_filters;    /* 1: filters are transformed once, by megaconv_prepare_filters */
  int32_t whole_tensors;       /* 1: no window; V and M whole */
  const char* policy;          /* "interleaved", "staged", ...; null: interleaved */
  uint32_t dig, dgo, m_groups; /* Algorithm 1; 0: choose */
  uint32_t num_threads;        /* CPU workers */
  uint32_t wait_budget_ms;
} megaconv_plan_options;

/* Arguments of one run; see Tensors (plan.hpp). Unused ones are null. */
typedef struct megaconv_tensors {
  const void* x;
  const void* w;
  const void* scale;
  const void* bias;
  const void* residual;
  void* y;
  const void* prepared_filters;
} megaconv_tensors;

typedef struct megaconv_plan megaconv_plan;

/* "0.1.0". */
const char* megaconv_version(void);

/* "invalid_argument", ...; "success" for 0. */
const char* megaconv_status_name(megaconv_status status);

/* The text of this thread's last failure; valid until its next failure. "" when there was none. */
const char* megaconv_last_error(void);

/* Reads a problem string such as "n64c128h28k128+nhwc+bias+relu". */
megaconv_status megaconv_problem_parse(const char* text, megaconv_problem* problem);

/* Plans. `options` may be null. Destroy every plan once; null is allowed. */
megaconv_status megaconv_plan_create(const megaconv_problem* problem,
                                     const megaconv_plan_options* options, megaconv_plan** plan);
/* A plan from a mapping file's text; of `options`, only num_threads and wait_budget_ms are read.
 * `problem` may be null; when given, the file must be for it. */
megaconv_status megaconv_plan_create_from_mapping(const char* json, const megaconv_problem* problem,
                                                  const megaconv_plan_options* options,
                                                  megaconv_plan** plan);
void megaconv_plan_destroy(megaconv_plan* plan);

/* Bytes, to be aligned to MEGACONV_ALIGNMENT; 0 for a null plan. */
#define MEGACONV_ALIGNMENT 64
size_t megaconv_workspace_bytes(const megaconv_plan* plan);
size_t megaconv_prepared_filter_bytes(const megaconv_plan* plan);

megaconv_status megaconv_prepare_filters(const megaconv_plan* plan, const void* w, void* prepared);
megaconv_status megaconv_execute(const megaconv_plan* plan, const megaconv_tensors* tensors,
                                 void* workspace, size_t workspace_bytes);

/* Text of the plan's own, valid until it is destroyed: what was chosen and why; its mapping file.
 * Null for a null plan or when memory runs out. */
const char* megaconv_describe(megaconv_plan* plan);
const char* megaconv_export_mapping(megaconv_plan* plan);

/* A scheduling policy as a shared object (tools/examples/). It defines
 *
 *   int megaconv_policy(const megaconv_graph* graph, uint32_t* order);
 *
 * which writes the ids of all tasks into `order`, in the order in which workers shall take them,
 * and returns 0. Every task must stand after those that its counter waits for; megaconv proves
 * that. Any other value returned refuses the graph. `megaconv lab compare --policies ./mine.so`
 * runs it. */

/* An id is an index into megaconv_graph.tasks. kind: 0 filter transform, 1 input transform, 2 GEMM,
 * 3 output transform, 4 direct. 0xffffffff: no counter. */
typedef struct megaconv_task {
  uint32_t kind, group, block;
  uint32_t wait_counter, wait_count;   /* it runs when this counter has so many signals */
  uint32_t signal_first, signal_count; /* counters that it signals: a range, */
  uint32_t release_counter;            /* and this one */
} megaconv_task;

/* Ids stand in staged order: filter transforms, then for every group its input transforms, then for
 * every group its GEMM (or direct) tasks, then for every group its output transforms. */
typedef struct megaconv_graph {
  uint32_t num_tasks, num_counters;
  uint32_t num_groups;       /* NG */
  uint32_t num_filter_tasks; /* NF, and of each group: */
  uint32_t input_tasks;      /* SI */
  uint32_t gemm_tasks;       /* SG */
  uint32_t output_tasks;     /* SO */
  const megaconv_task* tasks;
} megaconv_graph;

#ifdef __cplusplus
}
#endif

#endif
