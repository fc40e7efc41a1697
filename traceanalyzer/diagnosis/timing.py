"""Whether host and GPU ran as they do without a recorder: waits in phases, and how far ahead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analyses.trust import SYNC_GAP_SHARE
from traceanalyzer.diagnosis.case import ERROR, INFO, WARNING, many
from traceanalyzer.phases.phased import OTHER, UNATTRIBUTED
from traceanalyzer.phases.rules import is_prompt_work
from traceanalyzer.report import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.diagnosis.case import Case


def synchronisation_in_phases(case: Case) -> Finding | None:
    """Blocking calls inside of phases."""
    found = case.report.instrumentation
    if found is None or not found.cycles:
        return None
    calls = [each for each in found.sync_calls if each.scope == "device"]
    if found.synchronised:
        phases = ", ".join(dict.fromkeys(each.phase for each in calls))
        return Finding(
            "synchronisation_in_phases",
            f"cudaDeviceSynchronize is called in every cycle, in {phases}",
            "Take the timers out (torch.cuda.synchronize, cudaDeviceSynchronize) and record with: "
            "traceanalyzer capture (its hooks never wait).",
            ERROR,
            f"{found.device_syncs_per_cycle:.1f} calls a cycle, over {many(found.cycles, 'cycle')}",
            f"without them a cycle would be about {found.host_gap_share:.1%} shorter; the verdict "
            "is withheld",
        )
    if found.sync_gap_share <= SYNC_GAP_SHARE:
        return None
    waits = sorted(found.sync_calls, key=lambda each: -each.host_ns)
    return Finding(
        "synchronisation_in_phases",
        "the GPU idles while the host waits for it inside of cycles",
        "Look for .item(), .cpu(), .tolist() and stream synchronisation in "
        f"{waits[0].phase if waits else 'the phase with the gaps'}; copy with non_blocking=True "
        "and read the result an iteration later.",
        WARNING,
        f"{found.sync_gap_share:.1%} of the cycles' time is idle because of waits",
        "a property of the server, not of the recording: the cycle can get that much shorter",
    )


def _lags(case: Case) -> Iterator[tuple[float, str]]:
    """Each phase's median host lead: in cycles, and in words."""
    for rank in case.report.ranks:
        period_ns = rank.cycles.period_ns.p50 if rank.cycles.period_ns else 0
        for phase in rank.phases if period_ns else ():
            if phase.host_lead_ns and _is_of_a_cycle(phase.phase):
                lead_ns = phase.host_lead_ns.p50
                yield (
                    lead_ns / period_ns,
                    f"{phase.phase} on rank {rank.rank}: launched {lead_ns / 1e6:,.3f} ms ahead "
                    f"(median), a cycle takes {period_ns / 1e6:,.3f} ms",
                )


def _is_of_a_cycle(phase: str) -> bool:
    return phase not in (OTHER, UNATTRIBUTED) and not is_prompt_work(phase)


def lag_over_a_cycle(case: Case) -> Finding | None:
    """The GPU is so far behind that a phase's kernels run in a later cycle than their range."""
    worst = max(_lags(case), default=(0.0, ""))
    if worst[0] <= 1:
        return None
    return Finding(
        "lag_over_a_cycle",
        f"the GPU runs {worst[0]:.1f} cycles behind the host",
        "Nothing for the figures, which go by launch; to read the timeline with the eye, record "
        "without overlap (SGLang --disable-overlap-schedule, vLLM --no-async-scheduling).",
        INFO,
        worst[1],
        "kernels run under later ranges than their own: tools that go by time give them the wrong "
        "phase",
    )
