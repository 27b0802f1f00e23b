# SPDX-License-Identifier: Apache-2.0
"""Pictures of runs and of orders. matplotlib is imported when one is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from megaconv import _core

if TYPE_CHECKING:
    import matplotlib.axes

# As in the pages that the command writes.
_COLOURS = {"filter_transform": "#8c8c8c", "input_transform": "#3b7dd8", "gemm": "#e0a030",
            "output_transform": "#3aa17e", "direct": "#9b59b6", "pooling": "#c0504d"}


def _axes(axes: Any) -> Any:
    if axes is not None:
        return axes
    import matplotlib.pyplot

    return matplotlib.pyplot.subplots(figsize=(10, 3))[1]


def _legend(axes: Any, kinds: list[str]) -> None:
    from matplotlib.patches import Patch

    axes.legend(handles=[Patch(color=_COLOURS.get(kind, "black"), label=kind) for kind in kinds],
                loc="upper left", bbox_to_anchor=(1, 1), frameon=False)


def timeline(trace: _core.Trace, axes: matplotlib.axes.Axes | None = None) -> Any:
    """A row for each worker, a bar for each task from ready to end; waiting is grey.

    Draws on `axes`, or on a new figure; returns the axes.
    """
    axes = _axes(axes)
    columns = trace.columns()
    fetch, ready, end = (columns[name] / 1e3 for name in ("fetch_ns", "ready_ns", "end_ns"))
    axes.barh(columns["worker"], ready - fetch, left=fetch, height=0.8, color="#dddddd")
    kinds = list(dict.fromkeys(columns["kind"].tolist()))
    for kind in kinds:
        rows = columns["kind"] == kind
        axes.barh(columns["worker"][rows], (end - ready)[rows], left=ready[rows], height=0.8,
                  color=_COLOURS.get(kind, "black"))
    axes.set(xlabel="us", ylabel="worker", ylim=(trace.workers - 0.5, -0.5))
    _legend(axes, kinds)
    return axes


def order(plan: _core.Plan, axes: matplotlib.axes.Axes | None = None) -> Any:
    """The order of a plan's tasks: a mark for each, its task group over its position.

    Draws on `axes`, or on a new figure; returns the axes.
    """
    axes = _axes(axes)
    tasks, stages = plan.graph.tasks, plan.graph.stages
    groups, of_stage = tasks["group"][plan.order], tasks["stage"][plan.order]
    for index, stage in enumerate(stages):
        positions = (of_stage == index).nonzero()[0]
        axes.scatter(positions, groups[positions], s=4, color=_COLOURS.get(stage.kind, "black"))
    axes.set(xlabel="position", ylabel="task group")
    _legend(axes, list(dict.fromkeys(stage.kind for stage in stages)))
    return axes
