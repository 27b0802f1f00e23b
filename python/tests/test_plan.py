# SPDX-License-Identifier: Apache-2.0
"""Problems, plans, policies, traces, simulation, threads."""

import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest
from reference import check, random_case

import megaconv

PROBLEM = megaconv.Problem("n2c20h13w11k24+bias+relu")


def tensors(problem, seed=1):
    random = np.random.default_rng(seed)
    return [random.standard_normal(shape).astype(np.float32)
            for shape in (problem.x_shape, problem.w_shape, (problem.k,))]


def test_importing_megaconv_imports_no_other_package():
    code = ("import sys, megaconv; "
            "print([m for m in ('numpy', 'torch', 'jax', 'matplotlib') if m in sys.modules])")
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          check=True).stdout.strip() == "[]"


def test_a_problem_is_a_value():
    assert str(PROBLEM) == "n2c20h13w11k24r3s3p1u1d1g1+bias+relu"
    assert megaconv.Problem(str(PROBLEM)) == PROBLEM == pickle.loads(pickle.dumps(PROBLEM))
    assert len({PROBLEM, megaconv.Problem(str(PROBLEM))}) == 1
    assert PROBLEM != megaconv.Problem("n2c20h13w11k24")
    assert (PROBLEM.x_shape, PROBLEM.w_shape, PROBLEM.y_shape) == (
        (2, 20, 13, 11), (24, 20, 3, 3), (2, 24, 13, 11))
    assert PROBLEM.flops == 2 * 2 * 24 * 13 * 11 * 20 * 9
    assert (PROBLEM.stride, PROBLEM.padding, PROBLEM.dilation) == ((1, 1),) * 3
    assert (PROBLEM.dtype, PROBLEM.layout, PROBLEM.bias, PROBLEM.residual) == (
        "f32", "nchw", True, False)


@pytest.mark.parametrize("options", [
    dict(), dict(threads=1), dict(threads=3), dict(algorithm="direct"), dict(filters="prepared"),
    *(dict(algorithm="winograd", tile=tile) for tile in (2, 4, "4x6", 6)),
    dict(algorithm="winograd", points="integer", policy="depth_first"),
    dict(algorithm="winograd", window="whole", dig=3, dgo=5, m_groups=2, policy="interleaved"),
    dict(algorithm="winograd", group_tiles=5, policy="random_topological", seed=7),
    dict(algorithm="fused_winograd", workspace_limit=10**7, source="heuristic"),
])
def test_a_plan_computes_the_same_whatever_is_asked_for(options):
    case = random_case(3)
    case.geometry.update(stride=(1, 1), dilation=(1, 1), padding=(1, 1), groups=1)
    case.x, case.w, case.bias = tensors(PROBLEM)
    case.residual, case.relu = None, True
    plan = megaconv.Plan(PROBLEM, **options)
    w = plan.prepare_filters(case.w) if options.get("filters") == "prepared" else case.w
    check(plan, plan(case.x, w, case.bias), *case.truth())
    assert plan.problem == PROBLEM and plan.backend == "cpu" and plan.workspace_bytes > 0
    assert str(PROBLEM) in plan.describe() and str(PROBLEM) in repr(plan)
    if "threads" in options:
        assert plan.workers == options["threads"]
    if "policy" in options:
        assert plan.policy == options["policy"]


def kahn(graph):
    """A policy in Python: any task whose producers are all done, those of the last group first."""
    missing = np.zeros(len(graph), np.int64)
    consumers = [[] for _ in range(len(graph))]
    for producer, consumer in graph.dependences().tolist():
        missing[consumer] += 1
        consumers[producer].append(consumer)
    ready = [int(task) for task in np.flatnonzero(missing == 0)]
    order = []
    while ready:
        order.append(ready.pop())
        for consumer in consumers[order[-1]]:
            missing[consumer] -= 1
            if missing[consumer] == 0:
                ready.append(consumer)
    return order


@pytest.mark.parametrize("result", [list, tuple, np.array, lambda o: np.array(o, np.uint8)])
def test_a_policy_may_be_a_python_function(result):
    x, w, bias = tensors(PROBLEM)
    staged = megaconv.Plan(PROBLEM, algorithm="winograd", tile=4, policy="staged", threads=3)
    graphs = []

    def policy(graph):
        graphs.append(graph)
        return result(kahn(graph))

    plan = megaconv.Plan(PROBLEM, algorithm="winograd", tile=4, group_tiles=4, policy=policy)
    assert plan.policy == "custom"
    assert list(plan.order) == kahn(graphs[0])
    assert not plan.order.flags.writeable
    assert np.array_equal(plan(x, w, bias), staged(x, w, bias))
    del plan
    assert len(graphs[0]) == len(kahn(graphs[0]))  # a graph may be kept


@pytest.mark.parametrize("policy, error, text", [
    (lambda graph: [], ValueError, "custom"),
    (lambda graph: np.zeros(len(graph), int), ValueError, "position 1"),
    (lambda graph: range(len(graph) + 1), ValueError, "custom"),
    (lambda graph: np.arange(len(graph))[::-1], ValueError, "waits for"),
    (lambda graph: np.arange(len(graph)) - 1, ValueError, "position 0 has -1, must be a task id"),
    (lambda graph: np.arange(len(graph)) + 2**40, ValueError, "must be a task id"),
    (lambda graph: np.arange(len(graph)) * 1.0, ValueError, "order of float64"),
    (lambda graph: np.zeros((len(graph), 1), int), ValueError, "with 2 axes"),
    (lambda graph: None, ValueError, "order of object"),
    (lambda: 0, TypeError, "positional argument"),
    (lambda graph: {}["missing"], KeyError, "missing"),
    (lambda graph: sys.exit(3), SystemExit, "3"),
])
def test_a_wrong_policy_is_refused_and_what_it_raises_passes_through(policy, error, text):
    with pytest.raises(error, match=text):
        megaconv.Plan(PROBLEM, algorithm="winograd", policy=policy)


def test_a_graph_has_stages_tasks_and_edges():
    plan = megaconv.Plan(PROBLEM, algorithm="winograd", tile=4, group_tiles=4, policy="staged")
    graph = plan.graph
    assert [stage.role for stage in graph.stages] == ["prepare", "input", "product", "output"]
    assert sum(stage.groups * stage.per_group for stage in graph.stages) == len(graph)
    gemm = graph.stages[2]
    assert (gemm.kind, graph.name(gemm.id(1, 0))) == ("gemm", "G[1,0]")
    tasks = graph.tasks
    assert {len(column) for column in tasks.values()} == {len(graph)}
    last = gemm.id(gemm.groups - 1, gemm.per_group - 1)
    assert (tasks["stage"][last], tasks["group"][last]) == (2, gemm.groups - 1)
    dependences = set(map(tuple, graph.dependences().tolist()))
    assert (0, gemm.id(0, 0)) in dependences  # filters
    assert (graph.stages[1].id(1, 0), gemm.id(1, 0)) in dependences
    assert graph.violation(plan.order) is None
    assert "waits for" in graph.violation(np.asarray(plan.order)[::-1])
    assert sorted(graph.order("depth_first")) == list(range(len(graph)))
    assert list(graph.order("random_topological", seed=1)) != list(
        graph.order("random_topological", seed=2))
    with pytest.raises(IndexError, match="task -1"):
        graph.name(-1)
    with pytest.raises(IndexError, match="group 99"):
        gemm.id(99, 0)


def test_a_mapping_file_gives_the_same_plan():
    plan = megaconv.Plan(PROBLEM, algorithm="winograd", policy="random_topological", seed=3)
    again = megaconv.Plan.from_mapping(plan.export_mapping(), threads=2)
    assert np.array_equal(plan.order, again.order)
    x, w, bias = tensors(PROBLEM)
    assert np.array_equal(plan(x, w, bias), again(x, w, bias))
    with pytest.raises(ValueError):
        megaconv.Plan.from_mapping("{")


def test_a_trace_has_a_row_for_each_position():
    plan = megaconv.Plan(PROBLEM, algorithm="winograd", policy="interleaved", threads=2)
    x, w, bias = tensors(PROBLEM)
    y = np.empty(PROBLEM.y_shape, np.float32)
    assert plan.execute(x, w, y, bias=bias) is None
    trace = plan.execute(x, w, y, bias=bias, trace=True)
    columns = trace.columns()
    assert len(trace) == len(plan.order) and trace.workers == 2
    assert np.array_equal(columns["task"], plan.order)
    assert np.all(columns["fetch_ns"] <= columns["ready_ns"])
    assert np.all(columns["ready_ns"] <= columns["end_ns"])
    assert set(columns["kind"]) == set(trace.analysis()["kinds"])
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    assert len(pandas.DataFrame(columns)) == len(trace)


def test_a_simulation_is_repeatable_and_no_faster_than_its_bounds():
    plan = megaconv.Plan("n16c64h28k64", backend="sim", machine="v100", policy="interleaved")
    first, second = (megaconv.simulate(plan, "v100") for _ in range(2))
    assert first.time_us == second.time_us > 0
    assert len(first.trace) == len(plan.order)
    assert 0 < first.utilisation["workers"] <= 1
    assert first.time_us >= megaconv.lower_bounds(plan.graph, "v100")["least_us"]
    assert megaconv.simulate(plan, "v100", workers=1).time_us > first.time_us
    with pytest.raises(ValueError, match="workers -1"):
        megaconv.simulate(plan, "v100", workers=-1)


def test_bench_measures_at_least_three_runs():
    times = megaconv.bench("c8h8k8+nhwc+bf16+bias", seconds=0, threads=1)
    assert len(times.samples_us) == 3
    assert times.least_us <= times.median_us <= max(times.samples_us)
    assert "GFLOP/s" in str(times)


def test_threads_may_share_a_plan():
    plan = megaconv.Plan("n1c64h56k64+bias", threads=1)
    x, w, bias = tensors(plan.problem)
    expected, wrong = plan(x, w, bias), []

    def run():
        for _ in range(20):
            if not np.array_equal(plan(x, w, bias), expected):
                wrong.append(1)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_gil_is_released_while_tasks_run():
    plan = megaconv.Plan("n4c128h56k128", threads=1)  # for milliseconds
    x, w, _ = tensors(plan.problem)
    y = np.empty(plan.problem.y_shape, np.float32)

    def moves_beside_a_run():
        begun, ended = threading.Event(), []
        thread = threading.Thread(
            target=lambda: (begun.set(), plan.execute(x, w, y), ended.append(1)))
        thread.start()
        begun.wait()
        moved = not ended
        thread.join()
        return moved

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # nobody takes the GIL away: it is released, or held to the end
    try:
        assert any(moves_beside_a_run() for _ in range(20))
    finally:
        sys.setswitchinterval(interval)


def test_threads_may_plan_with_policies_in_python():
    errors = []

    def run(seed):
        problem = megaconv.Problem(f"n1c{4 + seed}h9k8")
        for _ in range(5):
            plan = megaconv.Plan(problem, algorithm="winograd", policy=kahn)
            if plan.graph.violation(plan.order):
                errors.append(seed)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_pictures_are_drawn():
    matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    matplotlib.use("Agg")
    import megaconv.plot

    plan = megaconv.Plan(PROBLEM, algorithm="winograd", policy="interleaved", backend="sim",
                         machine="toy")
    axes = megaconv.plot.timeline(megaconv.simulate(plan, "toy").trace)
    assert len(axes.patches) == 2 * len(plan.order)
    axes = megaconv.plot.order(plan)
    assert sum(len(marks.get_offsets()) for marks in axes.collections) == len(plan.order)


def test_a_mapping_is_an_array():
    asked = dict(algorithm="winograd", threads=2)
    plan = megaconv.Plan(PROBLEM, policy="interleaved", **asked)
    order = np.arange(len(plan.graph), dtype=np.int32)  # stage after stage
    x, w, bias = tensors(PROBLEM)
    own = megaconv.Plan(PROBLEM, policy=order, **asked)
    assert np.array_equal(own.order, order)
    assert np.array_equal(own(x, w, bias), plan(x, w, bias))
    with pytest.raises(ValueError, match="position 0: .* waits for .* which stands later"):
        megaconv.Plan(PROBLEM, policy=order[::-1], **asked)
    with pytest.raises(ValueError, match="order of float64"):
        megaconv.Plan(PROBLEM, policy=order / 2, **asked)


def test_a_policy_in_python_keeps_no_plan_alive_at_the_end():
    code = ("import megaconv; policy = lambda graph: range(len(graph)); "
            "plan = megaconv.Plan('c8h8k8', algorithm='winograd', policy=policy)")
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          check=True).stderr == ""


def test_bench_measures_networks_and_plans():
    plan = megaconv.NetworkPlan(megaconv.network("resnet18", image=32, classes=10), threads=1)
    times = megaconv.bench(plan, seconds=0)
    assert times.plan is plan and len(times.samples_us) == 3
    assert "NetworkPlan" in str(times)
    with pytest.raises(ValueError, match="plan of a network"):
        times.gflops
    with pytest.raises(ValueError, match="options threads beside a plan"):
        megaconv.bench(plan, threads=1)
    with pytest.raises(NotImplementedError, match='backend "sim", must be'):
        megaconv.bench("c8h8k8", backend="sim")


def test_tune_keeps_what_it_measures_and_plans_find_it(tmp_path):
    asked = dict(threads=1, database=str(tmp_path / "plans.db"))
    tuned = megaconv.tune("n1c16h14k16", evaluations=12, seconds=0, **asked)
    columns = tuned.columns()
    assert tuned.best_ms > 0 and tuned.heuristic_ms in columns["best_ms"]
    assert len({len(column) for column in columns.values()}) == 1
    assert np.count_nonzero(columns["strategy"] == "model") == 12
    assert tuned.configuration in columns["configuration"]
    assert set(columns["verdict"]) <= {"right", "refused"}
    assert min(columns["best_ms"][columns["strategy"] == "final"]) == tuned.best_ms
    plan = megaconv.Plan("n1c16h14k16", **asked)
    assert f"database {asked['database']}" in plan.describe()
    assert plan.export_mapping() == tuned.plan.export_mapping()


@pytest.mark.parametrize("wrong, message", [
    (dict(seconds=-1.0), "seconds -1.* must be 0 or more"),
    (dict(seconds=float("nan")), "seconds nan"),
    (dict(seconds=0), "seconds 0 and evaluations 0, one must be more"),
    (dict(evaluations=-1), "evaluations -1"),
    (dict(strategy="luck"), "luck"),
    (dict(backend="sim"), 'backend "sim", must be'),
    (dict(policy=lambda graph: range(len(graph))), "policy of the caller's"),
])
def test_what_is_wrong_for_tune_is_named(wrong, message, tmp_path):
    with pytest.raises((ValueError, NotImplementedError), match=message):
        megaconv.tune("c8h8k8", database=str(tmp_path / "plans.db"), **wrong)


def test_workers_run_on_threads_of_the_callers_own():
    from concurrent.futures import ThreadPoolExecutor

    seen = set()
    with ThreadPoolExecutor(3) as pool:
        def run(count, body):
            assert count == 3
            list(pool.map(lambda i: (seen.add(threading.get_ident()), body(i)), range(count)))

        plan = megaconv.Plan(PROBLEM, threads=3, run_workers=run)
        del run
        x, w, bias = tensors(PROBLEM)
        assert np.array_equal(plan(x, w, bias), megaconv.Plan(PROBLEM, threads=3)(x, w, bias))
        net = megaconv.network("resnet18", image=32, classes=10)
        image = np.ones((1, 3, 32, 32), np.float32)
        own = megaconv.NetworkPlan(
            net, threads=2, run_workers=lambda count, body: list(pool.map(body, range(count))))
        assert np.array_equal(own(image), megaconv.NetworkPlan(net, threads=2)(image))
    assert seen and threading.get_ident() not in seen
    lazy = megaconv.Plan(PROBLEM, threads=2, run_workers=lambda count, body: body(0))
    with pytest.raises(ValueError, match="worker"):
        lazy(x, w, bias)
    with pytest.raises(NotImplementedError, match="run_workers"):
        megaconv.tune("c8h8k8", run_workers=print)


def test_a_plan_keeps_to_its_error_budget():
    usual = megaconv.Plan("n2c64h32k64")
    norm = usual.error_bound[0]
    assert megaconv.Plan("n2c64h32k64", max_error=norm).error_bound == usual.error_bound
    exact = megaconv.Plan("n2c64h32k64", max_error=norm / 2)
    assert exact.error_bound[0] <= norm / 2
    assert "rejected: fused winograd F(4x4, 3x3): error" in exact.describe()
    x, w, _ = tensors(megaconv.Problem("n2c64h32k64"))
    y = megaconv.conv2d(x, w, padding=1, max_error=norm / 2)
    assert np.array_equal(y, exact(x, w)) and not np.array_equal(y, usual(x, w))
    net = megaconv.network("resnet18", image=32, classes=10)
    assert megaconv.NetworkPlan(net, max_error=1e-4).describe()
    with pytest.raises(NotImplementedError, match=r"^conv1: max_error = 1e-09: must be at least"):
        megaconv.NetworkPlan(net, max_error=1e-9)
